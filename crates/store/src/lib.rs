//! Docket's storage: transactions, statements and migrations, on SQLite and on PostgreSQL.
//!
//! A use case is written once, over one concrete [`Tx`], and handed to [`Store::run`], which owns beginning, retrying,
//! committing and finding out what became of a commit whose answer was lost. The tables are in [`table`], one a module, with
//! portable SQL; the few operations that decide Docket's speed are tuned for each database in `hot`.
//!
//! Deliberately absent: rules. What may happen is decided in `docket-core` and the engine; this crate writes it down.

mod coalesce;
mod error;
mod hint;
pub mod hot;
mod meter;
mod migrate;
mod postgres;
pub mod source;
mod sqlite;
pub mod statement;
mod store;
pub mod table;
mod tx;
pub mod value;

pub use coalesce::{Coalescer, Turns, Weight};
pub use error::{Error, Result};
pub use hint::{Hint, Hints};
pub use migrate::schema_version;
pub use store::{Backend, BoxFuture, Operation, PostgresConfig, Store, StoreConfig, to_its_end};
pub use tx::Tx;

/// Every statement there is, for the test that prepares them all.
pub fn all_statements() -> Vec<&'static statement::Statement> {
    table::STATEMENTS
        .iter()
        .chain(hot::STATEMENTS)
        .flat_map(|module| module.iter().copied())
        .collect()
}
