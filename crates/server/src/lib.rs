//! Docket's HTTP edge: the wire contract over the engine.
//!
//! A handler reads a request ([`extract`]), is told who asks ([`caller`]), calls the engine once, and writes the answer. Rules, SQL
//! and credentials are other crates' business. Invariants:
//!
//! - Whoever may call is part of a handler's signature ([`caller::As`]): a scope or an operator comes from nowhere else.
//! - Every error is `application/problem+json` ([`error`]), also those of axum and of a panic.
//! - Every body, header, wait and buffer has a bound ([`state::ServerConfig`]).
//! - What is served is what the OpenAPI document says ([`openapi`]): both are made from the same handlers.
//!
//! To serve: make an [`AppState`] from an engine and its access, hand `router(state)` to [`serve`] with a listener, and end it by a
//! future that resolves at the signal to stop. [`AppState::begin_shutdown`] ends waiting claims and streams; `serve` calls it first.
//! [`ServerConfig::observe`] is told of every answered request, for metrics.

mod body;
pub mod caller;
mod dictionary;
mod disposition;
mod entry;
pub mod error;
pub mod extract;
mod idempotency;
mod layer;
pub mod openapi;
mod page;
mod proxy;
mod room;
mod route;
mod router;
mod serve;
mod stall;
pub mod state;
mod strict;

pub use layer::Observed;
pub use proxy::{ForwardedBy, Network, Proxies};
pub use router::router;
pub use serve::serve;
pub use state::{AppState, ServerConfig};
