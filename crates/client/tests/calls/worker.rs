//! The worker loop, where a real server would be hard to bring into the state that matters.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use docket_client::Client;
use docket_client::worker::{Outcome, Shutdown, Stop, Worker, WorkerOptions, each};
use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ItemId, JobId, LaneKey, Seq};
use docket_core::random::SeededRandom;
use serde_json::{Value, json};

use crate::stub::{Reply, Request, Stub};

fn item_id() -> ItemId {
    ItemId::new(
        Timestamp::from_ms(1_790_000_000_000),
        CollectionKey(3),
        &SeededRandom::new(1),
    )
}

fn job() -> Value {
    let id = JobId::new(Timestamp::from_ms(1_790_000_000_000), LaneKey(5), Seq(1));
    json!({
        "jobId": id, "itemId": item_id(), "itemVersion": 1, "tenantId": "t",
        "collectionId": "c", "externalId": null, "leaseToken": 7, "leaseExpiresAt": "2026-09-21T12:00:00Z",
        "attempt": 1, "payload": 1, "steps": [],
    })
}

/// A server that gives out one job and answers the rest by a function.
async fn stub(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Stub {
    let claims = AtomicUsize::new(0);
    Stub::start(move |request| {
        if !request.path.ends_with("/claim") {
            return answer(request);
        }
        match claims.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::json(200, json!({ "jobs": [job()] }).to_string()),
            _ => Reply::Later(
                Duration::from_millis(200),
                Box::new(Reply::json(200, r#"{"jobs":[]}"#)),
            ),
        }
    })
    .await
}

fn ok() -> Reply {
    let taken = json!({ "ok": true, "itemId": item_id(), "repeated": false, "status": "pending",
                        "leaseExpiresAt": "2026-09-21T12:00:00Z" });
    Reply::json(200, json!({ "results": [taken] }).to_string())
}

fn worker(stub: &Stub, lease_ms: u64) -> Worker {
    let options = WorkerOptions {
        lease: Some(Duration::from_millis(lease_ms)),
        wait: Duration::from_millis(200),
        grace: Duration::from_millis(300),
        ..WorkerOptions::new("p")
    };
    Worker::new(
        Client::new(stub.url(), None).expect("a client can be made"),
        options,
    )
}

fn bodies(stub: &Stub, end: &str) -> Vec<Value> {
    let asked = stub
        .requests()
        .into_iter()
        .filter(|request| request.path.ends_with(end));
    asked
        .map(|request| serde_json::from_str(&request.body).expect("it is JSON"))
        .collect()
}

/// Ends the worker once a function says so.
fn ended_when(shutdown: &Shutdown, is_done: impl Fn() -> bool + Send + 'static) {
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        while !is_done() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        shutdown.drain();
    });
}

#[tokio::test]
async fn an_outcome_is_told_until_it_is_answered_with_the_same_token() {
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let stub = stub(move |request| match request.path.ends_with("/complete") {
        true if count.fetch_add(1, Ordering::SeqCst) < 2 => Reply::HangUp,
        _ => ok(),
    })
    .await;
    let shutdown = Shutdown::new();
    ended_when(&shutdown, move || told.load(Ordering::SeqCst) >= 3);
    let handler = each(|_| async { Outcome::completed(Some(json!({ "done": true }))) });
    let summary = worker(&stub, 5_000)
        .run(handler, shutdown)
        .await
        .expect("it ends well");
    assert_eq!((summary.completed, summary.lost), (1, 0));
    let told = bodies(&stub, "/complete");
    assert_eq!(told.len(), 3);
    assert!(
        told.iter()
            .all(|body| body["jobs"][0]["leaseToken"] == json!(7) && *body == told[0]),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_handler_that_panics_has_failed() {
    let stub = stub(|_| ok()).await;
    let shutdown = Shutdown::new();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    ended_when(&shutdown, move || seen.load(Ordering::SeqCst) > 0);
    let handler = each(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { panic!("a bug of the handler's") }
    });
    let summary = worker(&stub, 5_000)
        .run(handler, shutdown)
        .await
        .expect("it ends well");
    assert_eq!(summary.failed, 1);
    let told = bodies(&stub, "/fail");
    assert_eq!(
        told[0]["jobs"][0]["error"],
        json!("the worker ended its work on the job without an answer")
    );
}

#[tokio::test]
async fn a_handler_is_told_when_its_lease_is_lost_and_when_it_ran_out() {
    for (answer, least_ms) in [
        (
            r#"{"results":[{"ok":false,"error":{"code":"lease_lost","detail":"gone"}}]}"#,
            0,
        ),
        // The server is away: the lease ends by itself, and not before.
        ("", 550),
    ] {
        let stub = stub(
            move |request| match (request.path.ends_with("/heartbeat"), answer) {
                (true, "") => Reply::HangUp,
                (true, answer) => Reply::json(200, answer),
                (false, _) => ok(),
            },
        )
        .await;
        let shutdown = Shutdown::new();
        let told = Arc::new(Mutex::new(None));
        let note = Arc::clone(&told);
        let handler = each(move |job| {
            let note = Arc::clone(&note);
            async move {
                let (after, why) = crate::stub::timed(job.stopped()).await;
                *note.lock().expect("nobody panicked") = Some((after, why));
                Outcome::Released
            }
        });
        let seen = Arc::clone(&told);
        ended_when(&shutdown, move || seen.lock().expect("nobody panicked").is_some());
        worker(&stub, 600)
            .run(handler, shutdown)
            .await
            .expect("it ends well");
        let (after, why) = told.lock().expect("nobody panicked").take().expect("it was told");
        assert_eq!(why, Stop::LeaseLost);
        assert!(
            after >= Duration::from_millis(least_ms) && after < Duration::from_secs(5),
            "{after:?}"
        );
    }
}

#[tokio::test]
async fn what_outlives_the_grace_is_told_to_stop_and_handed_back() {
    let stub = stub(|_| ok()).await;
    let shutdown = Shutdown::new();
    let handler = each(|job| async move {
        assert_eq!(job.stopped().await, Stop::Shutdown);
        Outcome::Released
    });
    shutdown_after(&shutdown, Duration::from_millis(200));
    let summary = worker(&stub, 5_000)
        .run(handler, shutdown)
        .await
        .expect("it ends well");
    assert_eq!((summary.released, summary.failed), (1, 0));
    assert_eq!(bodies(&stub, "/release").len(), 1);
}

fn shutdown_after(shutdown: &Shutdown, wait: Duration) {
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        shutdown.drain();
    });
}
