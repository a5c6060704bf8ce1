//! The writer thread: it takes whatever operations have queued up, runs each in a savepoint of its own and commits them
//! together, so that one flush to disk serves them all and one refusal spoils no other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::wal::Wal;
use super::{Folder, SqliteTx};
use crate::error::{Error, Result, chain};
use crate::tx::{Driver, Tx};

/// How many operations one commit serves at the most.
const GROUP_MAX: usize = 256;
/// How many operations may wait; further callers wait for a place.
const QUEUE_MAX: usize = 4_096;

/// An operation on its way through the writer thread.
trait Call: Send {
    /// Runs it within a savepoint and keeps its answer; whether its writes are to be kept.
    fn run(&mut self, tx: &mut Tx) -> bool;
    /// Why it failed, where it did.
    fn failure(&mut self) -> Option<Error>;
    /// Hands the answer to the caller, once the group is committed or has failed.
    fn answer(self: Box<Self>, failed: Option<Error>);
}

struct Pending<T, F> {
    operation: F,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnMut(&mut Tx) -> Result<T> + Send> Call for Pending<T, F> {
    fn run(&mut self, tx: &mut Tx) -> bool {
        let outcome = (self.operation)(tx);
        let keep = outcome.is_ok();
        self.outcome = Some(outcome);
        keep
    }

    fn failure(&mut self) -> Option<Error> {
        self.outcome.take()?.err()
    }

    fn answer(self: Box<Self>, failed: Option<Error>) {
        let outcome = match failed {
            Some(error) => Err(error),
            // Every call of a group that is committed was run.
            None => self.outcome.unwrap_or_else(|| Err(Error::panicked())),
        };
        // A caller that no longer waits is no concern of the writer's.
        drop(self.reply.send(outcome));
    }
}

/// The way to the writer thread.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Box<dyn Call>>,
}

impl Writer {
    /// Starts the thread. It ends, and gives up the folder, when the last `Writer` is gone and its queue is empty.
    pub(crate) fn start(folder: Arc<Folder>, tx: SqliteTx) -> Result<Self> {
        let (queue, calls) = mpsc::channel(QUEUE_MAX);
        let wal = Wal::new(folder.wal(), &tx)?;
        std::thread::Builder::new()
            .name("docket-writer".to_owned())
            .spawn(move || {
                serve(
                    Tx {
                        driver: Driver::Sqlite(tx),
                    },
                    calls,
                    wal,
                );
                drop(folder);
            })
            .map_err(|error| Error::Open(format!("the writer thread cannot be started: {error}")))?;
        Ok(Self { queue })
    }

    /// Runs an operation on the writer thread and waits until it is on disk.
    pub(crate) async fn run<T, F>(&self, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call = Box::new(Pending {
            operation,
            outcome: None,
            reply,
        });
        self.queue.send(call).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

fn serve(mut tx: Tx, mut calls: mpsc::Receiver<Box<dyn Call>>, mut wal: Wal) {
    while let Some(first) = calls.blocking_recv() {
        let mut group = vec![first];
        let failed = serve_group(&mut tx, &mut group, &mut calls).err();
        let failed = failed.map(|error| {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "a group of operations was rolled back"
            );
            roll_back_what_is_open(&mut tx);
            chain(&error)
        });
        for call in group {
            call.answer(
                failed
                    .clone()
                    .map(|reason| Error::Open(format!("the commit failed: {reason}"))),
            );
        }
        // When everybody has their answer.
        if let Driver::Sqlite(sqlite) = &tx.driver {
            wal.keep_short(sqlite);
        }
    }
}

fn serve_group(
    tx: &mut Tx,
    group: &mut Vec<Box<dyn Call>>,
    calls: &mut mpsc::Receiver<Box<dyn Call>>,
) -> Result<()> {
    command(tx, "begin immediate")?;
    let mut next = 0;
    while let Some(call) = group.get_mut(next) {
        command(tx, "savepoint operation")?;
        let kept = catch_unwind(AssertUnwindSafe(|| call.run(tx))).unwrap_or(false);
        if !kept {
            // An error as grave as a full disk ends the whole transaction by itself; this then fails, and the group with it, for that reason.
            command(tx, "rollback to operation").map_err(|error| call.failure().unwrap_or(error))?;
        }
        command(tx, "release operation")?;
        next += 1;
        if group.len() < GROUP_MAX
            && let Ok(more) = calls.try_recv()
        {
            group.push(more);
        }
    }
    command(tx, "commit")
}

fn command(tx: &mut Tx, word: &'static str) -> Result<()> {
    match &tx.driver {
        Driver::Sqlite(sqlite) => sqlite.command(word),
        Driver::Postgres(_) => Err(Error::Open("the writer thread has no PostgreSQL".to_owned())),
    }
}

fn roll_back_what_is_open(tx: &mut Tx) {
    let Driver::Sqlite(sqlite) = &tx.driver else {
        return;
    };
    if !sqlite.connection.is_autocommit()
        && let Err(error) = sqlite.command("rollback")
    {
        tracing::error!(error = &error as &dyn std::error::Error, "rolling back failed");
    }
}
