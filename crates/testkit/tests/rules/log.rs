//! The log: every change is on record with who, what, and the old and the new; nobody can alter it (rules L1 and L2).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::field::MachineField;
use docket_core::item::OnConflict;
use docket_core::job::Failure;
use docket_core::name::StepName;
use docket_core::pipeline::Pipeline;
use docket_core::tenant::{TenantSettings, Tier, UploadLimit};
use docket_engine::{
    CollectionSettings, Complete, Entry, Fail, LogPosition, PauseTarget, Release, StepDone, SubmitItem,
};
use docket_testkit::{Database, World, WorldConfig, on_both};
use serde_json::{Value, json};

async fn timeline(world: &World, item: docket_core::id::ItemId) -> Vec<Entry> {
    let entries = world
        .engine
        .timeline(&World::scope("acme"), item, LogPosition::default(), 200)
        .await;
    entries.unwrap()
}

fn words(entries: &[Entry]) -> Vec<(&str, &str)> {
    entries
        .iter()
        .map(|entry| (entry.action.as_str(), entry.actor.as_str()))
        .collect()
}

fn details(entry: &Entry) -> Value {
    entry
        .details
        .as_deref()
        .map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

fn fields(total: &str) -> Option<Vec<MachineField>> {
    Some(vec![MachineField {
        name: "total".to_owned(),
        value: json!(total),
        confidence: Some(60.0),
        region: None,
    }])
}

async fn set_up(world: &World) {
    let steps = vec![StepName::new("ocr").unwrap()];
    world
        .pipeline(
            "work",
            Pipeline {
                steps,
                max_attempts: 2,
                ..Pipeline::default()
            },
        )
        .await;
    world.tenant("acme", 1).await;
    world.collection("acme", "acme", Some("work")).await;
}

on_both! {
    async fn each_step_of_an_items_way_is_on_record_with_its_actor(world: &World) {
        set_up(world).await;
        let (engine, acme) = (&world.engine, World::scope("acme"));
        let id = world.submit_one("acme", "doc-1").await.id;
        let job = world.claim_one("w1").await;
        engine.release(vec![Release { job: job.id, token: job.token }]).await.unwrap().pop().unwrap().unwrap();
        world.pass_ms(5);
        let job = world.claim_one("w2").await;
        engine.step(StepDone { job: job.id, token: job.token, name: "ocr".to_owned(), output: json!("text") }).await.unwrap();
        let failure = Failure { error: "no total".to_owned(), step: Some("ocr".to_owned()), retryable: false };
        engine.fail(vec![Fail { job: job.id, token: job.token, failure }]).await.unwrap().pop().unwrap().unwrap();
        let retried = engine.retry(&acme, id).await.unwrap();
        let job = world.claim_one("w3").await;
        let complete = Complete { fields: fields("12"), ..Complete::new(job.id, job.token) };
        engine.complete(vec![complete]).await.unwrap().pop().unwrap().unwrap();
        engine.fields_correct(&acme, id, vec![("total".to_owned(), json!("12.50"))]).await.unwrap();
        engine.reprocess(&acme, id).await.unwrap();
        let job = world.claim_one("w4").await;
        let complete = Complete { fields: fields("13"), ..Complete::new(job.id, job.token) };
        engine.complete(vec![complete]).await.unwrap().pop().unwrap().unwrap();
        engine.reprocess(&acme, id).await.unwrap();
        engine.cancel(&acme, id).await.unwrap();
        let entries = timeline(world, id).await;
        assert_eq!(words(&entries), [
            ("item.submitted", "producer:acme"),
            ("job.claimed", "worker:w1"),
            ("job.released", "worker:w1"),
            ("job.claimed", "worker:w2"),
            ("job.step_completed", "worker:w2"),
            ("job.failed", "worker:w2"),
            ("job.retried", "producer:acme"),
            ("job.claimed", "worker:w3"),
            ("job.completed", "worker:w3"),
            ("field.corrected", "producer:acme"),
            ("item.reprocessed", "producer:acme"),
            ("job.claimed", "worker:w4"),
            ("job.completed", "worker:w4"),
            ("field.kept_locked", "docket"),
            ("item.reprocessed", "producer:acme"),
            ("job.cancelled", "producer:acme"),
            ("item.cancelled", "producer:acme"),
        ]);
        assert_eq!(details(&entries[4])["step"], "ocr");
        assert_eq!(details(&entries[5])["error"], "Step 1 failed: no total");
        assert_eq!(details(&entries[6])["jobId"], retried.to_string());
        assert!(entries.windows(2).all(|pair| pair[0].position < pair[1].position && pair[0].at <= pair[1].at));
    }

    async fn a_field_that_changes_is_on_record_with_its_old_and_new_value(world: &World) {
        set_up(world).await;
        let (engine, acme) = (&world.engine, World::scope("acme"));
        let id = world.submit_one("acme", "doc-1").await.id;
        let job = world.claim_one("w1").await;
        let complete = Complete { fields: fields("12"), ..Complete::new(job.id, job.token) };
        engine.complete(vec![complete]).await.unwrap().pop().unwrap().unwrap();
        engine.fields_correct(&acme, id, vec![("total".to_owned(), json!("12.50"))]).await.unwrap();
        engine.fields_correct(&acme, id, vec![("total".to_owned(), json!({ "sum": 12.5 }))]).await.unwrap();
        engine.reprocess(&acme, id).await.unwrap();
        let job = world.claim_one("w1").await;
        let complete = Complete { fields: fields("13"), ..Complete::new(job.id, job.token) };
        engine.complete(vec![complete]).await.unwrap().pop().unwrap().unwrap();
        let entries = timeline(world, id).await;
        let changed: Vec<_> = entries
            .iter()
            .filter_map(|entry| Some((entry.field.as_deref()?, entry.old.as_deref()?, entry.new.as_deref()?)))
            .collect();
        assert_eq!(changed, [
            ("total", "\"12\"", "\"12.50\""),
            ("total", "\"12.50\"", "{\"sum\":12.5}"),
            ("total", "{\"sum\":12.5}", "\"13\""),
        ]);
    }

    async fn a_stale_job_and_a_next_version_are_on_record_with_what_explains_them(world: &World) {
        set_up(world).await;
        let id = world.submit_one("acme", "doc-1").await.id;
        let first = world.view("acme", id).await.item.content_hash.to_string();
        world.claim_one("w1").await;
        world.pass_ms(600_001);
        assert_eq!(world.engine.reap(None).await.unwrap().requeued, 1);
        let mut next = SubmitItem { payload: json!("new"), ..World::item("doc-1") };
        next.details.on_conflict = OnConflict::NewVersion;
        world.submit("acme", vec![next]).await.unwrap().results.pop().unwrap().unwrap();
        let entries = timeline(world, id).await;
        assert_eq!(words(&entries), [
            ("item.submitted", "producer:acme"),
            ("job.claimed", "worker:w1"),
            ("job.stale", "docket"),
            ("job.cancelled", "producer:acme"),
            ("item.versioned", "producer:acme"),
        ]);
        assert_eq!(details(&entries[2])["worker"], "w1");
        assert_eq!(details(&entries[2])["error"], "Processing timed out after 10 minutes");
        assert_eq!(details(&entries[4])["version"], 2);
        assert_eq!(details(&entries[4])["previousContentHash"], first);
        assert_eq!(entries[2].at.since(entries[1].at), 600_001);
    }

    async fn what_operators_do_is_on_record(world: &World) {
        set_up(world).await;
        let who = World::operator();
        let pause = world.engine.pause(&who, PauseTarget::All, "upgrade").await.unwrap();
        world.engine.resume(&who, pause).await.unwrap();
        for (action, tenant) in [
            ("pipeline.put", "tenant_id is null"),
            ("tenant.put", "tenant_id = 'acme'"),
            ("collection.put", "tenant_id = 'acme'"),
            ("pause.set", "details like '%upgrade%'"),
            ("pause.lifted", "details like '%all%'"),
        ] {
            let sql = format!("select count(*) from log where action = '{action}' and actor = 'admin:test' and {tenant}");
            assert_eq!(world.number(&sql).await, 1, "{action}");
        }
    }

    async fn what_operators_change_is_on_record_with_what_it_was_before(world: &World) {
        set_up(world).await;
        let (who, acme) = (World::operator(), docket_testkit::names::tenant("acme"));
        let tier = Tier { name: "gold".to_owned(), uploads: UploadLimit::PerHour(7), concurrent_jobs: 2 };
        world.engine.tier_put(&who, tier.clone()).await.unwrap();
        world.engine.tier_put(&who, Tier { concurrent_jobs: 3, ..tier }).await.unwrap();
        let tenant = TenantSettings { id: acme.clone(), tier: "gold".to_owned(), uploads: None, concurrent_jobs: None };
        world.engine.tenant_put(&who, tenant).await.unwrap();
        world.pipeline("work", Pipeline { max_attempts: 9, ..Pipeline::default() }).await;
        let collection = CollectionSettings {
            id: docket_testkit::names::collection("acme"), tenant: acme, pipeline: None, review: true,
            settings: json!({ "review": { "slaHours": 5 } }),
        };
        world.engine.collection_put(&who, collection).await.unwrap();
        for (action, old, new) in [
            ("tier.put", r#"%"concurrentJobs":2%"#, r#"%"concurrentJobs":3%"#),
            ("tenant.put", r#"%"tier":"free"%"#, r#"%"concurrentJobs":3%"tier":"gold"%"#),
            ("pipeline.put", r#"%"maxAttempts":2%"#, r#"%"maxAttempts":9%"#),
            ("collection.put", r#"%"pipeline":"work"%"#, r#"%"pipeline":null%"slaHours":5%"#),
        ] {
            let changed = format!("select count(*) from log where action = '{action}' and old like '{old}' and new like '{new}'");
            assert_eq!(world.number(&changed).await, 1, "{action}");
            let made = format!("select count(*) from log where action = '{action}' and old is null and new is not null");
            assert!(world.number(&made).await >= 1, "{action}");
        }
    }

    async fn a_pause_is_on_record_with_what_it_stops(world: &World) {
        world.lanes(1, &["acme"]).await;
        let (who, work) = (World::operator(), docket_testkit::names::pipeline("work"));
        let lane = docket_engine::PauseTarget::Lane(docket_testkit::names::tenant("acme"), work);
        let pause = world.engine.pause(&who, lane, "upgrade").await.unwrap();
        world.engine.resume(&who, pause).await.unwrap();
        let set = "action = 'pause.set' and tenant_id = 'acme' and details like '%\"work\"%'";
        let lifted = "action = 'pause.lifted'";
        for entry in [set, lifted] {
            let sql = format!("select count(*) from log where {entry} and details like '%{pause}%'");
            assert_eq!(world.number(&sql).await, 1, "{entry}");
        }
    }

    async fn what_is_refused_is_not_on_record(world: &World) {
        set_up(world).await;
        let id = world.submit_one("acme", "doc-1").await.id;
        let before = world.number("select count(*) from log").await;
        world.engine.retry(&World::scope("acme"), id).await.unwrap_err();
        world.engine.reprocess(&World::scope("acme"), id).await.unwrap_err();
        world.submit("acme", vec![World::nameless(Value::Null)]).await.unwrap();
        world.submit("acme", vec![World::item("doc-1")]).await.unwrap();
        world.submit("acme", vec![SubmitItem { payload: json!(1), ..World::item("doc-1") }]).await.unwrap();
        assert_eq!(world.number("select count(*) from log").await, before);
    }

    async fn entries_can_be_neither_changed_nor_deleted(world: &World) {
        set_up(world).await;
        let id = world.submit_one("acme", "doc-1").await.id;
        let before = world.all_of("acme", id).await;
        for sql in [
            "update log set actor = 'nobody'",
            "update log set at_ms = 0 where action = 'item.submitted'",
            "delete from log",
            "delete from log where action = 'item.submitted'",
        ] {
            let said = world.execute(sql).await.unwrap_err();
            assert!(said.contains("the log is append-only"), "{sql}: {said}");
        }
        assert_eq!(world.all_of("acme", id).await, before);
    }

    async fn the_log_outlives_the_item_it_tells_of(world: &World) {
        let settings = WorldConfig { keep_finished_ms: Some(1_000), ..WorldConfig::default() };
        let world = &world.beside(&settings).await;
        set_up(world).await;
        let id = world.submit_one("acme", "doc-1").await.id;
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        world.pass_ms(10_000);
        assert_eq!(world.engine.retain().await.unwrap().items, 1);
        assert_eq!(world.number("select count(*) from item").await, 0);
        assert_eq!(world.number("select count(*) from log where item_id is not null").await, 4);
        let gone = world.engine.item(&World::scope("acme"), id).await.unwrap_err();
        assert_eq!(gone.refusal().unwrap().code(), "not_found");
        world.assert_healthy().await;
    }

    async fn a_long_story_is_read_in_pages_without_a_gap(world: &World) {
        set_up(world).await;
        let id = world.submit_one("acme", "doc-1").await.id;
        for _ in 0..20 {
            let job = world.claim_one("w1").await;
            world.engine.release(vec![Release { job: job.id, token: job.token }]).await.unwrap();
        }
        let whole = timeline(world, id).await;
        assert_eq!(whole.len(), 41);
        let (mut paged, mut after) = (Vec::new(), LogPosition::default());
        loop {
            let page = world.engine.timeline(&World::scope("acme"), id, after, 7).await.unwrap();
            let Some(last) = page.last() else { break };
            after = last.position;
            paged.extend(page);
        }
        assert_eq!(words(&paged), words(&whole));
    }
}

/// Each database has a way of its own around the usual statements.
async fn refuses(database: Database, sql: &str) {
    let world = World::new(database).await;
    set_up(&world).await;
    let id = world.submit_one("acme", "doc-1").await.id;
    let before = world.all_of("acme", id).await;
    let said = world.execute(sql).await.unwrap_err();
    assert!(said.contains("the log is append-only"), "{said}");
    assert_eq!(world.all_of("acme", id).await, before);
}

#[tokio::test]
async fn the_log_cannot_be_truncated_on_postgres() {
    refuses(Database::postgres().await, "truncate log").await;
}

#[tokio::test]
async fn an_entry_cannot_be_replaced_on_sqlite() {
    let sql = "insert or replace into log (id, at_ms, action, actor) select id, 0, 'none', 'nobody' from log";
    refuses(Database::sqlite(), sql).await;
}
