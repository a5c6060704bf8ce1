//! The client against a server that misbehaves on purpose: one made of a socket and a function.

#![expect(clippy::expect_used, reason = "a test panics where it cannot go on")]

mod reviews;
mod stub;
mod worker;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docket_client::wire::job::Claim;
use docket_client::wire::pause::{PauseScope, PauseSet};
use docket_client::wire::{Code, tenant::Tenant};
use docket_client::{Client, ClientError, ClientOptions, EventsFilter, RetryPolicy, Upload};
use serde_json::json;
use stub::{Reply, Stub};

const TENANT: &str = r#"{"id":"t","tier":"pro","uploadsPerHour":5,"concurrentJobs":2}"#;

fn client(stub: &Stub) -> Client {
    let mut options = ClientOptions::new(stub.url(), Some("dk_test".to_owned()));
    options.retry = RetryPolicy {
        attempts: 4,
        base_ms: 5,
        max_ms: 2_000,
    };
    Client::with_options(options).expect("a client can be made")
}

#[tokio::test]
async fn a_read_is_repeated_until_it_is_answered() {
    let asked = AtomicUsize::new(0);
    let stub = Stub::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::json(503, "{}"),
        1 => Reply::HangUp,
        _ => Reply::json(200, TENANT),
    })
    .await;
    let tenant: Tenant = client(&stub)
        .tenant("t")
        .await
        .expect("it is answered in the end");
    assert_eq!((tenant.id.as_str(), stub.requests().len()), ("t", 3));
    assert!(
        stub.requests()
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer dk_test"))
    );
}

#[tokio::test]
async fn a_creating_call_is_repeated_with_the_same_key() {
    let asked = AtomicUsize::new(0);
    let stub = Stub::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::HangUp,
        _ => Reply::json(409, r#"{"code":"conflict","detail":"it is paused already"}"#),
    })
    .await;
    let set = PauseSet {
        scope: PauseScope::All,
        id: None,
        tenant_id: None,
        reason: "test".to_owned(),
    };
    let error = client(&stub).pause(&set).await.expect_err("it is refused");
    assert_eq!(error.code(), Some(Code::Conflict));
    let keys: Vec<_> = stub
        .requests()
        .iter()
        .map(|r| r.header("idempotency-key").map(str::to_owned))
        .collect();
    assert_eq!(keys.len(), 2);
    assert!(keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
}

#[tokio::test]
async fn a_claim_whose_fate_is_not_known_is_not_repeated() {
    let stub = Stub::start(|_| Reply::HangUp).await;
    let claim = Claim {
        pipeline: "p".to_owned(),
        worker_id: "w".to_owned(),
        limit: 1,
        lease_seconds: None,
        wait_seconds: None,
    };
    let error = client(&stub).claim(&claim).await.expect_err("nobody answers");
    assert!(
        matches!(error, ClientError::Transport { reached: true, .. }),
        "{error:?}"
    );
    assert_eq!(stub.requests().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_hangs_up() {
    let url = Stub::start(|_| Reply::HangUp).await.url();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let client = Client::new(url, None)
        .expect("a client can be made")
        .with_retry(RetryPolicy::never());
    let error = client.tenant("t").await.expect_err("nobody is there");
    assert!(
        matches!(error, ClientError::Transport { reached: false, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn retry_after_is_heeded_within_reason() {
    let asked = AtomicUsize::new(0);
    let stub = Stub::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::json(429, r#"{"code":"rate_limited","detail":"later"}"#).with("retry-after", "1"),
        1 => Reply::json(200, TENANT),
        _ => Reply::json(429, r#"{"code":"rate_limited","detail":"later"}"#).with("retry-after", "3000"),
    })
    .await;
    let client = client(&stub);
    let (waited, answer) = stub::timed(client.tenant("t")).await;
    answer.expect("it is answered after the wait");
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    let error = client.tenant("t").await.expect_err("an hour is not waited for");
    let ClientError::Problem(problem) = error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (problem.code(), problem.retry_after),
        (Some(Code::RateLimited), Some(Duration::from_secs(3_000)))
    );
}

#[tokio::test]
async fn a_refused_upload_sends_no_byte_of_the_file() {
    let refusal = r#"{"code":"rate_limited","detail":"Upload limit reached. Please try again later."}"#;
    let stub = Stub::start(move |_| Reply::json(429, refusal).with("retry-after", "600")).await;
    let file = tempfile::NamedTempFile::new().expect("there is a file");
    std::fs::write(file.path(), vec![7; 3_000_000]).expect("it can be written");
    let error = client(&stub)
        .upload("c", &Upload::new(file.path()), |_| {})
        .await
        .expect_err("it is refused");
    assert_eq!(error.to_string(), "Upload limit reached. Please try again later.");
    let requests = stub.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].header("expect"), Some("100-continue"));
    assert!(
        requests[0]
            .header("repr-digest")
            .is_some_and(|digest| digest.starts_with("sha-256=:"))
    );
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stub.body_bytes(), 0, "nothing of the file went over the wire");
}

#[tokio::test]
async fn the_event_stream_resumes_where_it_broke_off() {
    let asked = AtomicUsize::new(0);
    let stub = Stub::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::events("id: 1\ndata: {\"n\": 1}\n\nid: 2\ndata: {\"n\": 2}\n\nid: 3\ndata: {\"half"),
        1 => Reply::json(503, "{}"),
        2 => Reply::events(": hello\n\nid: 3\nevent: log\ndata: {\"n\": 3}\n\n"),
        _ => Reply::json(403, r#"{"code":"forbidden","detail":"no"}"#),
    })
    .await;
    let mut events = client(&stub).events(EventsFilter::default());
    for n in 1..=3 {
        assert_eq!(events.next().await.expect("it goes on").data, json!({ "n": n }));
    }
    assert_eq!(
        events.next().await.expect_err("it is refused").code(),
        Some(Code::Forbidden)
    );
    let after: Vec<_> = stub
        .requests()
        .iter()
        .map(|r| r.header("last-event-id").map(str::to_owned))
        .collect();
    assert_eq!(
        after,
        [
            None,
            Some("2".to_owned()),
            Some("2".to_owned()),
            Some("3".to_owned())
        ]
    );
}

#[tokio::test]
async fn an_event_stream_on_which_nothing_happened_resumes_where_it_began() {
    let asked = AtomicUsize::new(0);
    let stub = Stub::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::events("retry: 10\nid: 7\n\n"),
        1 => Reply::events("id: 7\n\nid: 8\ndata: {\"n\": 8}\n\n"),
        _ => Reply::json(403, r#"{"code":"forbidden","detail":"no"}"#),
    })
    .await;
    let mut events = client(&stub).events(EventsFilter::default());
    assert_eq!(events.next().await.expect("it goes on").data, json!({ "n": 8 }));
    events.next().await.expect_err("it is refused");
    let after: Vec<_> = stub
        .requests()
        .iter()
        .map(|r| r.header("last-event-id").map(str::to_owned))
        .collect();
    assert_eq!(after, [None, Some("7".to_owned()), Some("8".to_owned())]);
}
