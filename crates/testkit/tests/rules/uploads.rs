//! Files: the limit before the first byte, duplicates by their bytes, and nothing left of what was not finished (rules I3, I4
//! and I7).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::content::Digest;
use docket_core::item::{ItemDetails, ItemStatus, OnConflict};
use docket_core::tenant::{TenantSettings, UploadLimit};
use docket_engine::{Upload, UploadRequest, UploadStart};
use docket_testkit::{FILE_MAX, World, names, on_both};
use serde_json::json;

const HOUR: i64 = 3_600_000;

async fn free_tenant(world: &World) {
    world
        .pipeline("work", docket_core::pipeline::Pipeline::default())
        .await;
    world.tenant_of_tier("acme", "free").await;
    world.collection("acme", "acme", Some("work")).await;
}

async fn begin(world: &World) -> Box<Upload> {
    world.upload("acme", World::file("acme")).await.unwrap()
}

async fn refusal_of_begin(world: &World, request: UploadRequest) -> Refusal {
    let error = world
        .engine
        .upload(&World::scope("acme"), request)
        .await
        .unwrap_err();
    error.refusal().unwrap().clone()
}

fn with_id(external_id: &str, on_conflict: OnConflict) -> UploadRequest {
    let details = ItemDetails {
        external_id: Some(external_id.to_owned()),
        on_conflict,
        ..ItemDetails::default()
    };
    UploadRequest {
        details,
        ..World::file("acme")
    }
}

fn with_digest(bytes: &[u8]) -> UploadRequest {
    UploadRequest {
        digest: Some(Digest::of(bytes)),
        ..World::file("acme")
    }
}

async fn left(world: &World) -> u64 {
    world
        .engine
        .limits(&World::scope("acme"))
        .await
        .unwrap()
        .remaining
}

async fn sweep(world: &World) {
    world.engine.sweep_run_once().await.unwrap();
}

async fn items(world: &World) -> i64 {
    world.number("select count(*) from item").await
}

async fn bytes_of(world: &World, id: docket_core::id::ItemId) -> Vec<u8> {
    let content = world.engine.content(&World::scope("acme"), id).await.unwrap();
    content.bytes().await.unwrap().to_vec()
}

on_both! {
    async fn a_file_goes_in_by_pieces_and_comes_out_whole(world: &World) {
        world.lanes(1, &["acme"]).await;
        let whole: Vec<u8> = (0..12_000_000_u32).map(|n| (n % 251) as u8).collect();
        let request = UploadRequest { size: Some(whole.len() as u64), ..with_digest(&whole) };
        let mut upload = world.upload("acme", request).await.unwrap();
        for piece in whole.chunks(1_000_003) {
            upload.write(piece.to_vec().into()).await.unwrap();
        }
        let taken = upload.finish().await.unwrap();
        assert!(!taken.duplicate && taken.job.is_some());
        let view = world.view("acme", taken.id).await;
        assert_eq!((view.item.is_file, view.item.size), (true, whole.len() as u64));
        assert_eq!(view.item.content_hash, Digest::of(&whole));
        assert_eq!(view.item.filename.as_deref(), Some("scan.pdf"));
        assert_eq!(view.item.media_type.as_deref(), Some("application/pdf"));
        assert!(bytes_of(world, taken.id).await == whole);
        let job = world.claim_one("w1").await;
        assert_eq!((job.item, job.has_content, job.payload), (taken.id, true, None));
        assert_eq!(world.files(), 1);
    }

    async fn over_the_limit_a_file_is_refused_before_any_byte(world: &World) {
        free_tenant(world).await;
        world.submit_many("acme", "doc", 10).await;
        world.pass_ms(60_000);
        let refusal = refusal_of_begin(world, World::file("acme")).await;
        assert_eq!(refusal, Refusal::RateLimited { limit: 10, wait_ms: HOUR - 60_000 });
        assert_eq!(refusal.to_string(), "Upload limit reached. Please try again later.");
        assert_eq!(refusal_of_begin(world, with_digest(b"new")).await, refusal, "also with a digest that is new");
        assert_eq!(world.number("select count(*) from upload").await, 0);
        assert_eq!(world.files(), 0);
        world.pass_ms(HOUR - 60_000);
        begin(world).await.abort().await.unwrap();
    }

    async fn an_upload_that_has_begun_has_its_place(world: &World) {
        free_tenant(world).await;
        let mut under_way = Vec::new();
        for n in 0..10 {
            under_way.push(begin(world).await);
            assert_eq!(left(world).await, 9 - n);
        }
        assert!(matches!(refusal_of_begin(world, World::file("acme")).await, Refusal::RateLimited { limit: 10, .. }));
        let answer = world.submit("acme", vec![World::item("doc-1")]).await.unwrap();
        assert_eq!(answer.results[0].as_ref().unwrap_err().code(), "rate_limited");
        for (n, mut upload) in under_way.into_iter().enumerate() {
            upload.write(vec![n as u8; 100].into()).await.unwrap();
            assert!(!upload.finish().await.unwrap().duplicate, "a place that was given is not taken away");
        }
        assert_eq!((left(world).await, items(world).await), (0, 10));
    }

    async fn giving_an_upload_up_frees_its_place_at_once(world: &World) {
        free_tenant(world).await;
        world.submit_many("acme", "doc", 9).await;
        let mut upload = begin(world).await;
        assert_eq!(left(world).await, 0);
        upload.write(vec![7; 1_000].into()).await.unwrap();
        upload.abort().await.unwrap();
        assert_eq!(left(world).await, 1);
        sweep(world).await;
        assert_eq!((world.files(), items(world).await), (0, 9));
        assert_eq!(world.number("select count(*) from upload").await, 0);
    }

    async fn an_upload_whose_client_has_gone_frees_its_place_at_once(world: &World) {
        free_tenant(world).await;
        for _ in 0..10 {
            drop(begin(world).await);
        }
        for _ in 0..200 {
            if left(world).await == 10 {
                // What their writers had begun may come to its end a little later: their bytes are swept after that.
                sweep(world).await;
                assert_eq!(world.number("select count(*) from upload").await, 10);
                world.pass_ms(60_000);
                sweep(world).await;
                assert_eq!(world.number("select count(*) from upload").await, 0);
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("the places of uploads that nobody goes on with are still taken");
    }

    async fn an_upload_that_is_never_finished_frees_its_place_when_it_expires(world: &World) {
        free_tenant(world).await;
        for _ in 0..10 {
            // A process that is killed runs no destructor.
            std::mem::forget(begin(world).await);
        }
        world.pass_ms(HOUR - 1);
        assert_eq!(left(world).await, 0);
        world.pass_ms(1);
        assert_eq!(left(world).await, 10);
        sweep(world).await;
        assert_eq!(left(world).await, 10);
        assert_eq!(world.number("select count(*) from upload").await, 0);
    }

    async fn exactly_10_of_50_concurrent_uploads_of_a_free_tenant_are_taken(world: &World) {
        free_tenant(world).await;
        let uploads: Vec<_> = (0..50_u8)
            .map(|n| {
                let engine = world.engine.clone();
                tokio::spawn(async move {
                    match engine.upload(&World::scope("acme"), World::file("acme")).await {
                        Ok(UploadStart::Ready(mut upload)) => {
                            upload.write(vec![n; 2_000].into()).await.unwrap();
                            upload.finish().await.unwrap();
                            true
                        }
                        Ok(other) => panic!("{other:?}"),
                        Err(error) => {
                            assert_eq!(error.refusal().unwrap().code(), "rate_limited");
                            false
                        }
                    }
                })
            })
            .collect();
        let mut taken = 0;
        for upload in uploads {
            taken += i32::from(upload.await.unwrap());
        }
        assert_eq!((taken, items(world).await, left(world).await), (10, 10, 0));
        assert_eq!(world.files(), 10);
    }

    async fn a_submission_that_comes_beside_a_finishing_upload_does_not_take_its_place(world: &World) {
        free_tenant(world).await;
        world.lanes(1, &["busy"]).await;
        for round in 0..2_u8 {
            world.submit_many("acme", &format!("doc-{round}"), 9).await;
            let mut upload = begin(world).await;
            upload.write(vec![round; 10].into()).await.unwrap();
            // Large calls keep the statements busy, so that the two that follow ride together.
            let large = async |part: &str| {
                world.submit_many("busy", &format!("{part}-{round}"), 1_000).await;
            };
            let item = World::item(&format!("late-{round}"));
            let late = async {
                tokio::task::yield_now().await;
                world.submit("acme", vec![item]).await.unwrap().results.pop().unwrap()
            };
            let ((), (), late, finished) = tokio::join!(large("a"), large("b"), late, upload.finish());
            assert_eq!(late.unwrap_err().code(), "rate_limited");
            assert!(!finished.unwrap().duplicate);
            world.pass_ms(HOUR);
        }
    }

    async fn the_same_bytes_are_a_duplicate_and_are_not_kept_twice(world: &World) {
        free_tenant(world).await;
        let first = world.upload_bytes("acme", World::file("acme"), b"the bytes".to_vec()).await.unwrap();
        let again = world.upload_bytes("acme", with_id("scan-1", OnConflict::Refuse), b"the bytes".to_vec()).await.unwrap();
        assert_eq!((again.id, again.duplicate, again.job), (first.id, true, None));
        assert_eq!((left(world).await, items(world).await), (9, 1));
        sweep(world).await;
        assert_eq!(world.files(), 1);
        assert_eq!(bytes_of(world, first.id).await, b"the bytes");
        assert_eq!(world.story("acme", first.id).await, ["item.submitted"]);
    }

    async fn a_known_digest_sent_first_transfers_nothing(world: &World) {
        free_tenant(world).await;
        let first = world.upload_bytes("acme", World::file("acme"), b"the bytes".to_vec()).await.unwrap();
        world.submit_many("acme", "doc", 9).await;
        assert_eq!(left(world).await, 0);
        // At the limit too: a duplicate uses no place.
        match world.engine.upload(&World::scope("acme"), with_digest(b"the bytes")).await.unwrap() {
            UploadStart::Duplicate(item) => assert_eq!((item.id, item.duplicate), (first.id, true)),
            other => panic!("the bytes are there already, not {other:?}"),
        }
        assert_eq!(world.number("select count(*) from upload").await, 0);
        assert_eq!(world.files(), 1);
    }

    async fn the_same_bytes_in_another_collection_are_another_item(world: &World) {
        free_tenant(world).await;
        world.collection("archive", "acme", Some("work")).await;
        let here = world.upload_bytes("acme", World::file("acme"), b"the bytes".to_vec()).await.unwrap();
        let request = UploadRequest { collection: names::collection("archive"), ..with_digest(b"the bytes") };
        let there = world.upload_bytes("acme", request, b"the bytes".to_vec()).await.unwrap();
        assert!(!there.duplicate && there.id != here.id);
        sweep(world).await;
        assert_eq!(world.files(), 2);
    }

    async fn fifty_concurrent_uploads_of_the_same_bytes_make_one_item(world: &World) {
        world.lanes(1, &["acme"]).await;
        let uploads: Vec<_> = (0..50)
            .map(|_| {
                let engine = world.engine.clone();
                tokio::spawn(async move {
                    match engine.upload(&World::scope("acme"), with_digest(b"the bytes")).await.unwrap() {
                        UploadStart::Ready(mut upload) => {
                            upload.write(b"the bytes".to_vec().into()).await.unwrap();
                            upload.finish().await.unwrap()
                        }
                        UploadStart::Duplicate(item) => item,
                        UploadStart::Repeated(first) => first.answer,
                    }
                })
            })
            .collect();
        let mut new = Vec::new();
        for upload in uploads {
            new.extend(Some(upload.await.unwrap()).filter(|item| !item.duplicate));
        }
        assert_eq!((new.len(), items(world).await), (1, 1));
        sweep(world).await;
        assert_eq!(world.files(), 1);
        assert_eq!(bytes_of(world, new[0].id).await, b"the bytes");
    }

    async fn bytes_that_are_not_those_announced_are_refused_and_swept(world: &World) {
        free_tenant(world).await;
        for size in [100, 11 << 20] {
            let mut upload = world.upload("acme", with_digest(b"something else")).await.unwrap();
            upload.write(vec![1; size].into()).await.unwrap();
            let refusal = upload.finish().await.unwrap_err();
            assert!(refusal.to_string().starts_with("digest:"), "{refusal}");
            assert_eq!(left(world).await, 10);
        }
        sweep(world).await;
        assert_eq!((world.files(), items(world).await), (0, 0));
        assert_eq!(world.number("select count(*) from upload").await, 0);
    }

    async fn a_files_next_version_keeps_the_bytes_of_the_old_one(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = world.upload_bytes("acme", with_id("scan-1", OnConflict::Refuse), b"one".to_vec()).await.unwrap();
        let conflict = world.upload_bytes("acme", with_id("scan-1", OnConflict::Refuse), b"two".to_vec()).await;
        assert_eq!(conflict.unwrap_err().refusal().unwrap().code(), "external_id_conflict");
        let request = UploadRequest { digest: Some(Digest::of(b"two")), ..with_id("scan-1", OnConflict::Refuse) };
        let early = refusal_of_begin(world, request).await;
        assert_eq!(early.code(), "external_id_conflict", "with the digest it is known before any byte");
        let second = world.upload_bytes("acme", with_id("scan-1", OnConflict::NewVersion), b"two".to_vec()).await.unwrap();
        assert!(second.versioned && second.id == first.id);
        world.pass_ms(2 * HOUR);
        sweep(world).await;
        assert_eq!(bytes_of(world, first.id).await, b"two");
        assert_eq!(world.files(), 2, "the old version's bytes are kept, the refused ones are not");
        assert_eq!(world.number("select count(*) from item_version where blob_key is not null").await, 1);
    }

    async fn a_file_over_the_largest_size_is_refused_by_its_announced_size_and_by_its_bytes(world: &World) {
        free_tenant(world).await;
        let refusal = refusal_of_begin(world, UploadRequest { size: Some(FILE_MAX + 1), ..World::file("acme") }).await;
        assert_eq!(refusal.code(), "payload_too_large");
        assert_eq!(left(world).await, 10);
        let mut upload = begin(world).await;
        for _ in 0..3 {
            upload.write(vec![0; 8 << 20].into()).await.unwrap();
        }
        let refusal = upload.write(vec![0].into()).await.unwrap_err();
        assert_eq!(refusal.refusal().unwrap(), &Refusal::TooLarge { what: "the file".into(), size: FILE_MAX + 1, limit: FILE_MAX });
        // A part was not taken: what is there must not become an item.
        let refusal = upload.finish().await.unwrap_err();
        assert_eq!(refusal.refusal().unwrap().code(), "conflict");
        assert_eq!(left(world).await, 10);
        sweep(world).await;
        assert_eq!((world.files(), items(world).await), (0, 0));
    }

    async fn an_empty_file_is_refused(world: &World) {
        free_tenant(world).await;
        let refusal = begin(world).await.finish().await.unwrap_err();
        assert!(refusal.to_string().starts_with("file: must not be empty"), "{refusal}");
        let mut upload = begin(world).await;
        upload.write(Vec::new().into()).await.unwrap();
        assert_eq!(upload.finish().await.unwrap_err().refusal().unwrap().code(), "validation_failed");
        assert_eq!(left(world).await, 10);
        sweep(world).await;
        assert_eq!((world.files(), items(world).await), (0, 0));
    }

    async fn a_malformed_request_reserves_nothing(world: &World) {
        free_tenant(world).await;
        let details = ItemDetails { metadata: Some(json!([1])), ..ItemDetails::default() };
        for (request, code) in [
            (UploadRequest { details, ..World::file("acme") }, "validation_failed"),
            (UploadRequest { filename: Some("a\0b".to_owned()), ..World::file("acme") }, "validation_failed"),
            (UploadRequest { filename: Some("x".repeat(513)), ..World::file("acme") }, "validation_failed"),
            (UploadRequest { media_type: String::new(), ..World::file("acme") }, "validation_failed"),
            (World::file("nowhere"), "not_found"),
        ] {
            assert_eq!(refusal_of_begin(world, request).await.code(), code);
        }
        assert_eq!((left(world).await, world.number("select count(*) from upload").await), (10, 0));
    }

    async fn an_upload_that_is_dropped_leaves_no_item_and_its_bytes_are_swept(world: &World) {
        free_tenant(world).await;
        let mut small = begin(world).await;
        small.write(vec![1; 1_000].into()).await.unwrap();
        drop(small);
        let mut large = begin(world).await;
        large.write(vec![2; 11 << 20].into()).await.unwrap();
        drop(large);
        world.pass_ms(HOUR);
        sweep(world).await;
        assert_eq!((world.files(), items(world).await, left(world).await), (0, 0, 10));
    }

    async fn a_process_that_dies_in_mid_upload_leaves_nothing_for_good(world: &World) {
        free_tenant(world).await;
        let mut upload = begin(world).await;
        for piece in 0..20_u8 {
            upload.write(vec![piece; 1 << 20].into()).await.unwrap();
        }
        // A process that is killed runs no destructor.
        std::mem::forget(upload);
        sweep(world).await;
        assert!(world.files() > 0, "it might still be under way, so its bytes stay until it expires");
        world.pass_ms(HOUR);
        sweep(world).await;
        assert_eq!((world.files(), items(world).await, left(world).await), (0, 0, 10));
        assert_eq!(world.number("select count(*) from upload").await, 0);
    }

    async fn an_upload_finished_after_its_time_is_refused_and_its_bytes_are_swept(world: &World) {
        free_tenant(world).await;
        let expired = |error: docket_engine::Error| {
            assert!(matches!(error.refusal(), Some(Refusal::UploadExpired { .. })), "{error}");
            assert_eq!(error.refusal().unwrap().code(), "conflict");
        };
        // In memory still, and in a file of its own.
        for (size, swept_before) in [(1_000, false), (1_000, true), (3 << 20, false), (3 << 20, true)] {
            let mut uploads = [begin(world).await, begin(world).await];
            for upload in &mut uploads {
                upload.write(vec![1; size].into()).await.unwrap();
            }
            world.pass_ms(HOUR);
            if swept_before {
                sweep(world).await;
            }
            let [mut more, whole] = uploads;
            expired(whole.finish().await.unwrap_err());
            expired(more.write(vec![1].into()).await.unwrap_err());
            expired(more.write(vec![1].into()).await.unwrap_err());
            expired(more.finish().await.unwrap_err());
            sweep(world).await;
            assert_eq!((world.files(), items(world).await), (0, 0), "{size} bytes, swept before: {swept_before}");
            assert_eq!(world.number("select count(*) from upload").await, 0);
        }
    }

    async fn a_duplicate_by_its_digest_keeps_its_key(world: &World) {
        free_tenant(world).await;
        let first = world.upload_bytes("acme", World::file("acme"), b"the bytes".to_vec()).await.unwrap();
        let start = async |digest| {
            let request = UploadRequest { digest, idempotency_key: Some("k".to_owned()), ..World::file("acme") };
            world.engine.upload(&World::scope("acme"), request).await.unwrap()
        };
        assert!(matches!(start(Some(Digest::of(b"the bytes"))).await, UploadStart::Duplicate(item) if item.id == first.id));
        for (digest, differs) in [(None, false), (Some(Digest::of(b"the bytes")), false), (Some(Digest::of(b"others")), true)] {
            let UploadStart::Repeated(again) = start(digest).await else { panic!("the first answer was expected") };
            assert_eq!((again.answer.id, again.answer.duplicate, again.request_differs), (first.id, true, differs));
        }
    }

    async fn an_upload_whose_key_another_has_used_meanwhile_is_told_so(world: &World) {
        free_tenant(world).await;
        let mut uploads = Vec::new();
        for bytes in [&b"one"[..], b"one", b"two"] {
            let request = UploadRequest { idempotency_key: Some("k".to_owned()), ..World::file("acme") };
            let mut upload = world.upload("acme", request).await.unwrap();
            upload.write(bytes.to_vec().into()).await.unwrap();
            uploads.push(upload);
        }
        for (upload, told) in uploads.into_iter().zip([(false, false), (true, false), (true, true)]) {
            let once = upload.finish_once().await.unwrap();
            assert_eq!((once.replayed, once.request_differs), told);
        }
        assert_eq!((items(world).await, left(world).await), (1, 9));
    }

    async fn the_sweeper_never_deletes_the_bytes_of_an_item(world: &World) {
        world.lanes(1, &["acme"]).await;
        let mut taken = Vec::new();
        for n in 0..5_u8 {
            taken.push(world.upload_bytes("acme", World::file("acme"), vec![n; 500]).await.unwrap().id);
            drop(begin(world).await);
        }
        for _ in 0..3 {
            sweep(world).await;
            world.pass_ms(HOUR);
        }
        for (n, id) in taken.iter().enumerate() {
            assert_eq!(bytes_of(world, *id).await, vec![n as u8; 500]);
            assert_eq!(world.view("acme", *id).await.item.status, ItemStatus::Queued);
        }
        assert_eq!(world.files(), 5);
    }

    async fn an_upload_over_a_limit_that_was_lowered_meanwhile_is_refused_and_swept(world: &World) {
        free_tenant(world).await;
        let mut upload = begin(world).await;
        upload.write(vec![1; 1_000].into()).await.unwrap();
        let settings = TenantSettings {
            id: names::tenant("acme"),
            tier: "free".to_owned(),
            uploads: Some(UploadLimit::PerHour(0)),
            concurrent_jobs: None,
        };
        world.engine.tenant_put(&World::operator(), settings).await.unwrap();
        let error = upload.finish().await.unwrap_err();
        assert_eq!(error.refusal().unwrap().code(), "rate_limited");
        sweep(world).await;
        assert_eq!((world.files(), items(world).await), (0, 0));
    }
}
