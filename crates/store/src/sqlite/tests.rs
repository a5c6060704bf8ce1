//! What is answered is on disk; what is refused or panics leaves nothing and spoils no neighbour; the log stays short.

use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use docket_core::Refusal;
use futures_util::future::join_all;
use futures_util::poll;

use super::{Folder, Readers, SqliteTx, Writer};
use crate::coalesce::{Coalescer, Turns, Weight};
use crate::error::{Error, Result};
use crate::tx::{Driver, Tx};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder that goes with this value.
struct Site {
    path: PathBuf,
    folder: Arc<Folder>,
}

impl Site {
    fn new() -> Self {
        let name = format!(
            "docket-sqlite-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        let folder = Arc::new(Folder::open(&path).unwrap());
        Self { path, folder }
    }

    /// Its writer, once there is a table and `change` was made.
    fn writer(&self, change: &str) -> Writer {
        let tx = self.folder.writer().unwrap();
        tx.connection.execute_batch("create table t (a)").unwrap();
        tx.connection.execute_batch(change).unwrap();
        Writer::start(Arc::clone(&self.folder), tx).unwrap()
    }

    fn wal_bytes(&self) -> u64 {
        fs::metadata(self.folder.wal()).map_or(0, |file| file.len())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).ok();
    }
}

fn sqlite(tx: &mut Tx) -> &mut SqliteTx {
    match &mut tx.driver {
        Driver::Sqlite(sqlite) => sqlite,
        Driver::Postgres(_) => unreachable!("this is SQLite"),
    }
}

/// Runs a text that returns nothing.
fn execute(tx: &mut Tx, text: &str) -> Result<()> {
    let ran = sqlite(tx).connection.execute_batch(text);
    ran.map_err(Error::sqlite("test"))
}

fn number(tx: &mut Tx, text: &str) -> Result<i64> {
    let asked = sqlite(tx).connection.query_row(text, [], |row| row.get(0));
    asked.map_err(Error::sqlite("test"))
}

fn count(tx: &mut Tx) -> Result<i64> {
    number(tx, "select count(*) from t")
}

#[tokio::test]
async fn the_writer_flushes_each_commit_to_the_disk() {
    let site = Site::new();
    let writer = site.writer("");
    let settings = writer.run(|tx| {
        let mode = "select journal_mode = 'wal' from pragma_journal_mode";
        Ok([
            number(tx, "pragma synchronous")?,
            number(tx, mode)?,
            number(tx, "pragma foreign_keys")?,
        ])
    });
    // Full is 2.
    assert_eq!(settings.await.unwrap(), [2, 1, 1]);
}

#[tokio::test]
async fn a_log_that_had_to_grow_shrinks_to_where_the_writer_begins_to_care() {
    let site = Site::new();
    let writer = site.writer("");
    let settings = writer.run(|tx| {
        let pages = number(tx, "pragma wal_autocheckpoint")?;
        let page_bytes = number(tx, "pragma page_size")?;
        Ok((number(tx, "pragma journal_size_limit")?, 2 * pages * page_bytes))
    });
    let (limit, cares) = settings.await.unwrap();
    assert_eq!(limit, cares);
}

#[tokio::test]
async fn what_is_refused_or_panics_leaves_nothing_and_its_neighbours_in_the_same_commit_stay() {
    let site = Site::new();
    let writer = site.writer("");
    let (open, gate) = mpsc::channel::<()>();
    // The others queue up behind it, so that all of them are one group.
    let mut first = pin!(writer.run(move |tx| {
        execute(tx, "insert into t values (1)")?;
        gate.recv().ok();
        Ok(())
    }));
    let mut refused = pin!(writer.run(|tx| {
        execute(tx, "insert into t values (2)")?;
        Err::<(), _>(Error::Refused(Refusal::NotFound {
            what: "item".into(),
            id: "2".to_owned(),
        }))
    }));
    let mut panics = pin!(writer.run(|tx| -> Result<()> {
        execute(tx, "insert into t values (3)")?;
        panic!("this is a test");
    }));
    let mut last = pin!(writer.run(|tx| {
        execute(tx, "insert into t values (4)")?;
        // What the others did is gone before, and what its neighbour did is there: this is the same transaction.
        assert!(!sqlite(tx).connection.is_autocommit());
        number(tx, "select sum(a) from t")
    }));
    assert!(poll!(&mut first).is_pending() && poll!(&mut refused).is_pending());
    assert!(poll!(&mut panics).is_pending() && poll!(&mut last).is_pending());
    open.send(()).unwrap();
    first.await.unwrap();
    assert!(refused.await.unwrap_err().refusal().is_some());
    let said = panics.await.unwrap_err();
    assert_eq!(said.to_string(), "the operation panicked");
    assert_eq!(last.await.unwrap(), 5);
    assert_eq!(
        writer.run(|tx| number(tx, "select sum(a) from t")).await.unwrap(),
        5
    );
}

#[tokio::test]
async fn a_call_that_panics_in_a_batch_spoils_only_its_own() {
    let site = Site::new();
    let (writer, readers) = (site.writer(""), Readers::new(Arc::clone(&site.folder)));
    let (called, read) = (writer.clone(), readers.clone());
    let coalescer = Coalescer::start(
        "test",
        1,
        Turns::any(),
        |_| Weight::of(1),
        move |calls: Vec<u32>| {
            let (writer, readers) = (called.clone(), read.clone());
            Box::pin(async move {
                let (written, seen) = (calls.clone(), calls.clone());
                writer
                    .run(move |tx| {
                        assert!(!written.contains(&7), "this is a test");
                        execute(tx, &format!("insert into t select 1 limit {}", written.len()))
                    })
                    .await?;
                let read = readers.run(move |_| {
                    assert!(!seen.contains(&8), "this is a test");
                    Ok(())
                });
                read.await.map(|()| calls)
            })
        },
    );
    let said = join_all((0..20).map(|n| coalescer.call(n))).await;
    for (n, said) in said.iter().enumerate() {
        match said {
            Ok(answer) => assert_eq!(*answer as usize, n),
            Err(error) => assert_eq!(error.to_string(), "the operation panicked", "{n}"),
        }
        assert_eq!(said.is_ok(), n != 7 && n != 8, "{n}: {said:?}");
    }
    assert!(readers.run(count).await.unwrap() > 0, "there are readers left");
}

#[tokio::test]
async fn all_that_were_to_be_committed_together_hear_why_they_were_not() {
    let site = Site::new();
    let writer = site.writer("pragma max_page_count = 64");
    let (open, gate) = mpsc::channel::<()>();
    let mut innocent = pin!(writer.run(move |tx| {
        gate.recv().ok();
        execute(tx, "insert into t values (1)")
    }));
    let mut large = pin!(writer.run(|tx| execute(tx, "insert into t values (zeroblob(1000000))")));
    assert!(poll!(&mut innocent).is_pending() && poll!(&mut large).is_pending());
    open.send(()).unwrap();
    for said in [innocent.await, large.await] {
        let said = said.unwrap_err().to_string();
        assert!(
            said.contains("the commit failed") && said.contains("full"),
            "{said}"
        );
    }
    assert_eq!(writer.run(count).await.unwrap(), 0);
    writer
        .run(|tx| execute(tx, "insert into t values (2)"))
        .await
        .unwrap();
    assert_eq!(writer.run(count).await.unwrap(), 1);
}

/// Reads in turn until it is told to stop: at any moment somebody reads.
#[expect(clippy::disallowed_methods, reason = "a thread of its own, which reads")]
fn read_in_turn(folder: &Folder, stop: &AtomicBool) {
    let (mut now, mut then) = (folder.reader().unwrap(), folder.reader().unwrap());
    let begin = |reader: &SqliteTx| {
        reader.command("begin deferred").unwrap();
        let looked = reader
            .connection
            .query_row("select count(*) from t", [], |row| row.get::<_, i64>(0));
        looked.unwrap();
    };
    begin(&now);
    while !stop.load(Ordering::SeqCst) {
        begin(&then);
        now.command("rollback").unwrap();
        std::mem::swap(&mut now, &mut then);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_short_although_somebody_always_reads() {
    const WRITES: u64 = 400;
    const BYTES: u64 = 64 << 10;
    let site = Site::new();
    // A quarter of a megabyte; with the usual threshold the test would have to write very much.
    let writer = site.writer("pragma wal_autocheckpoint = 64");
    let stop = Arc::new(AtomicBool::new(false));
    let (folder, stopped) = (Arc::clone(&site.folder), Arc::clone(&stop));
    let reader = std::thread::spawn(move || read_in_turn(&folder, &stopped));
    let mut longest = 0;
    for n in 0..WRITES {
        let text = format!(
            "insert or replace into t (rowid, a) values ({}, randomblob({BYTES}))",
            n % 8
        );
        writer.run(move |tx| execute(tx, &text)).await.unwrap();
        longest = longest.max(site.wal_bytes());
    }
    stop.store(true, Ordering::SeqCst);
    reader.join().unwrap();
    assert!(longest > 0);
    // Without anybody's doing it would hold all that was written.
    assert!(longest < WRITES * BYTES / 3, "it grew to {longest} bytes");
}
