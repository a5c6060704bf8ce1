//! kill -9 of real processes in mid-load, fifty times on each database (rule A3): everything acknowledged is there, nothing is
//! there twice, nothing ran to completion twice, and the doctor is content (rule A4). In mid-upload: no item without its bytes,
//! and no bytes without an item once the sweeper has run (rule I7).
//!
//! On PostgreSQL two processes share the load and one of them, at random, is killed (rule A2). On SQLite the next process has
//! the folder at once.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test stops where it cannot go on, and says what it has measured"
)]

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docket_core::clock::{Clock as _, ManualClock, SystemClock};
use docket_core::random::{Random as _, SeededRandom, SystemRandom};
use docket_engine::{Engine, EngineConfig};
use docket_testkit::load::{self, Fact, Facts};
use docket_testkit::{Database, Plain};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

const ROUNDS: usize = 50;
const UPLOAD_ROUNDS: usize = 12;

/// A process under load.
struct Process {
    child: Child,
    reader: JoinHandle<()>,
    said: Arc<AtomicUsize>,
}

fn command(database: &Database) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docket-load"));
    match &database.url {
        None => command.arg("--sqlite").arg(database.data_folder()),
        Some(url) => command.arg("--postgres").arg(url),
    };
    command.arg("--blobs").arg(database.blob_folder());
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

impl Process {
    fn start(database: &Database, round: usize, seed: u64, uploaders: usize, facts: &Facts) -> Self {
        let mut command = command(database);
        let (workers, submitters) = if uploaders > 0 { ("1", "0") } else { ("4", "2") };
        command
            .args(["--workers", workers, "--submitters", submitters])
            .args(["--uploaders", &uploaders.to_string()])
            .args(["--prefix", &format!("r{round}"), "--seed", &seed.to_string()])
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("docket-load starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let said = Arc::new(AtomicUsize::new(0));
        let (count, facts) = (Arc::clone(&said), facts.clone());
        let reader = tokio::spawn(async move {
            let mut line = String::new();
            while let Ok(1..) = lines.read_line(&mut line).await {
                // Half a line is no word: the process was killed while it spoke.
                if let Some(whole) = line.strip_suffix('\n') {
                    facts.add(whole.parse().expect("a fact"));
                    count.fetch_add(1, Ordering::SeqCst);
                }
                line.clear();
            }
        });
        Self { child, reader, said }
    }

    /// Until it has said something: then the database is open and under load.
    async fn is_at_work(&mut self) {
        for _ in 0..2_000 {
            if self.said.load(Ordering::SeqCst) > 0 {
                return;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the process ended by itself: {status}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the process says nothing");
    }

    /// Kills it with -9, and hears what it still had to say.
    async fn kill(mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "the process ended by itself: {ended:?}");
        self.child.kill().await.expect("the process can be killed");
        self.reader.await.expect("all it said was heard");
    }
}

fn seed() -> u64 {
    let given = std::env::var("DOCKET_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| SystemRandom.next_u64());
    println!("DOCKET_TEST_SEED={seed}");
    seed
}

async fn set_up(database: &Database) {
    let status = command(database).arg("--setup").status().await.unwrap();
    assert!(status.success());
}

/// Opens an engine here, by a clock of its own where one is given.
async fn open(database: &Database, clock: Option<Arc<ManualClock>>) -> Engine {
    let mut config = EngineConfig::new(database.store_config(), database.blob_config());
    config.clock = clock.map(|clock| clock as _);
    Engine::open(config)
        .await
        .expect("the next process can open the database at once")
}

async fn rounds(database: &Database, side_by_side: usize, rounds: usize, uploaders: usize) -> Vec<Fact> {
    let random = SeededRandom::new(seed());
    let facts = Facts::default();
    set_up(database).await;
    let mut processes = Vec::new();
    for round in 0..rounds {
        while processes.len() < side_by_side {
            let name = round * 10 + processes.len();
            processes.push(Process::start(
                database,
                name,
                random.next_u64(),
                uploaders,
                &facts,
            ));
        }
        for process in &mut processes {
            process.is_at_work().await;
        }
        tokio::time::sleep(Duration::from_millis(50 + random.below(350))).await;
        let victim = random.below(processes.len() as u64) as usize;
        processes.remove(victim).kill().await;
    }
    for process in processes {
        process.kill().await;
    }
    facts.all()
}

async fn fifty_kills(database: Database, side_by_side: usize) {
    let test = async {
        let facts = rounds(&database, side_by_side, ROUNDS, 0).await;
        let engine = open(&database, None).await;
        let found = engine.doctor().await.unwrap();
        assert!(
            found.is_empty(),
            "after the last kill the doctor found:\n{}",
            found.join("\n")
        );
        let plain = Plain::of(&database);
        let left = plain.number("select count(*) from job where state = 0").await;
        load::drain(&engine, &plain).await;
        let count = |is: fn(&Fact) -> bool| facts.iter().filter(|fact| is(fact)).count();
        println!(
            "{ROUNDS} kills: {} submitted, {} claims, {} completed were acknowledged; {left} were left to do",
            count(|fact| matches!(fact, Fact::Submitted(..))),
            count(|fact| matches!(fact, Fact::Claimed(..))),
            count(|fact| matches!(fact, Fact::Completed(..))),
        );
        assert!(count(|fact| matches!(fact, Fact::Completed(..))) > ROUNDS);
        load::verify(&plain, &facts).await;
        let found = engine.doctor().await.unwrap();
        assert!(found.is_empty(), "the doctor found:\n{}", found.join("\n"));
        // The processes were sealing all the time: the chain has neither a gap nor a doubled block.
        let proved = engine
            .audit_verify(&docket_core::scope::Operator::system(), |_, _| {})
            .await
            .unwrap();
        let proved = proved.unwrap_or_else(|fault| panic!("the log is not whole: {}", fault.text));
        assert!(proved.blocks as usize > ROUNDS, "{} blocks", proved.blocks);
    };
    let over = tokio::time::timeout(Duration::from_secs(180), test).await;
    over.expect("the kills are over within their time");
}

async fn kills_in_mid_upload(database: Database) {
    let test = async {
        let facts = rounds(&database, 1, UPLOAD_ROUNDS, 2).await;
        let plain = Plain::of(&database);
        let open_uploads = plain.number("select count(*) from upload").await;
        // Time passes: what was on its way has expired.
        let later = Arc::new(ManualClock::new(SystemClock.now().plus_ms(2 * 3_600_000)));
        let engine = open(&database, Some(later)).await;
        load::drain(&engine, &plain).await;
        while engine.sweep_run_once().await.unwrap().is_some() {}
        let uploaded = facts
            .iter()
            .filter(|fact| matches!(fact, Fact::Uploaded(..)))
            .count();
        println!(
            "{UPLOAD_ROUNDS} kills: {uploaded} files were acknowledged, {open_uploads} were on their way"
        );
        assert!(open_uploads > 0, "no kill met an upload");
        load::verify(&plain, &facts).await;
        load::verify_files(&plain, &database.blob_folder(), &facts).await;
        assert_eq!(plain.number("select count(*) from upload").await, 0);
        let found = engine.doctor().await.unwrap();
        assert!(found.is_empty(), "the doctor found:\n{}", found.join("\n"));
    };
    let over = tokio::time::timeout(Duration::from_secs(90), test).await;
    over.expect("the kills are over within their time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_lose_and_double_nothing_on_sqlite() {
    fifty_kills(Database::sqlite(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_lose_and_double_nothing_on_postgres() {
    fifty_kills(Database::postgres().await, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_mid_upload_leave_no_item_without_bytes_and_no_bytes_without_item_on_sqlite() {
    kills_in_mid_upload(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_mid_upload_leave_no_item_without_bytes_and_no_bytes_without_item_on_postgres() {
    kills_in_mid_upload(Database::postgres().await).await;
}

/// A folder that a process was killed in belongs to the next one at once, and one that lives keeps it to itself.
#[tokio::test]
async fn a_killed_process_leaves_its_folder_to_the_next() {
    let database = Database::sqlite();
    set_up(&database).await;
    for round in 0..5 {
        let facts = Facts::default();
        let mut process = Process::start(&database, round, 1, 0, &facts);
        process.is_at_work().await;
        let second = command(&database)
            .arg("--setup")
            .stderr(Stdio::piped())
            .output()
            .await;
        let second = second.unwrap();
        assert!(!second.status.success(), "two processes have the folder");
        let words = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(words.contains("in use by another Docket"), "{words}");
        process.kill().await;
        let engine = open(&database, None).await;
        assert!(engine.doctor().await.unwrap().is_empty());
        drop(engine);
        // The engine's writer gives the folder up when its last work is done.
        for _ in 0..100 {
            if command(&database)
                .arg("--setup")
                .stderr(Stdio::null())
                .status()
                .await
                .unwrap()
                .success()
            {
                break;
            }
        }
    }
}
