//! The program itself, run as a person would run it.

#![expect(clippy::expect_used, reason = "a test panics where it cannot go on")]

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use docket_store::table::lane;
use docket_store::{Store, StoreConfig};
use docket_testkit::Database;
use serde_json::Value;

/// Runs `docket` with nothing of this process's settings; its exit code, standard output and standard error.
fn docket(args: &[&str]) -> (i32, String, String) {
    said(command().args(args).output().expect("the program can be started"))
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docket"));
    command
        .env_remove("DOCKET_DATA")
        .env_remove("DOCKET_DATABASE_URL");
    command
}

fn said(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
    let code = output.status.code().expect("the program was not killed");
    (code, text(output.stdout), text(output.stderr))
}

fn path(folder: &Path) -> &str {
    folder.to_str().expect("the folder's name is UTF-8")
}

async fn open(folder: &Path) -> Store {
    let opened = Store::open(&StoreConfig::Sqlite(folder.to_owned())).await;
    opened.expect("the database opens")
}

/// Changes the limit of a tenant's lanes behind the engine's back.
async fn damage(folder: &Path, tenant: &str) {
    let store = open(folder).await;
    let params = tenant.to_owned();
    let run = store.run("damage", params, |tx, tenant| {
        Box::pin(lane::set_limit(tx, tenant, 99))
    });
    run.await.expect("the lanes can be changed");
    drop(store);
    // The writer thread gives the folder up in its own time.
    let lock = File::options()
        .write(true)
        .open(folder.join("docket.lock"))
        .expect("there is a lock");
    for _ in 0..500 {
        if lock.try_lock().is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the folder was not given up");
}

/// The name that the demonstration gave to a tenant: it begins so.
fn tenant_in(shown: &str, begin: &str) -> String {
    let word = shown.split_whitespace().find(|word| word.starts_with(begin));
    word.expect("the tenant is shown").to_owned()
}

#[test]
fn the_demo_ends_well_and_leaves_nothing_behind() {
    let (code, shown, complaints) = docket(&["demo"]);
    assert_eq!((code, complaints.as_str()), (0, ""), "{shown}");
    for words in [
        "10 taken, 2 refused",
        "Upload limit reached. Please try again later.",
        "(3 documents ahead)",
        "step 2 failed: no total found on page 1",
        "answered lease_lost",
        "The lane is full: 1 of 1 jobs run",
        "Processing timed out after 1 second",
        "All is well.",
    ] {
        assert!(shown.contains(words), "'{words}' is missing in:\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "there are colours without a terminal");
    let widest = shown.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "a line has {widest:?} characters:\n{shown}");
    let folder = shown.lines().find_map(|line| {
        let (_, rest) = line.split_once("SQLite in ")?;
        rest.split_once(" (").map(|(folder, _)| folder.to_owned())
    });
    let folder = folder.expect("the demo says where it runs");
    assert!(!Path::new(&folder).exists(), "{folder} was not removed");
}

#[tokio::test]
async fn the_demo_runs_on_postgresql_too() {
    let database = Database::postgres().await;
    let url = database.url.clone().expect("PostgreSQL has a URL");
    let files = tempfile::tempdir().expect("a temporary folder");
    let output = command()
        .args(["demo", "--database", &url])
        .env("DOCKET_DATA", files.path())
        .output();
    let (code, shown, complaints) = said(output.expect("the program can be started"));
    assert_eq!((code, complaints.as_str()), (0, ""), "{shown}");
    assert!(shown.contains("All is well."), "{shown}");
    let (code, shown, _) = docket(&["doctor", "--database", &url]);
    assert_eq!(code, 0, "{shown}");
}

#[tokio::test]
async fn the_doctor_names_what_was_damaged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = path(folder.path());
    let (code, shown, _) = docket(&["demo", "--data", data, "--items", "4"]);
    assert_eq!(code, 0, "{shown}");
    let (code, healthy, _) = docket(&["doctor", "--data", data]);
    assert_eq!(code, 0, "{healthy}");
    assert!(healthy.contains("All is well."), "{healthy}");

    damage(folder.path(), &tenant_in(&shown, "corner-shop")).await;
    let (code, found, _) = docket(&["doctor", "--data", data]);
    assert_eq!(code, 1, "{found}");
    assert!(found.contains("1 difference"), "{found}");
    assert!(
        found.contains("may run 99 jobs at once, but its tenant may run 1"),
        "{found}"
    );

    let (code, json, _) = docket(&["doctor", "--data", data, "--json"]);
    let json: Value = serde_json::from_str(&json).expect("the answer is JSON");
    assert_eq!((code, &json["healthy"]), (1, &Value::Bool(false)));
    assert_eq!(json["differences"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_second_process_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let _held = open(folder.path()).await;
    for command in ["doctor", "migrate", "demo"] {
        let (code, shown, complaint) = docket(&[command, "--data", path(folder.path())]);
        assert_eq!(code, 2, "{command}: {shown}");
        assert!(complaint.contains("is in use by another Docket"), "{complaint}");
        assert!(complaint.contains("stop that one first"), "{complaint}");
    }
}

#[test]
fn a_bad_url_is_explained_without_its_password() {
    let refused = "postgres://ann:hunter2@127.0.0.1:1/docket";
    for (url, words) in [
        ("mysql://ann:hunter2@db/docket?a=b", "is no PostgreSQL URL"),
        (
            "postgres://ann:hunter2@db:port/docket",
            "the PostgreSQL URL cannot be read",
        ),
        (refused, "no connection to PostgreSQL could be had"),
    ] {
        for command in ["doctor", "migrate", "demo"] {
            let (code, shown, complaint) = docket(&[command, "--database", url]);
            assert_eq!(code, 2, "{command} {url}: {complaint}");
            assert!(complaint.contains(words), "{command}: {complaint}");
            assert!(
                !format!("{shown}{complaint}").contains("hunter2"),
                "{shown}{complaint}"
            );
        }
    }
    let (code, json, _) = docket(&["doctor", "--database", refused, "--json"]);
    let json: Value = serde_json::from_str(&json).expect("the answer is JSON");
    assert_eq!((code, &json["healthy"]), (2, &Value::Null));
    assert!(!json.to_string().contains("hunter2"), "{json}");
}

#[test]
fn help_shows_no_setting_of_the_environment() {
    let output = command()
        .args(["doctor", "--help"])
        .env("DOCKET_DATABASE_URL", "postgres://ann:hunter2@db/docket")
        .output();
    let (code, shown, _) = said(output.expect("the program can be started"));
    assert_eq!(code, 0);
    assert!(shown.contains("DOCKET_DATABASE_URL"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn the_doctor_makes_no_database_where_there_is_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let nowhere = folder.path().join("nowhere");
    let (code, _, complaint) = docket(&["doctor", "--data", path(&nowhere)]);
    assert_eq!(code, 2);
    assert!(
        complaint.contains("there is no Docket database in"),
        "{complaint}"
    );
    assert!(!nowhere.exists());
}

#[test]
fn migrating_says_the_version_and_can_be_repeated() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = path(folder.path());
    for _ in 0..2 {
        // Named by the environment this time.
        let output = command().arg("migrate").env("DOCKET_DATA", data).output();
        let (code, shown, complaint) = said(output.expect("the program can be started"));
        assert_eq!(code, 0, "{complaint}");
        let version = docket_store::schema_version();
        assert!(shown.contains(&format!("schema version {version}")), "{shown}");
    }
    assert!(
        !folder.path().join("blobs").exists(),
        "a migration needs no folder for files"
    );
}

#[test]
fn an_export_is_proved_offline_and_one_that_was_changed_is_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, file) = (folder.path().join("data"), folder.path().join("log.jsonl"));
    let (data, file) = (path(&data), path(&file));
    let (code, shown, complaints) = docket(&["demo", "--data", data]);
    assert_eq!((code, complaints.as_str()), (0, ""), "{shown}");
    let (code, shown, complaints) = docket(&["audit", "export", "--data", data, "--out", file]);
    assert_eq!((code, complaints.as_str()), (0, ""), "{shown}");
    let (code, shown, _) = docket(&["audit", "verify", "--data", data]);
    assert!(code == 0 && shown.contains("Whole."), "{shown}");
    // From here on there is no database.
    std::fs::remove_dir_all(data).expect("the data can be removed");
    let (code, shown, _) = docket(&["audit", "verify", file, "--json"]);
    let proved: Value = serde_json::from_str(&shown).expect("the answer is JSON");
    assert_eq!(
        (code, &proved["whole"], &proved["unsealed"]),
        (0, &Value::Bool(true), &Value::from(0))
    );
    let head = proved["head"].as_str().expect("there is a head").to_owned();
    let (code, shown, _) = docket(&["audit", "verify", file, "--head", &head]);
    assert!(code == 0 && shown.contains("in the chain"), "{shown}");
    let (code, shown, _) = docket(&["audit", "verify", file, "--head", &"0".repeat(64)]);
    assert!(code == 1 && shown.contains("Not whole."), "{shown}");
    let whole = std::fs::read_to_string(file).expect("the export can be read");
    std::fs::write(file, whole.replacen("item.submitted", "item.cancelled", 1)).expect("it can be written");
    let (code, shown, _) = docket(&["audit", "verify", file]);
    assert!(code == 1 && shown.contains("was changed"), "{shown}");
}

#[test]
fn what_cannot_be_checked_is_neither_whole_nor_not() {
    for args in [
        &["audit", "verify", "there-is-no-such-file"][..],
        &["audit", "verify", "x", "--head", "abc"],
        &["audit", "export", "--data", "there-is-no-such-folder"],
    ] {
        let (code, _, complaints) = docket(args);
        assert!(
            code == 2 && complaints.starts_with("docket: "),
            "{args:?}: {complaints}"
        );
    }
}
