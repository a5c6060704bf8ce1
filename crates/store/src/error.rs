//! What can go wrong between an operation and its database. Whether to try again is decided in one place, by
//! [`Error::is_transient`], and used by `run` alone.

use docket_core::Refusal;
use tokio_postgres::error::SqlState;

/// The phase in which a transaction begins.
pub(crate) const BEGIN: &str = "begin";

/// Short for a result of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operation was refused by a rule; its transaction was rolled back.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// SQLite failed.
    #[error("SQLite failed in {statement}")]
    Sqlite {
        /// The statement or phase.
        statement: &'static str,
        /// Its words.
        source: rusqlite::Error,
    },
    /// PostgreSQL failed.
    #[error("PostgreSQL failed in {statement}")]
    Postgres {
        /// The statement or phase.
        statement: &'static str,
        /// Its words.
        source: tokio_postgres::Error,
    },
    /// No connection could be had, or what was under way on one did not happen. Its words are whole sentences: they are handed on to
    /// others who waited for the same.
    #[error("{reason}")]
    NoConnection {
        /// What happened.
        reason: String,
        /// Whether another try could help.
        transient: bool,
    },
    /// The answer to a commit was lost, and whether it happened could not be found out.
    #[error("it is unknown whether {operation} was committed: {reason}")]
    UnknownCommit {
        /// The operation.
        operation: &'static str,
        /// Why nobody knows.
        reason: &'static str,
    },
    /// A write touched another number of rows than it must.
    #[error("{statement} touched {touched} rows instead of {expected}")]
    WrongRows {
        /// The statement.
        statement: &'static str,
        /// What it touched.
        touched: u64,
        /// What it had to touch.
        expected: u64,
    },
    /// A row holds what it cannot hold.
    #[error("a row of {statement} is inconsistent in column {column}")]
    Inconsistent {
        /// The statement.
        statement: &'static str,
        /// The column, from 0.
        column: usize,
    },
    /// Stored JSON that cannot be read back.
    #[error("stored JSON of {what} cannot be read")]
    Json {
        /// What it belongs to.
        what: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// A call of several that ran together was left without an answer. Each is given one: this is a fault of Docket's own.
    #[error("a call of {operation} was left without an answer")]
    Unanswered {
        /// The operation.
        operation: &'static str,
    },
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
    /// The store for files failed: it cannot be reached, or takes nothing more.
    #[error("the store for files failed")]
    Files(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The data folder, its lock, or the schema's version.
    #[error("{0}")]
    Open(String),
}

impl Error {
    pub(crate) const fn sqlite(statement: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Sqlite { statement, source }
    }

    pub(crate) const fn postgres(statement: &'static str) -> impl FnOnce(tokio_postgres::Error) -> Self {
        move |source| Self::Postgres { statement, source }
    }

    /// No connection could be had, for this reason.
    pub(crate) fn no_connection(why: &dyn std::error::Error, transient: bool) -> Self {
        Self::NoConnection {
            reason: format!("no connection to PostgreSQL could be had: {}", chain(why)),
            transient,
        }
    }

    /// The operation panicked: a fault of its own, and nobody else's.
    pub(crate) fn panicked() -> Self {
        Self::Open("the operation panicked".to_owned())
    }

    /// The refusal, where it is one.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the same operation may succeed if it is tried again, the transaction having been rolled back.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Postgres { source, .. } => is_transient(source) || self.is_of_a_standby(),
            Self::NoConnection { transient, .. } => *transient,
            _ => false,
        }
    }

    /// Whether it comes of a server that only reads, such as a standby: another one may write, and this connection never will.
    pub(crate) fn is_of_a_standby(&self) -> bool {
        let Self::Postgres { statement, source } = self else {
            return false;
        };
        match source.code() {
            Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => true,
            // How a standby refuses a transaction that is to write.
            Some(code) => *code == SqlState::FEATURE_NOT_SUPPORTED && *statement == BEGIN,
            None => false,
        }
    }

    /// Whether the connection is gone, so that nothing is known of what was under way on it.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Postgres { source, .. } if is_lost(source))
    }

    /// Whether it is the database's trouble rather than that of one operation among several that ran together.
    pub(crate) fn is_everybodys(&self) -> bool {
        matches!(self, Self::UnknownCommit { .. } | Self::Closed) || self.is_transient()
    }

    /// The same once more, for somebody else who has to hear it.
    pub(crate) fn for_another(&self) -> Self {
        match self {
            Self::UnknownCommit { operation, reason } => Self::UnknownCommit { operation, reason },
            Self::Closed => Self::Closed,
            other => Self::NoConnection {
                reason: chain(other),
                transient: other.is_transient(),
            },
        }
    }

    /// Whether a unique key was violated: somebody else was faster.
    pub fn is_unique_violation(&self) -> bool {
        match self {
            Self::Postgres { source, .. } => source.code() == Some(&SqlState::UNIQUE_VIOLATION),
            Self::Sqlite { source, .. } => matches!(
                source.sqlite_error().map(|error| error.extended_code),
                Some(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY)
            ),
            _ => false,
        }
    }
}

/// Serialization failures, deadlocks, lost connections, servers that start, stop or are full.
pub(crate) fn is_transient(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => {
            [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::LOCK_NOT_AVAILABLE,
                SqlState::TOO_MANY_CONNECTIONS,
                SqlState::CANNOT_CONNECT_NOW,
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                SqlState::IDLE_SESSION_TIMEOUT,
            ]
            .contains(code)
                || code.code().starts_with("08")
        }
        None => is_lost(error),
    }
}

/// Whether the connection itself is gone, so that nothing is known of what was under way on it.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    error.is_closed()
        || error.code().is_some_and(|code| {
            [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN].contains(code)
                || code.code().starts_with("08")
        })
        || error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// An error with all that caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}
