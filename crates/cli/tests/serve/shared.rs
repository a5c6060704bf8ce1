//! Servers that share one PostgreSQL, and what a server tells Prometheus.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::serving::{Server, now, serve, serve_in, serve_on};
use docket_testkit::Database;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_start_at_once_on_one_postgres_share_it() {
    let database = Database::postgres().await;
    let url = database.url.clone().expect("it has a URL");
    let files = tempfile::tempdir().expect("a folder can be made");
    let starts: Vec<_> = (0..3)
        .map(|_| {
            let mut command = serve();
            command.args(["--database", &url]).arg("--data").arg(files.path());
            std::thread::spawn(move || Server::start(command))
        })
        .collect();
    let servers: Vec<_> = starts
        .into_iter()
        .map(|start| start.join().expect("each starts"))
        .collect();
    let mut keys = servers
        .iter()
        .filter_map(|server| server.printed_key("Admin key"));
    let admin = keys.next().expect("one prints the key");
    assert_eq!(keys.next(), None, "and only one");
    let (producer, worker) = servers[0].world(&admin).await;
    let items = json!({ "items": [{ "externalId": "a", "payload": 1 }] });
    servers[1]
        .good("POST", "/api/v1/collections/docs/items", &producer, Some(items))
        .await;
    let claim = json!({ "pipeline": "work", "workerId": "w1" });
    let claimed = servers[2]
        .good("POST", "/internal/v1/jobs/claim", &worker, Some(claim.clone()))
        .await;
    assert_eq!(claimed["jobs"].as_array().map(Vec::len), Some(1), "{claimed}");
    let claimed = servers[0]
        .good("POST", "/internal/v1/jobs/claim", &worker, Some(claim))
        .await;
    assert_eq!(
        claimed["jobs"],
        json!([]),
        "what one has given out no other gives"
    );
    for server in servers {
        let logs = server.stop();
        assert!(!logs.contains("\"ERROR\""), "{logs}");
    }
}

fn value(metrics: &str, series: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(series))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Five items; of three jobs one is completed, one fails, and of one the lease is said to be lost.
async fn let_things_happen(server: &Server, producer: &str, worker: &str) {
    let items: Vec<_> = (0..5)
        .map(|n| json!({ "externalId": format!("x{n}"), "payload": n }))
        .collect();
    let items = json!({ "items": items });
    server
        .good("POST", "/api/v1/collections/docs/items", producer, Some(items))
        .await;
    let claim = json!({ "pipeline": "work", "workerId": "w1", "limit": 3 });
    let claimed = server
        .good("POST", "/internal/v1/jobs/claim", worker, Some(claim))
        .await;
    let done = |job: &serde_json::Value| json!({ "jobId": job["jobId"], "leaseToken": job["leaseToken"] });
    let jobs: Vec<_> = claimed["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(done)
        .collect();
    assert_eq!(jobs.len(), 3, "{claimed}");
    let complete = json!({ "jobs": [jobs[0]] });
    server
        .good("POST", "/internal/v1/jobs/complete", worker, Some(complete))
        .await;
    let mut failed = jobs[1].clone();
    (failed["error"], failed["retryable"]) = (json!("no"), json!(false));
    server
        .good(
            "POST",
            "/internal/v1/jobs/fail",
            worker,
            Some(json!({ "jobs": [failed] })),
        )
        .await;
    let mut lost = jobs[2].clone();
    lost["leaseToken"] = json!(999);
    server
        .call(
            "POST",
            "/internal/v1/jobs/heartbeat",
            worker,
            Some(json!({ "jobs": [lost] })),
        )
        .await;
    for path in ["/nowhere", "/api/v1/items/made-up-1", "/api/v1/items/made-up-2"] {
        server.call("GET", path, producer, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_pass_promtool_and_tell_what_happened() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let server = Server::start(serve_in(folder.path()));
    let (producer, worker) = server.world(&server.admin_key()).await;
    let_things_happen(&server, &producer, &worker).await;
    let events = reqwest::Client::new().get(format!("{}/api/v1/events", server.url));
    let _follows = events
        .bearer_auth(&producer)
        .send()
        .await
        .expect("the stream begins");
    let (_, text) = server.call("GET", "/metrics", "", None).await;
    let text = text.as_str().expect("the metrics are text").to_owned();
    for (series, expected) in [
        ("docket_queue_depth{pipeline=\"work\"}", 2.0),
        ("docket_jobs_active{pipeline=\"work\"}", 1.0),
        ("docket_jobs_claimed_total{pipeline=\"work\"}", 3.0),
        ("docket_jobs_completed_total", 1.0),
        ("docket_jobs_failed_total{outcome=\"failed\"}", 1.0),
        ("docket_leases_lost_total{operation=\"heartbeat\"}", 1.0),
        ("docket_database_up", 1.0),
        ("docket_sse_clients", 1.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
    assert!(value(&text, "docket_queue_oldest_age_seconds{pipeline=\"work\"}").is_some_and(|age| age > 0.0));
    for part in [
        "docket_store_transaction_seconds_bucket{operation=\"claim\"",
        "docket_batch_size_count{operation=\"submit\"}",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.contains("docket_http_request_seconds_bucket{"), "{text}");
    assert!(text.contains("route=\"/internal/v1/jobs/claim\""), "{text}");
    for made_up in ["nowhere", "made-up", "acme", "w1"] {
        assert!(!text.contains(made_up), "'{made_up}' became a label:\n{text}");
    }
    check(&text);
    server.stop();
}

/// Prometheus' own opinion.
fn check(metrics: &str) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed: scripts/setup promtool");
    let mut stdin = promtool.stdin.take().expect("it reads");
    stdin.write_all(metrics.as_bytes()).expect("it takes the metrics");
    drop(stdin);
    let output = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waits_on_one_server_wakes_when_work_arrives_on_another() {
    let database = Database::postgres().await;
    let servers = [
        Server::start(serve_on(&database)),
        Server::start(serve_on(&database)),
    ];
    let (producer, worker) = servers[0].world(&servers[0].admin_key()).await;
    let mut waits = Vec::new();
    for n in 0..20 {
        let claim = json!({ "pipeline": "work", "workerId": "w1", "waitSeconds": 20 });
        let claimed = async {
            let claimed = servers[0]
                .good("POST", "/internal/v1/jobs/claim", &worker, Some(claim))
                .await;
            (claimed, now())
        };
        let submitted = async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            let items = json!({ "items": [{ "externalId": format!("x{n}"), "payload": n }] });
            servers[1]
                .good("POST", "/api/v1/collections/docs/items", &producer, Some(items))
                .await;
            now()
        };
        let ((claimed, woken), submitted) = tokio::join!(claimed, submitted);
        assert_eq!(claimed["jobs"].as_array().map(Vec::len), Some(1), "{claimed}");
        waits.push(woken.saturating_duration_since(submitted));
    }
    waits.sort();
    // How fast it really is belongs in the benchmarks: here the machine may be busy with other tests.
    assert!(waits[10] < Duration::from_millis(250), "{waits:?}");
    for server in servers {
        server.stop();
    }
}
