//! Which calls about reviews are made again when nobody answers, and which are not.

use std::sync::atomic::{AtomicUsize, Ordering};

use docket_client::ClientError;
use docket_client::wire::Code;
use docket_client::wire::collection::ReviewOutcome;
use docket_client::wire::review::{Decision, Pop, Reassign, Release};
use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ReviewId};
use docket_core::random::SeededRandom;

use crate::client;
use crate::stub::{Reply, Stub};

fn review() -> ReviewId {
    let at = Timestamp::from_ms(1_790_000_000_000);
    ReviewId::new(at, CollectionKey(9), &SeededRandom::new(3))
}

#[tokio::test]
async fn a_decision_is_repeated_until_it_is_answered() {
    let asked = AtomicUsize::new(0);
    let id = review();
    let answer = format!(
        r#"{{"results":[
          {{"ok":true,"queueId":"{id}","itemId":"{id}","status":"approved","decidedAt":"2026-09-21T14:13:20Z",
            "undoUntil":"2026-09-21T14:13:30Z","repeated":true}},
          {{"ok":false,"error":{{"code":"already_claimed","detail":"bob holds this review","assignedTo":"bob",
            "leaseExpiresAt":"2026-09-21T14:13:30Z"}}}}]}}"#
    );
    let stub = Stub::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::HangUp,
        1 => Reply::json(503, "{}"),
        _ => Reply::json(200, answer.clone()),
    })
    .await;
    let decision = Decision {
        queue_id: review().uuid(),
        generation_id: None,
        lease_token: None,
        outcome: ReviewOutcome::Approved,
        reason: None,
        corrections: Vec::new(),
    };
    let answers = client(&stub)
        .review_commit(vec![decision])
        .await
        .expect("it is answered in the end");
    assert!(answers[0].as_ref().is_ok_and(|decided| decided.repeated));
    let refused = answers[1].as_ref().expect_err("the other is refused");
    assert_eq!(
        (refused.code.as_str(), refused.assigned_to.as_deref()),
        (Code::AlreadyClaimed.as_str(), Some("bob"))
    );
    let requests = stub.requests();
    assert_eq!(
        (requests.len(), requests[2].path.as_str()),
        (3, "/api/v1/review-queue/commit")
    );
    assert_eq!(
        requests[0].body,
        format!(r#"{{"decisions":[{{"queueId":"{id}","outcome":"approved"}}]}}"#)
    );
}

#[tokio::test]
async fn what_would_not_be_the_same_twice_is_said_once() {
    let stub = Stub::start(|_| Reply::HangUp).await;
    let client = client(&stub);
    let pop = Pop {
        collection_id: "c".to_owned(),
        limit: 1,
        strategy: None,
        lock_timeout_seconds: None,
        wait_seconds: None,
    };
    let release = Release {
        queue_ids: vec![review().uuid()],
        skip: false,
        reason: None,
    };
    let reassign = Reassign {
        to: "bob".to_owned(),
        reason: None,
    };
    let errors = [
        client.review_pop(&pop).await.map(drop),
        client.review_release(&release).await.map(drop),
        client.review_undo(&[review()]).await.map(drop),
        client
            .review_reassign(&review().to_string(), &reassign)
            .await
            .map(drop),
    ];
    for error in errors {
        let error = error.expect_err("nobody answers");
        assert!(
            matches!(error, ClientError::Transport { reached: true, .. }),
            "{error:?}"
        );
    }
    assert_eq!(stub.requests().len(), 4);
}
