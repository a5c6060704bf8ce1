//! `docket bench` against a real server.

use std::process::Command;

use docket_testkit::Database;
use serde_json::Value;

use crate::serving::{Server, doctor, serve_on};

/// Runs `docket bench` on the server there; its exit code, what it shows and what it complains of.
fn bench(url: &str, key: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_docket"))
        .args(["bench", "--url", url])
        .args(more)
        .env("DOCKET_KEY", key)
        .output()
        .expect("the program can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_is_measured_and_leaves_no_job_and_no_key_behind() {
    let database = Database::sqlite();
    let server = Server::start(serve_on(&database));
    let admin = server.admin_key();
    let size = ["--jobs", "205", "--connections", "3", "--lanes", "2"];
    let (code, shown, complaint) = bench(&server.url, &admin, &[&size[..], &["--json"]].concat());
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{shown}");
    let report: Value = serde_json::from_str(&shown).expect("the answer is JSON");
    assert_eq!(report["whole"], true, "{report}");
    for (phase, name) in ["submit", "claim", "complete"].iter().enumerate() {
        let phase = &report["phases"][phase];
        assert_eq!(
            (phase["name"].as_str(), phase["jobs"].as_u64()),
            (Some(*name), Some(205))
        );
        let calls = phase["calls"].as_u64().expect("a number");
        assert!((21..=205).contains(&calls), "{phase}");
        assert!(phase["jobsPerSecond"].as_f64() > Some(0.0), "{phase}");
        assert!(phase["p50Ms"].as_f64() <= phase["maxMs"].as_f64(), "{phase}");
    }
    // Once more, in the same world, for people.
    let (code, shown, _) = bench(&server.url, &admin, &[&size[..], &["--batch", "100"]].concat());
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("3 connections, batches of 100, 2 lanes") && shown.contains("complete"),
        "{shown}"
    );
    let keys = server.good("GET", "/api/v1/keys", &admin, None).await;
    let of_bench: Vec<_> = keys["items"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|key| key["subject"] == "docket-bench")
        .collect();
    assert_eq!(of_bench.len(), 2);
    assert!(of_bench.iter().all(|key| key["revokedAt"].is_string()), "{keys}");
    let items = server
        .good(
            "GET",
            "/api/v1/items?tenantId=docket-bench-1&status=queued",
            &admin,
            None,
        )
        .await;
    assert_eq!(items["items"].as_array().map(Vec::len), Some(0), "{items}");
    server.stop();
    doctor(&database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_takes_an_admins_key_and_a_server() {
    let database = Database::sqlite();
    let server = Server::start(serve_on(&database));
    let (_, worker) = server.world(&server.admin_key()).await;
    let (code, _, complaint) = bench(&server.url, &worker, &["--jobs", "1"]);
    assert_eq!(code, Some(1), "{complaint}");
    assert!(complaint.contains("it takes an admin's key"), "{complaint}");
    let (code, _, complaint) = bench("http://127.0.0.1:1", &worker, &["--jobs", "1"]);
    assert_eq!(code, Some(2), "{complaint}");
    assert!(complaint.contains("is the server running?"), "{complaint}");
}
