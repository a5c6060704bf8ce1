//! Uploads to a real server: the limit is exact (I2), what is refused is not sent (I3, I4), and memory stays flat.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::serving::{Server, doctor, now, serve_on};
use docket_testkit::Database;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const GIGABYTE: u64 = 1 << 30;
/// What a server may need more while it takes a file, whatever the file's size.
const ROOM_KB: u64 = 40 << 10;

/// Limits the uploads of `acme`.
async fn limit(server: &Server, admin: &str, uploads: Value) {
    let tenant = json!({ "tier": "free", "uploadsPerHour": uploads });
    server
        .good("PUT", "/api/v1/tenants/acme", admin, Some(tenant))
        .await;
}

async fn upload(url: String, key: String, n: usize) -> (u16, Option<u64>, Value) {
    let request = reqwest::Client::new().post(format!("{url}/api/v1/collections/docs/documents"));
    let request = request.bearer_auth(key).header("content-type", "application/pdf");
    let body = format!("file {n} ").repeat(5_000);
    let answer = request.body(body).send().await.expect("it is answered");
    let after = answer.headers().get("retry-after");
    let after = after.map(|after| {
        after
            .to_str()
            .expect("it is text")
            .parse()
            .expect("it is a number")
    });
    let status = answer.status().as_u16();
    (status, after, answer.json().await.expect("the answer is JSON"))
}

/// Fifty uploads at once on a free tenant, over these servers.
async fn fifty_at_once(servers: &[Server]) {
    let admin = servers[0].admin_key();
    let (producer, _) = servers[0].world(&admin).await;
    let tenant = json!({ "tier": "free" });
    servers[0]
        .good("PUT", "/api/v1/tenants/acme", &admin, Some(tenant))
        .await;
    let begun = now();
    let uploads: JoinSet<_> = (0..50)
        .map(|n| upload(servers[n % servers.len()].url.clone(), producer.clone(), n))
        .collect();
    let answers = uploads.join_all().await;
    let taken: Vec<_> = answers.iter().filter(|(status, _, _)| *status == 201).collect();
    assert_eq!(taken.len(), 10, "{answers:?}");
    for (_, _, item) in taken {
        assert_eq!(
            (&item["status"], &item["duplicate"]),
            (&json!("queued"), &json!(false))
        );
    }
    let least = 3_600 - begun.elapsed().as_secs() - 1;
    for (status, after, problem) in answers.iter().filter(|(status, _, _)| *status != 201) {
        assert_eq!(
            (*status, &problem["code"]),
            (429, &json!("rate_limited")),
            "{problem}"
        );
        assert_eq!(problem["detail"], "Upload limit reached. Please try again later.");
        let wait = problem["waitTimeSeconds"].as_u64().expect("the wait is told");
        assert_eq!(*after, Some(wait));
        assert!((least..=3_600).contains(&wait), "{wait}");
    }
    let limits = servers[0].good("GET", "/api/v1/limits", &producer, None).await;
    assert_eq!(
        (&limits["allowed"], &limits["remaining"]),
        (&json!(false), &json!(0)),
        "{limits}"
    );
    let items = servers[0]
        .good(
            "GET",
            "/api/v1/items?collectionId=docs&limit=200",
            &producer,
            None,
        )
        .await;
    assert_eq!(items["items"].as_array().map(Vec::len), Some(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_uploads_at_once_exactly_ten_are_taken_on_sqlite() {
    let database = Database::sqlite();
    let servers = [Server::start(serve_on(&database))];
    fifty_at_once(&servers).await;
    servers.into_iter().for_each(|server| drop(server.stop()));
    doctor(&database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_uploads_at_once_exactly_ten_are_taken_by_two_servers_on_postgres() {
    let database = Database::postgres().await;
    let servers = [
        Server::start(serve_on(&database)),
        Server::start(serve_on(&database)),
    ];
    fifty_at_once(&servers).await;
    servers.into_iter().for_each(|server| drop(server.stop()));
    doctor(&database);
}

/// A file that takes no place on the disk.
fn sparse(folder: &Path, bytes: u64) -> std::path::PathBuf {
    let path = folder.join("sparse.bin");
    let file = std::fs::File::create(&path).expect("a file can be made");
    file.set_len(bytes).expect("it can be long");
    path
}

/// What curl says of an upload: the status, how many bytes of the file it sent, and how long it took.
struct Sent {
    status: u16,
    bytes: u64,
    seconds: f64,
}

/// Uploads a file with curl, which waits for the server's word before it sends the body.
async fn curl(server: &Server, key: &str, file: &Path, headers: &[&str]) -> Sent {
    let mut command = Command::new("curl");
    command
        .args([
            "--silent",
            "--show-error",
            "--expect100-timeout",
            "60",
            "--max-time",
            "120",
        ])
        .args(["--request", "POST", "--output", "/dev/null"])
        .args(["--write-out", "%{http_code} %{size_upload} %{time_total}"])
        .args([
            "--header",
            "expect: 100-continue",
            "--header",
            "content-type: application/octet-stream",
        ])
        .args([
            "--header",
            &format!("authorization: Bearer {key}"),
            "--upload-file",
        ])
        .arg(file)
        .arg(format!("{}/api/v1/collections/docs/documents", server.url));
    for header in headers {
        command.args(["--header", header]);
    }
    let run = tokio::task::spawn_blocking(move || command.output());
    let output = run
        .await
        .expect("curl ends")
        .expect("curl is installed: scripts/setup curl");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let said = String::from_utf8_lossy(&output.stdout);
    let mut words = said.split(' ');
    let mut next = || words.next().expect("curl says three things");
    Sent {
        status: next().parse().expect("a status"),
        bytes: next().parse().expect("a number"),
        seconds: next().parse().expect("a time"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_gigabyte_that_is_refused_curl_sends_no_byte() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let database = Database::sqlite();
    let server = Server::start(serve_on(&database));
    let admin = server.admin_key();
    let (producer, _) = server.world(&admin).await;
    let file = sparse(folder.path(), GIGABYTE);

    limit(&server, &admin, json!(1)).await;
    let small = folder.path().join("small");
    std::fs::write(&small, "hello").expect("it can be written");
    assert_eq!(curl(&server, &producer, &small, &[]).await.status, 201);
    // The digest of what is there already: a client that tells it first transfers nothing.
    let known = "repr-digest: sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:";
    let sent = curl(&server, &producer, &file, &[known]).await;
    assert_eq!((sent.status, sent.bytes), (200, 0));

    let sent = curl(&server, &producer, &file, &[]).await;
    assert_eq!((sent.status, sent.bytes), (429, 0));
    assert!(sent.seconds < 5.0, "{}", sent.seconds);
    server.stop();
}

/// A line of what the system knows of a process, in kB.
fn memory(server: &Server, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()));
    let status = status.expect("the process is there");
    let line = status.lines().find_map(|text| text.strip_prefix(line));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .expect("the line is there")
        .parse()
        .expect("it is a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stays_flat_while_a_gigabyte_is_taken() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let database = Database::sqlite();
    let begun = now();
    let server = Server::start(serve_on(&database));
    let ready = begun.elapsed() - Duration::from_millis(300);
    let admin = server.admin_key();
    let (producer, _) = server.world(&admin).await;
    let small = folder.path().join("small");
    std::fs::write(&small, "hello").expect("it can be written");
    assert_eq!(curl(&server, &producer, &small, &[]).await.status, 201);
    let before = memory(&server, "VmRSS");
    assert!(before < 100 << 10, "{before} kB for a server that does nothing");

    let file = sparse(folder.path(), GIGABYTE);
    let sent = curl(&server, &producer, &file, &[]).await;
    assert_eq!((sent.status, sent.bytes), (201, GIGABYTE));
    // The most that it ever had, so that no moment in between is missed.
    let (peak, after) = (memory(&server, "VmHWM"), memory(&server, "VmRSS"));
    println!(
        "ready within {ready:?}; {before} kB before, at most {peak} kB, {after} kB after; {:.1} s",
        sent.seconds
    );
    assert!(
        peak < before + ROOM_KB,
        "{before} kB before, {peak} kB at its height"
    );
    server.stop();
}
