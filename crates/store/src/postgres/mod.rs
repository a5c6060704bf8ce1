//! PostgreSQL: pooled connections, transactions that begin with their first statement, commits whose outcome is always known.

mod clock;
pub(crate) mod connect;
mod dial;
mod flight;
mod floor;
mod listen;
mod run;
mod tls;
mod tx;

pub(crate) use connect::{Postgres, Route};
pub(crate) use floor::BOTTOM;
pub(crate) use tx::{PgTx, Query};
