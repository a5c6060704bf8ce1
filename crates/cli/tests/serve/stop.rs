//! The end of a server: signals, waiting claims, requests under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::serving::{Server, folder, now, serve_in};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// An upload that has sent its head and half of its body.
async fn half_upload(server: &Server, key: &str, body: &[u8]) -> TcpStream {
    let address = server.url.strip_prefix("http://").expect("a URL");
    let mut stream = TcpStream::connect(address).await.expect("the server accepts");
    let length = body.len();
    let head = format!(
        "POST /api/v1/collections/docs/documents HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/pdf\r\nx-filename: a.pdf\r\ncontent-length: {length}\r\n\r\n"
    );
    stream
        .write_all(head.as_bytes())
        .await
        .expect("the head is taken");
    stream
        .write_all(&body[..length / 2])
        .await
        .expect("half of it is taken");
    stream.flush().await.expect("it is sent");
    tokio::time::sleep(Duration::from_millis(300)).await;
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_claim_is_answered_at_once_when_the_server_stops() {
    let folder = folder();
    let server = Arc::new(Server::start(serve_in(folder.path())));
    let (_, worker) = server.world(&server.admin_key()).await;
    let waiting: Vec<_> = (0..10)
        .map(|n| {
            let (server, worker) = (Arc::clone(&server), worker.clone());
            let claim = json!({ "pipeline": "work", "workerId": format!("w{n}"), "waitSeconds": 60 });
            tokio::spawn(async move {
                server
                    .call("POST", "/internal/v1/jobs/claim", &worker, Some(claim))
                    .await
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = now();
    server.signal("-TERM");
    for claim in waiting {
        let (status, answer) = claim.await.expect("the claim ends");
        assert_eq!((status, &answer["jobs"]), (200, &json!([])), "{answer}");
    }
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    let server = Arc::into_inner(server).expect("nobody else has it");
    let (code, logs) = server.wait();
    assert_eq!(code, Some(0), "{logs}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_under_way_is_finished() {
    let folder = folder();
    let server = Server::start(serve_in(folder.path()));
    let (producer, _) = server.world(&server.admin_key()).await;
    let body = vec![b'x'; 400_000];
    let mut upload = half_upload(&server, &producer, &body).await;
    server.signal("-TERM");
    tokio::time::sleep(Duration::from_millis(500)).await;
    upload
        .write_all(&body[body.len() / 2..])
        .await
        .expect("the rest is taken");
    let mut answer = String::new();
    upload
        .read_to_string(&mut answer)
        .await
        .expect("the server answers and closes");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let (code, logs) = server.wait();
    assert_eq!(code, Some(0), "{logs}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_that_was_begun_is_dropped() {
    let folder = folder();
    let server = Arc::new(Server::start(serve_in(folder.path())));
    let admin = server.admin_key();
    let (producer, _) = server.world(&admin).await;
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..16)
        .map(|client| {
            let (server, producer) = (Arc::clone(&server), producer.clone());
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            tokio::spawn(async move {
                for n in 0.. {
                    let body = json!({ "items": [{ "externalId": format!("{client}-{n}"), "payload": { "n": n } }] });
                    // A connection for each: what is refused was never begun, what is accepted must be answered.
                    let sent = reqwest::Client::new()
                        .post(format!("{}/api/v1/collections/docs/items", server.url))
                        .bearer_auth(&producer)
                        .json(&body)
                        .send()
                        .await;
                    match sent {
                        Ok(answer) => {
                            assert_eq!(answer.status(), 200);
                            answer.bytes().await.expect("the answer is whole");
                            answered.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => {
                            // Not accepted any more. That it was not begun either is shown by the count below.
                            assert!(stop.load(Ordering::SeqCst), "{error:?}");
                            return;
                        }
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(700)).await;
    stop.store(true, Ordering::SeqCst);
    server.signal("-TERM");
    for client in clients {
        client.await.expect("no request was dropped");
    }
    let (code, logs) = Arc::into_inner(server).expect("nobody else has it").wait();
    assert_eq!(code, Some(0), "{logs}");

    let server = Server::start(serve_in(folder.path()));
    let counted = count(&server, &producer).await;
    assert_eq!(
        counted,
        answered.load(Ordering::SeqCst),
        "what was answered is there, and nothing else"
    );
    server.stop();
}

async fn count(server: &Server, key: &str) -> usize {
    let (mut count, mut cursor) = (0, String::new());
    loop {
        let path = format!("/api/v1/items?collectionId=docs&limit=200{cursor}");
        let page = server.good("GET", &path, key, None).await;
        count += page["items"].as_array().expect("a page").len();
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return count,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once_and_nothing_is_harmed() {
    let folder = folder();
    let server = Server::start(serve_in(folder.path()));
    let (producer, _) = server.world(&server.admin_key()).await;
    let _hanging = half_upload(&server, &producer, &[b'x'; 100_000]).await;
    let begun = now();
    server.signal("-INT");
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.signal("-INT");
    let (code, logs) = server.wait();
    assert_eq!(code, Some(130), "{logs}");
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    let server = Server::start(serve_in(folder.path()));
    assert_eq!(count(&server, &producer).await, 0, "half an upload is no item");
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_never_ends_does_not_hold_the_server_for_more_than_ten_seconds() {
    let folder = folder();
    let server = Server::start(serve_in(folder.path()));
    let (producer, _) = server.world(&server.admin_key()).await;
    let _hanging = half_upload(&server, &producer, &[b'x'; 100_000]).await;
    let begun = now();
    server.signal("-TERM");
    let (code, logs) = server.wait();
    assert_eq!(code, Some(0), "{logs}");
    // The ten seconds, and some more for a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// A webhook whose answer is long in coming: whoever stops neither cuts it off nor forgets what became of it (N5).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_on_its_way_is_waited_for_and_marked() {
    // Longer than the requests' own end takes.
    const SLOW: Duration = Duration::from_secs(4);
    let folder = folder();
    let hook = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let recipient = format!("webhook:http://{}/hook", hook.local_addr().expect("an address"));
    let settings = folder.path().join("docket.toml");
    let channel =
        "[channels.webhook]\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nallow_private = true\n";
    std::fs::write(&settings, channel).expect("the settings can be written");
    let command = || {
        let mut command = serve_in(folder.path());
        command.arg("--config").arg(&settings);
        command
    };
    let server = Server::start(command());
    let key = server.admin_key();
    let message = json!({
        "idempotencyKey": "k1", "changelistId": "c1", "reviewVersion": 1, "recipients": [recipient], "subject": "Told",
        "body": "once\n",
    });
    let made = server
        .good("POST", "/api/v1/notifications", &key, Some(message))
        .await;
    let deliveries = format!(
        "/api/v1/notifications/{}/deliveries",
        made["id"].as_str().expect("an id")
    );
    let (mut sent, _) = hook.accept().await.expect("the message comes");
    server.signal("-TERM");
    tokio::time::sleep(SLOW).await;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"id\":\"n1\"}";
    sent.write_all(answer)
        .await
        .expect("the server still listens for the answer");
    let (code, logs) = server.wait();
    assert_eq!(code, Some(0), "{logs}");

    let server = Server::start(command());
    let found = server.good("GET", &deliveries, &key, None).await;
    let delivery = &found["items"][0];
    assert_eq!(delivery["status"], "sent", "{found}");
    assert_eq!(delivery["attempts"].as_array().map(Vec::len), Some(1), "{found}");
    server.stop();
}
