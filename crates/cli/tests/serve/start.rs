//! `docket serve` from its start until it is ready: keys, configuration, and what stops it from starting.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::serving::{Server, folder, refused, serve, serve_in};

#[tokio::test]
async fn a_server_is_ready_when_it_says_so_and_prints_the_first_key_once_only() {
    let folder = folder();
    let server = Server::start(serve_in(folder.path()));
    let key = server.admin_key();
    assert_eq!(key.len(), 52);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(server.call("GET", path, "", None).await.0, 200, "{path}");
    }
    assert_eq!(server.call("GET", "/api/v1/keys", "", None).await.0, 401);
    let keys = server.good("GET", "/api/v1/keys", &key, None).await;
    assert_eq!(keys["items"].as_array().map(Vec::len), Some(1), "{keys}");
    let logs = server.stop();
    assert!(!logs.contains(&key[9..]), "the key is in the log:\n{logs}");

    let again = Server::start(serve_in(folder.path()));
    assert_eq!(again.printed_key("Admin key"), None, "{:?}", again.told);
    again.good("GET", "/api/v1/keys", &key, None).await;
    again.stop();

    let mut command = serve_in(folder.path());
    command.arg("--new-admin-key");
    let third = Server::start(command);
    let other = third
        .printed_key("New admin key")
        .expect("another key is printed");
    assert_ne!(other, key);
    third.good("GET", "/api/v1/keys", &other, None).await;
    third.stop();
}

#[test]
fn a_server_whose_output_nobody_reads_serves_all_the_same() {
    let folder = folder();
    let mut command = serve_in(folder.path());
    // Nobody holds the other end of the pipe, so that whatever is printed fails.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.stdout(writer).stderr(Stdio::piped());
    let mut server = command.spawn().expect("the program can be started");
    let mut logs = BufReader::new(server.stderr.take().expect("it has a log")).lines();
    let mut until = |word: &str| {
        logs.by_ref()
            .map_while(Result::ok)
            .any(|line| line.contains(word))
    };
    assert!(until("nobody reads what the server prints"));
    assert!(until("\"serving\""));
    assert_eq!(server.try_wait().expect("its state"), None, "it goes on");
    server.kill().expect("it can be stopped");
    server.wait().expect("it ends");
}

#[tokio::test]
async fn the_first_key_can_come_from_the_environment_and_has_to_be_strong() {
    let folder = folder();
    let with = |key: &str| {
        let mut command = serve_in(folder.path());
        command.env("DOCKET_ADMIN_KEY", key);
        command
    };
    let (code, said) = refused(with("hunter2-hunter2"));
    assert_eq!(code, Some(2));
    assert!(
        said.contains("DOCKET_ADMIN_KEY") && said.contains("too weak"),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");

    let own = "5f2c0e9ab41d7788c3aa01b9e6f0d2445f2c0e9ab41d7788c3aa01b9e6f0d244";
    let server = Server::start(with(own));
    assert!(
        !server.told.concat().contains(own),
        "a key that is known is not printed"
    );
    server.good("GET", "/api/v1/keys", own, None).await;
    server.stop();
    let other = "000c0e9ab41d7788c3aa01b9e6f0d2445f2c0e9ab41d7788c3aa01b9e6f0d244";
    let server = Server::start(with(other));
    assert_eq!(
        server.call("GET", "/api/v1/keys", other, None).await.0,
        401,
        "the first stays the first"
    );
    let logs = server.stop();
    assert!(logs.contains("only taken at the very first start"), "{logs}");
}

#[test]
fn a_second_server_on_the_same_folder_is_refused_and_told_what_to_do() {
    let folder = folder();
    let server = Server::start(serve_in(folder.path()));
    let (code, said) = refused(serve_in(folder.path()));
    assert_eq!(code, Some(2));
    assert!(said.contains("is in use by another Docket"), "{said}");
    assert!(said.contains("PostgreSQL"), "{said}");
    server.stop();
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_made() {
    let folder = folder();
    let data = folder.path().join("data");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let taken = taken.local_addr().expect("it has an address").to_string();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.display().to_string()
    };
    let misspelt = file(
        "misspelt.toml",
        "listen = \"127.0.0.1:0\"\n[reaper]\nintervall_seconds = 5\n",
    );
    let no_jwt = file("jwt.toml", "[auth.jwt]\nsecret = \"short\"\n");
    for (args, words) in [
        (vec!["--listen", "nowhere"], "is no address to listen on"),
        (vec!["--listen", &taken], "is in use"),
        (vec!["--config", "/nowhere/docket.toml"], "cannot be read"),
        (
            vec!["--config", &misspelt],
            "line 3: there is no key 'intervall_seconds'; did you mean 'interval_seconds'?",
        ),
        (vec!["--log", "loud"], "is no log level"),
        (vec!["--database", "mysql://ann:secret@db/x"], "no PostgreSQL URL"),
    ] {
        let mut command = serve();
        // Flags of the same name: the last one counts for nobody, so the usual ones are left out.
        if args[0] == "--listen" {
            command = std::process::Command::new(env!("CARGO_BIN_EXE_docket"));
            command.arg("serve");
        }
        if args[0] != "--database" {
            command.arg("--data").arg(&data);
        }
        let (code, said) = refused({
            command.args(&args);
            command
        });
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
        assert!(!said.contains("secret"), "{said}");
        assert!(!data.exists(), "{args:?} made a folder");
    }
    let mut command = serve_in(&data);
    command.args(["--config", &no_jwt]);
    let (code, said) = refused(command);
    assert_eq!(code, Some(2));
    assert!(said.contains("at least 32"), "{said}");
}

#[tokio::test]
async fn the_file_sets_tiers_pipelines_and_where_things_are() {
    let folder = folder();
    let path = folder.path().join("docket.toml");
    let text = r#"
data = "below"
log = "warn"
[tiers.gold]
uploads_per_hour = 3
concurrent_jobs = 7
[pipelines.reading]
steps = ["ocr", "extract"]
lease_seconds = 30
"#;
    std::fs::write(&path, text).expect("the file can be written");
    let start = || {
        let mut command = serve();
        command.arg("--config").arg(&path);
        Server::start(command)
    };
    let server = start();
    assert!(
        folder.path().join("below/docket.db").exists(),
        "paths start from the file's folder"
    );
    let key = server.admin_key();
    let tenant = json!({ "tier": "gold" });
    server
        .good("PUT", "/api/v1/tenants/acme", &key, Some(tenant))
        .await;
    let collection = json!({ "tenantId": "acme", "pipeline": "reading" });
    server
        .good("PUT", "/api/v1/collections/docs", &key, Some(collection))
        .await;
    let made = json!({ "role": "producer", "tenantId": "acme", "subject": "ben" });
    let made = server.good("POST", "/api/v1/keys", &key, Some(made)).await;
    let limits = server
        .good(
            "GET",
            "/api/v1/limits",
            made["key"].as_str().expect("a key"),
            None,
        )
        .await;
    assert_eq!(limits["limit"], json!(3), "{limits}");
    let logs = server.stop();
    assert_eq!(logs, "", "nothing below a warning is logged");
    start().stop();
}

#[tokio::test]
async fn the_demo_has_a_key_for_each_role() {
    let folder = folder();
    let start = || {
        let mut command = serve_in(folder.path());
        command.arg("--demo");
        Server::start(command)
    };
    let server = start();
    let keys = |server: &Server| {
        ["worker", "service", "producer", "reviewer", "lead"]
            .map(|role| server.printed_key(role).expect(role))
    };
    let first = keys(&server);
    let items = server
        .good("GET", "/api/v1/items?collectionId=invoices", &first[2], None)
        .await;
    assert_eq!(items["items"].as_array().map(Vec::len), Some(8), "{items}");
    server.stop();
    let server = start();
    let (status, _) = server
        .call("GET", "/api/v1/items?collectionId=invoices", &first[2], None)
        .await;
    assert_eq!(status, 401, "the keys of the time before are revoked");
    let items = server
        .good(
            "GET",
            "/api/v1/items?collectionId=invoices",
            &keys(&server)[2],
            None,
        )
        .await;
    assert_eq!(
        items["items"].as_array().map(Vec::len),
        Some(8),
        "nothing is seeded twice"
    );
    server.stop();
}

#[tokio::test]
async fn the_demo_tells_of_decided_reviews_in_its_file() {
    let folder = folder();
    for time in ["at first", "again"] {
        let mut command = serve_in(folder.path());
        command.arg("--demo");
        let server = Server::start(command);
        let lead = server.printed_key("lead").expect("a lead's key");
        let sent = async {
            loop {
                let found = server
                    .good("GET", "/api/v1/deliveries?status=sent", &lead, None)
                    .await;
                let sent = found["items"].as_array().map_or(0, Vec::len);
                if sent >= 3 {
                    break sent;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let sent = tokio::time::timeout(Duration::from_secs(60), sent).await;
        assert_eq!(sent.expect("they are sent"), 3, "{time}");
        let file = std::fs::read_to_string(folder.path().join("outbox.jsonl")).expect("there is a file");
        assert_eq!(file.lines().count(), 3, "{time}: {file}");
        assert!(file.contains("was rejected by ann"), "{file}");
        server.stop();
    }
}

#[tokio::test]
async fn each_line_of_a_request_carries_its_id_and_no_secret_is_ever_logged() {
    let folder = folder();
    let mut command = serve_in(folder.path());
    command.args(["--log", "trace", "--log-format", "json"]);
    let server = Server::start(command);
    let key = server.admin_key();
    let (producer, _) = server.world(&key).await;
    let client = reqwest::Client::new();
    let answer = client
        .get(format!("{}/api/v1/items?collectionId=docs", server.url))
        .bearer_auth(&producer)
        .header("x-request-id", "find-me-42")
        .send()
        .await
        .expect("the server answers");
    assert_eq!(answer.headers()["x-request-id"], "find-me-42");
    let logs = server.stop();
    for secret in [&key, &producer] {
        assert!(!logs.contains(&secret[9..]), "a key is in the log");
    }
    let lines: Vec<serde_json::Value> = logs
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let of_request = |line: &&serde_json::Value| line.to_string().contains("find-me-42");
    assert!(
        lines.iter().filter(of_request).count() >= 1,
        "the request's lines can be found:\n{logs}"
    );
}
