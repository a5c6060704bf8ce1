//! The store: opens a database and runs operations in transactions.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_core::Clock;
use docket_core::clock::SystemClock;
use futures_util::FutureExt as _;
use tracing::Instrument as _;

use crate::error::{Error, Result};
use crate::hint::Hints;
use crate::postgres::{Postgres, Route};
use crate::sqlite::{Folder, Readers, Writer};
use crate::tx::Tx;

/// How often an operation is run again because of a key that somebody else took.
const CLASHES_MAX: usize = 5;

/// A boxed future, as an operation gives it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An operation: what happens within one transaction. It may be run several times before it is committed, so it
/// must change nothing but the database.
pub trait Operation<P, T>:
    for<'a> Fn(&'a mut Tx, &'a P) -> BoxFuture<'a, Result<T>> + Send + Sync + 'static
{
}

impl<P, T, F> Operation<P, T> for F where
    F: for<'a> Fn(&'a mut Tx, &'a P) -> BoxFuture<'a, Result<T>> + Send + Sync + 'static
{
}

/// Which database to open.
#[derive(Clone, Debug)]
pub enum StoreConfig {
    /// A file in this folder, which no other process may use.
    Sqlite(PathBuf),
    /// A PostgreSQL database, shared by any number of servers.
    Postgres(PostgresConfig),
}

/// How to use a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct PostgresConfig {
    /// `postgres://user@host:5432/name`.
    pub url: String,
    /// Connections for everything but the tuned operations.
    pub connections: usize,
    /// Connections for the tuned operations.
    pub hot_connections: usize,
    /// How long an operation waits for a database that is away before it gives up.
    pub patience: Duration,
}

impl PostgresConfig {
    /// The usual settings for this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections: 8,
            hot_connections: 4,
            patience: Duration::from_secs(30),
        }
    }
}

/// Which database is behind a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The embedded one.
    Sqlite,
    /// The one to grow with.
    Postgres,
}

/// An open database.
#[derive(Clone, Debug)]
pub struct Store {
    kind: Kind,
    hints: Hints,
}

#[derive(Clone, Debug)]
enum Kind {
    Sqlite {
        writer: Writer,
        readers: Readers,
        closed: Arc<AtomicBool>,
    },
    Postgres(Postgres),
}

impl Store {
    /// Opens the database, makes it where there is none, and brings its schema up to date.
    pub async fn open(config: &StoreConfig) -> Result<Self> {
        let (hints, outgoing) = Hints::new();
        let kind = match config {
            StoreConfig::Sqlite(path) => {
                let path = path.clone();
                let opened = tokio::task::spawn_blocking(move || {
                    let folder = Arc::new(Folder::open(&path)?);
                    let mut tx = folder.writer()?;
                    crate::migrate::sqlite(&mut tx.connection)?;
                    let writer = Writer::start(Arc::clone(&folder), tx)?;
                    Ok::<_, Error>(Kind::Sqlite {
                        writer,
                        readers: Readers::new(folder),
                        closed: Arc::default(),
                    })
                });
                opened.await.map_err(|_| Error::Closed)??
            }
            StoreConfig::Postgres(config) => Kind::Postgres(Postgres::open(config, &hints, outgoing).await?),
        };
        Ok(Self { kind, hints })
    }

    /// Which database it is.
    pub const fn backend(&self) -> Backend {
        match self.kind {
            Kind::Sqlite { .. } => Backend::Sqlite,
            Kind::Postgres(_) => Backend::Postgres,
        }
    }

    /// The clock that all servers on this database agree on.
    pub fn clock(&self) -> Arc<dyn Clock> {
        match &self.kind {
            Kind::Sqlite { .. } => Arc::new(SystemClock),
            Kind::Postgres(postgres) => Arc::clone(&postgres.clock) as _,
        }
    }

    /// Hints that there may be work.
    pub const fn hints(&self) -> &Hints {
        &self.hints
    }

    /// Runs a writing operation in a transaction of its own, until it is committed or refused.
    pub async fn run<P, T>(&self, name: &'static str, params: P, operation: impl Operation<P, T>) -> Result<T>
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.run_on((Route::General, Caller::MayLeave), name, params, operation)
            .await
    }

    /// The same for a tuned operation, on the connections that are kept for those.
    pub async fn run_hot<P, T>(
        &self,
        name: &'static str,
        params: P,
        operation: impl Operation<P, T>,
    ) -> Result<T>
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.run_on((Route::Hot, Caller::MayLeave), name, params, operation)
            .await
    }

    /// The same for a batch of calls: its runner waits for it whoever of the callers goes away, so it needs no task of its own.
    pub async fn run_batch<P, T>(
        &self,
        name: &'static str,
        params: P,
        operation: impl Operation<P, T>,
    ) -> Result<T>
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.run_on((Route::Hot, Caller::Stays), name, params, operation)
            .await
    }

    async fn run_on<P, T>(
        &self,
        (route, caller): (Route, Caller),
        name: &'static str,
        params: P,
        operation: impl Operation<P, T>,
    ) -> Result<T>
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.check_open()?;
        let _timed = crate::meter::Timed::new(name);
        let (params, operation) = (Arc::new(params), Arc::new(operation));
        let mut clashes = 0;
        loop {
            let outcome = match &self.kind {
                Kind::Sqlite { writer, .. } => {
                    let (params, operation) = (Arc::clone(&params), Arc::clone(&operation));
                    writer
                        .run(move |tx| in_one_poll(name, operation.as_ref(), tx, &params))
                        .await
                }
                Kind::Postgres(postgres) => {
                    let postgres = postgres.clone();
                    let (params, operation) = (Arc::clone(&params), Arc::clone(&operation));
                    let work = async move {
                        postgres
                            .run(name, route, params.as_ref(), operation.as_ref())
                            .await
                    };
                    match caller {
                        Caller::MayLeave => to_its_end(work).await,
                        Caller::Stays => work.await,
                    }
                }
            };
            match outcome {
                // Somebody else took a key in the meantime: what the operation decided on is no longer true, so it decides anew.
                Err(error) if error.is_unique_violation() && clashes < CLASHES_MAX => clashes += 1,
                Ok(output) => {
                    self.hints.logged();
                    return Ok(output);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs a reading operation on one snapshot, beside all writing.
    pub async fn read<P, T>(
        &self,
        name: &'static str,
        params: P,
        operation: impl Operation<P, T>,
    ) -> Result<T>
    where
        P: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.check_open()?;
        let _timed = crate::meter::Timed::new(name);
        match &self.kind {
            Kind::Sqlite { readers, .. } => {
                readers
                    .run(move |tx| in_one_poll(name, &operation, tx, &params))
                    .await
            }
            Kind::Postgres(postgres) => {
                let postgres = postgres.clone();
                to_its_end(async move { postgres.read(name, &params, &operation).await }).await
            }
        }
    }

    /// Gives up the connections. Operations under way end; new ones are refused.
    pub fn close(&self) {
        match &self.kind {
            Kind::Sqlite { closed, .. } => closed.store(true, Ordering::Relaxed),
            Kind::Postgres(postgres) => postgres.close(),
        }
    }

    /// PostgreSQL's pools refuse by themselves once they are closed.
    fn check_open(&self) -> Result<()> {
        match &self.kind {
            Kind::Sqlite { closed, .. } if closed.load(Ordering::Relaxed) => Err(Error::Closed),
            _ => Ok(()),
        }
    }
}

/// Whether the one who asked may go away before the answer.
#[derive(Clone, Copy, Debug)]
enum Caller {
    MayLeave,
    Stays,
}

/// Runs to its end also when the caller goes away, as one does whose own caller hung up: a transaction left in the middle would cost
/// its connection, and what follows a commit would be left out.
pub async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::spawn(work.in_current_span()).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => Err(Error::panicked()),
        Err(_) => Err(Error::Closed),
    }
}

fn in_one_poll<P, T>(
    name: &'static str,
    operation: &impl Operation<P, T>,
    tx: &mut Tx,
    params: &P,
) -> Result<T> {
    operation(tx, params).now_or_never().unwrap_or_else(|| {
        Err(Error::Open(format!(
            "{name} awaited something other than its transaction"
        )))
    })
}
