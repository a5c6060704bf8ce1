//! The state-machine test: random operations on the engine and on a simple model of it, on both databases.
//!
//! `DOCKET_MODEL_SEED` runs the cases of a seed again; `DOCKET_MODEL_CASES` runs more or fewer of them.

use std::io::Write as _;

use docket_testkit::model::Mutation;
use docket_testkit::model::run::Arena;
use docket_testkit::model::search::{On, Search, cases, seed};

/// What has to happen in a search, or it has looked at too little.
const ACTIONS: [&str; 13] = [
    "field.corrected",
    "item.cancelled",
    "item.reprocessed",
    "item.submitted",
    "item.versioned",
    "job.cancelled",
    "job.claimed",
    "job.completed",
    "job.failed",
    "job.released",
    "job.retried",
    "job.stale",
    "job.step_completed",
];

/// Past the test harness, which would keep it to itself when all goes well.
fn tell(line: &str) {
    writeln!(std::io::stderr(), "{line}").ok();
}

fn search(on: On, usual_cases: u32) {
    let search = Search::<Arena> {
        on,
        seed: seed(),
        cases: cases(usual_cases),
        longest: 120,
        shrinks: 2_000,
        mutation: None,
    };
    let (seed, cases) = (search.seed, search.cases);
    tell(&format!(
        "{on:?}: DOCKET_MODEL_SEED={seed} DOCKET_MODEL_CASES={cases}"
    ));
    let done = search.expect_nothing();
    let (steps, actions) = (done.steps, &done.actions);
    tell(&format!(
        "{on:?}: {steps} operations went as the model says: {actions:?}"
    ));
    if search.cases >= usual_cases {
        for action in ACTIONS {
            assert!(done.actions.contains_key(action), "{action} never happened");
        }
    }
}

#[test]
fn the_engine_does_what_the_model_says_on_sqlite() {
    search(On::Sqlite, 120);
}

#[test]
fn the_engine_does_what_the_model_says_on_postgres() {
    search(On::Postgres, 50);
}

fn with_wrong_rule(mutation: Mutation, shrinks: u32) -> Search<Arena> {
    Search {
        on: On::Sqlite,
        seed: 1,
        cases: 60,
        longest: 120,
        shrinks,
        mutation: Some(mutation),
    }
}

/// A test that cannot fail proves nothing: with a rule of the model made wrong it has to.
#[test]
fn the_model_test_finds_a_wrong_rule() {
    for mutation in [
        Mutation::NoLimit,
        Mutation::LastInFirstOut,
        Mutation::NoFairness,
        Mutation::TokenNeverRises,
        Mutation::AlwaysStrict,
        Mutation::ShortWindow,
        Mutation::CorrectionsForgotten,
        Mutation::WaitingNotAhead,
    ] {
        let found = with_wrong_rule(mutation, 0).run();
        assert!(found.is_err(), "{mutation:?} goes unnoticed");
    }
}

#[test]
fn a_difference_is_shown_by_a_few_operations() {
    let found = with_wrong_rule(Mutation::LastInFirstOut, 500).run();
    let found = found.expect_err("a lane served backwards goes unnoticed");
    // Something to claim, and the claim.
    assert!(found.ops.len() <= 3, "{:#?}", found.ops);
}
