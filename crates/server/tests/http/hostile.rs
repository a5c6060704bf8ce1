//! What no sound client sends, over a real connection: each is refused in words or closed, and the next request is served as if
//! nothing had been. Never a fault of the server, never a hang, never a second answer to one request.

use std::time::Duration;

use docket_server::ServerConfig;
use docket_testkit::on_both;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::connections::{Running, rest, run};
use crate::site::Site;

/// Sends these bytes and reads until the server closes.
async fn send(running: &Running, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    // The server may close before it has read everything.
    stream.write_all(bytes).await.ok();
    rest(&mut stream).await
}

/// The head of a request with a JSON body, as far as its length.
fn post(site: &Site, rest: &str) -> Vec<u8> {
    let key = site.key("worker");
    let line = "POST /internal/v1/jobs/claim HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    format!("{line}Authorization: Bearer {key}\r\n{rest}").into_bytes()
}

#[track_caller]
fn answered(what: &str, answer: &str, statuses: &[&str]) {
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    assert!(
        status.is_some_and(|status| statuses.contains(&status)),
        "{what}: {answer}"
    );
    assert_eq!(
        answer.matches("HTTP/1.1 ").count(),
        1,
        "{what} was answered twice: {answer}"
    );
}

on_both! {
    async fn a_request_that_hides_another_is_refused_and_its_connection_closed(world: &World) {
        let site = Site::new(world).await;
        let running = run(&site).await;
        let hidden = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
        for (what, framing) in [
            ("a length and chunks", format!("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}")),
            ("two lengths", format!("Content-Length: 0\r\nContent-Length: 40\r\n\r\n{hidden}")),
            ("a length that is none", format!("Content-Length: -1\r\n\r\n{hidden}")),
            ("a length with a sign", format!("Content-Length: +0\r\n\r\n{hidden}")),
            ("chunks that are not the last coding", format!("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}")),
            ("an unknown coding", format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}")),
            ("a space before the colon", format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}")),
            ("a chunk of no size", format!("Transfer-Encoding: chunked\r\n\r\nzz\r\n{hidden}")),
            ("a chunk of any size", format!("Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{hidden}")),
            ("a folded header", format!("X-A: 1\r\n Content-Length: 0\r\n\r\n{hidden}")),
        ] {
            answered(what, &send(&running, &post(&site, &framing)).await, &["400", "422"]);
        }
        running.end().await;
    }

    async fn heads_that_are_no_heads_or_too_large_are_refused(world: &World) {
        let site = Site::new(world).await;
        let running = run(&site).await;
        let many: String = (0..300).map(|n| format!("X-{n}: 1\r\n")).collect();
        let parameters: Vec<_> = (0..10_000).map(|n| format!("p{n}=1")).collect();
        let parameters = format!("GET /api/v1/items?{} HTTP/1.1\r\nHost: x\r\n\r\n", parameters.join("&"));
        let large = format!("GET / HTTP/1.1\r\nHost: x\r\nX-A: {}\r\n\r\n", "a".repeat(200_000));
        for (what, bytes) in [
            ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
            ("HTTP/0.9", b"GET /healthz\r\n\r\n".to_vec()),
            ("a path that is no text", b"GET /api/v1/items/\xff HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
            ("NUL in a header", b"GET /healthz HTTP/1.1\r\nHost: x\0\r\n\r\n".to_vec()),
            ("too many headers", format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n").into_bytes()),
            ("a header that is too large", large.into_bytes()),
            ("too many parameters", parameters.into_bytes()),
        ] {
            answered(what, &send(&running, &bytes).await, &["400", "414", "431"]);
        }
        assert_eq!(send(&running, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await, "");
        let old = send(&running, b"GET /healthz HTTP/1.0\r\n\r\n").await;
        assert!(old.starts_with("HTTP/1.0 200"), "{old}");
        running.end().await;
    }

    async fn who_sends_slowly_is_cut_off(world: &World) {
        let config = ServerConfig {
            head_timeout: Duration::from_secs(1),
            body_timeout: Duration::from_secs(1),
            ..ServerConfig::default()
        };
        let site = Site::with(world, config).await;
        let running = run(&site).await;
        let (silent, head, body) = tokio::join!(
            send(&running, b""),
            send(&running, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow"),
            async {
                let bytes = post(&site, "Content-Length: 100\r\n\r\n{\"pipe");
                send(&running, &bytes).await
            },
        );
        assert_eq!((silent.as_str(), head.as_str()), ("", ""));
        answered("a slow body", &body, &["408"]);
        assert!(body.contains("application/problem+json") && body.contains("request_timeout"), "{body}");
        running.end().await;
    }

    async fn a_body_where_none_is_wanted_does_not_become_the_next_request(world: &World) {
        let site = Site::new(world).await;
        let running = run(&site).await;
        let hidden = "DELETE /api/v1/keys/x HTTP/1.1\r\n\r\n";
        let first = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len());
        let second = "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let answer = send(&running, format!("{first}{second}").as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
        running.end().await;
    }

    async fn packed_bodies_and_objects_without_names_are_refused_in_words(world: &World) {
        let site = Site::new(world).await;
        let packed = site.call("worker", "POST", "/internal/v1/jobs/claim").header("content-encoding", "gzip");
        let detail = packed.json(json!({ "pipeline": "work", "workerId": "w" })).send().await.problem(415, "unsupported_media_type");
        assert!(detail.contains("Content-Encoding"), "{detail}");
        let listed = json!({ "items": [["INV-1", { "total": 1 }]] });
        site.post("acme", "/api/v1/collections/acme/items", listed).await.wrong_at("items[0]");
        site.upload(b"packed").header("content-encoding", "gzip").send().await.problem(415, "unsupported_media_type");
        assert_eq!(site.upload(b"plain").header("content-encoding", "identity").send().await.status, 201);
    }

    async fn every_route_names_its_methods_and_answers_head_without_a_body(world: &World) {
        let site = Site::new(world).await;
        let document: serde_json::Value = serde_json::from_str(&docket_server::openapi::document_text()).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            let path = path.replace(['{', '}'], "");
            for method in ["OPTIONS", "TRACE", "PATCH", "BREW"] {
                let answer = site.call("admin", method, &path).send().await;
                answer.problem(405, "method_not_allowed");
                let allowed = answer.header("allow").unwrap().to_lowercase();
                for method in item.as_object().unwrap().keys() {
                    assert!(allowed.contains(method.as_str()), "{path}: {allowed}");
                }
            }
            if item.get("get").is_some() && path != "/api/v1/events" {
                let answer = site.call("admin", "HEAD", &path).send().await;
                assert!(answer.status.as_u16() < 500, "{path}: {}", answer.status);
                assert_eq!(answer.body.len(), 0, "{path}");
            }
        }
    }

    async fn names_in_a_path_may_be_anything_and_break_nothing(world: &World) {
        let site = Site::new(world).await;
        for name in ["%00", "%ff%fe", "%ED%A0%80", "a%0Ab", "%20", "%C2%85"] {
            site.get("admin", &format!("/api/v1/collections/{name}")).await.wrong_at(if name.starts_with("%ff") || name.starts_with("%ED") { "path" } else { "collectionId" });
            site.get("admin", &format!("/api/v1/items/{name}")).await.problem(422, "validation_failed");
        }
        for name in ["..", "a%2Fb", "%25", "%zz", "%F0%9F%A6%80", "';--"] {
            site.get("admin", &format!("/api/v1/collections/{name}")).await.problem(404, "not_found");
        }
    }
}
