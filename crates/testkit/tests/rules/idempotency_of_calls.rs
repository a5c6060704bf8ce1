//! Idempotency keys of the creating calls beside submit: uploads, retries, reprocessing (rule I6).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::job::Failure;
use docket_engine::{Fail, UploadRequest, UploadStart};
use docket_testkit::{World, on_both};

fn keyed(key: &str) -> UploadRequest {
    UploadRequest {
        idempotency_key: Some(key.to_owned()),
        ..World::file("acme")
    }
}

async fn begin(world: &World, request: UploadRequest) -> UploadStart {
    world.engine.upload(&World::scope("acme"), request).await.unwrap()
}

async fn free_tenant(world: &World) {
    world.tenant_of_tier("acme", "free").await;
    world.collection("acme", "acme", None).await;
}

async fn failed_item(world: &World) -> docket_core::id::ItemId {
    world.lanes(1, &["acme"]).await;
    let item = world.submit_one("acme", "doc-1").await.id;
    let job = world.claim_one("w1").await;
    let failure = Failure {
        error: "unreadable".to_owned(),
        step: None,
        retryable: false,
    };
    let fail = Fail {
        job: job.id,
        token: job.token,
        failure,
    };
    world.engine.fail(vec![fail]).await.unwrap().remove(0).unwrap();
    item
}

on_both! {
    async fn an_upload_repeated_under_its_key_transfers_nothing_and_uses_no_place(world: &World) {
        free_tenant(world).await;
        let mut upload = world.upload("acme", keyed("k1")).await.unwrap();
        upload.write(bytes::Bytes::from_static(b"first")).await.unwrap();
        let first = upload.finish().await.unwrap();
        let UploadStart::Repeated(again) = begin(world, keyed("k1")).await else {
            panic!("the first answer was expected");
        };
        assert_eq!((again.answer, again.replayed, again.request_differs), (first, true, false));
        let other = UploadRequest { filename: Some("other.pdf".to_owned()), ..keyed("k1") };
        let UploadStart::Repeated(differs) = begin(world, other).await else {
            panic!("the first answer was expected");
        };
        assert!(differs.request_differs);
        assert_eq!(world.engine.limits(&World::scope("acme")).await.unwrap().remaining, 9);
        assert_eq!(world.number("select count(*) from item").await, 1);
    }

    async fn of_two_uploads_under_one_key_at_once_one_makes_the_item(world: &World) {
        free_tenant(world).await;
        let mut uploads = Vec::new();
        for bytes in [&b"one"[..], b"two"] {
            let mut upload = world.upload("acme", keyed("k1")).await.unwrap();
            upload.write(bytes::Bytes::from_static(bytes)).await.unwrap();
            uploads.push(upload);
        }
        let second = uploads.pop().unwrap();
        let first = uploads.pop().unwrap();
        let (first, second) = tokio::join!(first.finish(), second.finish());
        assert_eq!(first.unwrap(), second.unwrap(), "both hear of the same item");
        assert_eq!(world.number("select count(*) from item").await, 1);
        assert_eq!(world.engine.limits(&World::scope("acme")).await.unwrap().remaining, 9);
        world.pass_ms(3_600_001);
        world.engine.sweep_run_once().await.unwrap();
        assert_eq!(world.files(), 1, "the other's bytes are swept");
        world.assert_healthy().await;
    }

    async fn an_upload_that_was_refused_has_not_used_its_key(world: &World) {
        free_tenant(world).await;
        let refused = world.upload("acme", keyed("k1")).await.unwrap().finish().await;
        assert_eq!(refused.unwrap_err().refusal().unwrap().code(), "validation_failed");
        assert!(matches!(begin(world, keyed("k1")).await, UploadStart::Ready(_)));
    }

    async fn a_retry_repeated_under_its_key_makes_one_job(world: &World) {
        let item = failed_item(world).await;
        let scope = World::scope("acme");
        let first = world.engine.retry_once(&scope, item, Some("k1".to_owned())).await.unwrap();
        let again = world.engine.retry_once(&scope, item, Some("k1".to_owned())).await.unwrap();
        assert_eq!((again.answer, first.replayed, again.replayed), (first.answer, false, true));
        assert_eq!(world.engine.jobs(&scope, item).await.unwrap().len(), 2);
        let fresh = world.engine.retry_once(&scope, item, Some("k2".to_owned())).await;
        assert_eq!(fresh.unwrap_err().refusal().unwrap().code(), "not_failed");
    }

    async fn twenty_retries_at_once_under_one_key_make_one_job(world: &World) {
        let item = failed_item(world).await;
        let scope = World::scope("acme");
        let calls = (0..20).map(|_| world.engine.retry_once(&scope, item, Some("k1".to_owned())));
        let answers = futures_util::future::join_all(calls).await;
        let jobs: std::collections::HashSet<_> = answers.into_iter().map(|answer| answer.unwrap().answer).collect();
        assert_eq!(jobs.len(), 1);
        assert_eq!(world.engine.jobs(&scope, item).await.unwrap().len(), 2);
    }

    async fn the_key_of_a_retry_is_none_of_a_reprocessing(world: &World) {
        let item = failed_item(world).await;
        let scope = World::scope("acme");
        world.engine.retry_once(&scope, item, Some("k1".to_owned())).await.unwrap();
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        let anew = world.engine.reprocess_once(&scope, item, Some("k1".to_owned())).await.unwrap();
        assert!(!anew.replayed);
        let again = world.engine.reprocess_once(&scope, item, Some("k1".to_owned())).await.unwrap();
        assert_eq!((again.answer, again.replayed), (anew.answer, true));
    }
}
