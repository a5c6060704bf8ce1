//! The data folder: its lock against a second process, and connections to its file.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::SqliteTx;
use crate::error::{Error, Result};

/// How long a connection waits for another one's lock.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A data folder that this process has to itself for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder where there is none and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        std::fs::create_dir_all(path)
            .map_err(|error| Error::Open(format!("the data folder {shown} cannot be made: {error}")))?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("docket.lock"))
            .map_err(|error| Error::Open(format!("the data folder {shown} cannot be written: {error}")))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(Error::Open(format!(
                "the data folder {shown} is in use by another Docket; stop that one first, \
                 give this one another folder, or let both use PostgreSQL"
            ))),
            Err(TryLockError::Error(error)) => Err(Error::Open(format!(
                "the data folder {shown} cannot be locked: {error}"
            ))),
        }
    }

    /// A connection that may write; the writer thread's.
    pub(crate) fn writer(&self) -> Result<SqliteTx> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.file(), flags).map_err(Error::sqlite("open"))?;
        for (pragma, value) in [
            ("journal_mode", "wal"),
            ("synchronous", "full"),
            ("foreign_keys", "on"),
            ("cache_size", "-65536"),
            ("wal_autocheckpoint", "32768"),
            // Where a reader that went on for long let the log grow beyond what it should be, it shrinks afterwards.
            ("journal_size_limit", "268435456"),
            ("mmap_size", "268435456"),
        ] {
            connection
                .pragma_update(None, pragma, value)
                .map_err(Error::sqlite("pragma"))?;
        }
        prepare(&connection)?;
        Ok(SqliteTx { connection })
    }

    /// A connection that only reads.
    pub(crate) fn reader(&self) -> Result<SqliteTx> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.file(), flags).map_err(Error::sqlite("open"))?;
        prepare(&connection)?;
        Ok(SqliteTx { connection })
    }

    fn file(&self) -> PathBuf {
        self.path.join("docket.db")
    }

    /// The write-ahead log of the file.
    pub(super) fn wal(&self) -> PathBuf {
        self.path.join("docket.db-wal")
    }
}

fn prepare(connection: &Connection) -> Result<()> {
    connection.set_prepared_statement_cache_capacity(256);
    // A plan that depends on what is bound is made anew each time something is bound: that cost four fifths of a claim.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map_err(Error::sqlite("open"))?;
    connection
        .busy_timeout(BUSY_TIMEOUT)
        .map_err(Error::sqlite("open"))
}
