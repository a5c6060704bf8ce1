# Thin by intent: each target is one or two commands that can be typed by hand.
# CI calls these targets and nothing else, so green here means green there.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# A fresh rustup is often not on the PATH of a non-login shell; what is on the PATH already wins.
export PATH := $(PATH):$(HOME)/.cargo/bin

# Arguments for `make run`, `make bench` and `make fuzz`, for example: make bench ARGS=--quick
ARGS ?=

.PHONY: help run demo test fuzz lint check bench fmt clean-clusters kill-outbox mutate-outbox

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build Docket and serve a small world in ./docket-data (ARGS=... is passed on)
	@scripts/setup rust cc
	cargo run --release --locked -p docket-cli -- serve --demo $(ARGS)

demo: ## Build Docket and show it at work in the terminal (ARGS=... is passed on)
	@scripts/setup rust cc
	cargo run --release --locked -p docket-cli -- demo $(ARGS)

test: check ## Every check, then every test on SQLite and on a throw-away PostgreSQL
	@scripts/setup postgres promtool pyjwt moto curl openssl schemathesis channels
	scripts/with-postgres cargo test --workspace --locked
	scripts/schemathesis --seed 1 --examples 15

fuzz: ## Call a running server with anything, by its OpenAPI document (ARGS='--examples 2000 --seed 7')
	@scripts/setup rust cc python schemathesis
	cargo build --release --locked -p docket-cli
	scripts/schemathesis --binary target/release/docket --examples 500 $(ARGS)

lint: check ## Format, clippy, guarantees, tidy; and cargo-deny where it is installed
	@if cargo deny --version >/dev/null 2>&1; then \
		echo 'cargo deny check'; cargo deny check; \
	else \
		echo 'lint: cargo-deny is not installed, so licences and advisories were not checked (cargo install cargo-deny --locked)'; \
	fi

# The part that `test` and `lint` share. The cheap checks come first, so that a slip shows within a second.
check:
	@scripts/setup rust rust-lint cc python git
	cargo fmt --all --check
	scripts/tidy
	scripts/check-guarantees
	cargo clippy --workspace --all-targets --locked -- -D warnings

# The tests of channels come along for the provider's program, which is built with them; none of them is run.
kill-outbox: ## Kill 200 servers on the way of webhooks and 200 on the way of mails, on each database (ARGS=SEED)
	@scripts/setup rust cc postgres channels
	DOCKET_OUTBOX_ROUNDS=200 DOCKET_OUTBOX_SEED=$(or $(ARGS),1) scripts/with-postgres \
		cargo test --locked -p docket-cli -p docket-testkit --test serve --test channels outbox:: -- --test-threads 4

mutate-outbox: ## Break the outbox in one place after the other; the suite has to notice (ARGS='no-intent no-fence')
	@scripts/setup rust cc postgres python
	scripts/mutate-outbox $(ARGS)

bench: ## Measure on SQLite and on a throw-away PostgreSQL (ARGS=--quick takes some two minutes)
	@scripts/setup rust cc postgres
	cargo build --release --locked -p docket-cli
	scripts/with-postgres --bench cargo run --release -p docket-bench --locked -- $(ARGS)

fmt: ## Format the Rust sources
	@scripts/setup rust rust-lint
	cargo fmt --all

clean-clusters: ## Remove the PostgreSQL clusters of runs that were killed with -9
	scripts/pg-cluster sweep
