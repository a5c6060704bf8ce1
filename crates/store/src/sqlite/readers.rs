//! Readers beside the writer: each read sees one snapshot and waits for nobody.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::{Folder, SqliteTx};
use crate::error::{Error, Result};
use crate::tx::{Driver, Tx};

const READERS_MAX: usize = 4;

/// A few connections that only read.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    folder: Arc<Folder>,
    idle: Arc<Mutex<Vec<SqliteTx>>>,
    places: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(folder: Arc<Folder>) -> Self {
        Self {
            folder,
            idle: Arc::default(),
            places: Arc::new(Semaphore::new(READERS_MAX)),
        }
    }

    /// Runs a reading operation on a thread where it may block.
    pub(crate) async fn run<T, F>(&self, mut operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|_| Error::Closed)?;
        let readers = self.clone();
        let task = tokio::task::spawn_blocking(move || {
            let _place = place;
            let sqlite = readers.take()?;
            sqlite.command("begin deferred")?;
            let mut tx = Tx {
                driver: Driver::Sqlite(sqlite),
            };
            let outcome = operation(&mut tx);
            if let Driver::Sqlite(sqlite) = tx.driver {
                sqlite.command("rollback")?;
                readers
                    .idle
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(sqlite);
            }
            outcome
        });
        match task.await {
            Ok(outcome) => outcome,
            // Its connection went with it.
            Err(error) if error.is_panic() => Err(Error::panicked()),
            Err(_) => Err(Error::Closed),
        }
    }

    fn take(&self) -> Result<SqliteTx> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.folder.reader(), Ok)
    }
}
