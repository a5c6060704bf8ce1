//! Bad input: each is a refusal with its code, and nothing of it is done (rule I7, and whatever else takes a caller's words).

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

use docket_core::field::MachineField;
use docket_core::id::{ItemId, JobId};
use docket_core::item::ItemDetails;
use docket_core::job::Failure;
use docket_core::lease::LeaseToken;
use docket_core::name::{CollectionId, PipelineName, StepName, TenantId, WorkerId};
use docket_core::pipeline::Pipeline;
use docket_core::tenant::{TenantSettings, Tier, UploadLimit};
use docket_engine::{
    Claim, ClaimedJob, CollectionSettings, Complete, Engine, Error, Fail, Heartbeat, ItemFilter, Release,
    StepDone, Submit, SubmitItem,
};
use docket_testkit::{World, names, on_both};
use serde_json::{Value, json};

const YEAR: i64 = 365 * 86_400_000;

fn code<T: std::fmt::Debug>(outcome: Result<T, Error>) -> &'static str {
    let error = outcome.expect_err("it should be refused");
    error
        .refusal()
        .unwrap_or_else(|| panic!("it should be a refusal: {error:?}"))
        .code()
}

/// A world with one job that runs and one that waits.
async fn busy(world: &World) -> (ItemId, ClaimedJob) {
    let steps = vec![StepName::new("ocr").unwrap()];
    world
        .pipeline(
            "work",
            Pipeline {
                steps,
                ..Pipeline::default()
            },
        )
        .await;
    world.tenant("acme", 1).await;
    world.collection("acme", "acme", Some("work")).await;
    let running = world.submit_one("acme", "running").await;
    world.submit_one("acme", "waiting").await;
    (running.id, world.claim_one("w1").await)
}

/// All that a refusal must not change.
async fn everything(world: &World, item: ItemId) -> (String, Vec<i64>) {
    let mut counts = Vec::new();
    for table in [
        "tier",
        "tenant",
        "intake_slot",
        "upload",
        "pipeline",
        "pipeline_version",
        "lane",
        "collection",
        "item",
        "item_version",
        "correction",
        "job",
        "job_step",
        "hold",
        "hole",
        "pause",
        "idempotency",
        "log",
    ] {
        counts.push(world.number(&format!("select count(*) from {table}")).await);
    }
    (world.all_of("acme", item).await, counts)
}

fn with(change: impl FnOnce(&mut ItemDetails)) -> SubmitItem {
    let mut item = World::nameless(json!({ "a": 1 }));
    change(&mut item.details);
    item
}

fn field(name: &str, value: Value, confidence: f64) -> Vec<MachineField> {
    vec![MachineField {
        name: name.to_owned(),
        value,
        confidence: Some(confidence),
        region: None,
    }]
}

fn failure(error: &str, step: Option<&str>) -> Failure {
    Failure {
        error: error.to_owned(),
        step: step.map(str::to_owned),
        retryable: true,
    }
}

fn claim(pipeline: &str, limit: u32) -> Claim {
    Claim {
        pipeline: names::pipeline(pipeline),
        worker: names::worker("w2"),
        limit,
        lease_ms: None,
        wait_ms: 0,
    }
}

async fn submit_code(engine: &Engine, items: Vec<SubmitItem>) -> &'static str {
    let call = Submit {
        collection: names::collection("acme"),
        items,
        idempotency_key: None,
    };
    code(engine.submit(&World::scope("acme"), call).await)
}

on_both! {
    async fn an_item_that_cannot_be_taken_is_refused_and_leaves_no_trace(world: &World) {
        let (id, _) = busy(world).await;
        let before = everything(world, id).await;
        let (invalid, large) = ("validation_failed", "payload_too_large");
        for (what, item, expected) in [
            ("a payload of 10 MB", World::nameless(json!("x".repeat(10 << 20))), large),
            ("no payload", World::nameless(Value::Null), invalid),
            ("NUL in a value", World::nameless(json!({ "a": { "b": ["x\0y"] } })), invalid),
            ("NUL in a key", World::nameless(json!({ "a\0b": 1 })), invalid),
            ("NUL in the externalId", with(|d| d.external_id = Some("a\0b".to_owned())), invalid),
            ("an empty externalId", with(|d| d.external_id = Some(String::new())), invalid),
            ("a long externalId", with(|d| d.external_id = Some("x".repeat(513))), invalid),
            ("NUL in the metadata", with(|d| d.metadata = Some(json!({ "a": "\0" }))), invalid),
            ("NUL in a key of the metadata", with(|d| d.metadata = Some(json!({ "\0": 1 }))), invalid),
            ("metadata that is no object", with(|d| d.metadata = Some(json!([1, 2]))), invalid),
            ("metadata that is text", with(|d| d.metadata = Some(json!("x"))), invalid),
            ("metadata of 10 MB", with(|d| d.metadata = Some(json!({ "a": "x".repeat(10 << 20) }))), large),
            ("NUL in what is shown", with(|d| d.display_payload = Some(json!("\0"))), invalid),
            ("confidence 101", with(|d| d.confidence = Some(101.0)), invalid),
            ("confidence -1", with(|d| d.confidence = Some(-1.0)), invalid),
            ("confidence NaN", with(|d| d.confidence = Some(f64::NAN)), invalid),
            ("a negative amount", with(|d| d.total_amount = Some(-0.01)), invalid),
            ("an amount without end", with(|d| d.total_amount = Some(f64::INFINITY)), invalid),
            ("an amount NaN", with(|d| d.total_amount = Some(f64::NAN)), invalid),
            ("a field of confidence 101", with(|d| d.fields = Some(field("a", json!(1), 101.0))), invalid),
            ("a field of confidence NaN", with(|d| d.fields = Some(field("a", json!(1), f64::NAN))), invalid),
            ("a field without a name", with(|d| d.fields = Some(field("", json!(1), 1.0))), invalid),
            ("NUL in a field's name", with(|d| d.fields = Some(field("\0", json!(1), 1.0))), invalid),
            ("NUL in a field's value", with(|d| d.fields = Some(field("a", json!("\0"), 1.0))), invalid),
            ("1,001 fields", with(|d| d.fields = Some((0..1_001).flat_map(|n| field(&n.to_string(), json!(1), 1.0)).collect())), invalid),
        ] {
            let result = world.submit("acme", vec![item]).await.unwrap().results.pop().unwrap();
            assert_eq!(result.unwrap_err().code(), expected, "{what}");
        }
        assert_eq!(everything(world, id).await, before);
    }

    async fn batches_of_none_and_of_1001_are_refused_by_every_operation(world: &World) {
        let (id, job) = busy(world).await;
        let before = everything(world, id).await;
        let engine = &world.engine;
        for n in [0, 1_001] {
            let items = (0..n).map(|n| World::item(&n.to_string())).collect();
            assert_eq!(submit_code(engine, items).await, "validation_failed", "submit {n}");
            assert_eq!(code(engine.claim(claim("work", n)).await), "validation_failed", "claim {n}");
            let n = n as usize;
            let beat = Heartbeat { job: job.id, token: job.token, lease_ms: None };
            assert_eq!(code(engine.heartbeat(vec![beat; n]).await), "validation_failed", "heartbeat {n}");
            assert_eq!(code(engine.complete(vec![Complete::new(job.id, job.token); n]).await), "validation_failed", "complete {n}");
            let fail = Fail { job: job.id, token: job.token, failure: failure("no", None) };
            assert_eq!(code(engine.fail(vec![fail; n]).await), "validation_failed", "fail {n}");
            assert_eq!(code(engine.release(vec![Release { job: job.id, token: job.token }; n]).await), "validation_failed", "release {n}");
            let corrections = vec![("a".to_owned(), json!(1)); n];
            assert_eq!(code(engine.fields_correct(&World::scope("acme"), id, corrections).await), "validation_failed", "correct {n}");
        }
        for limit in [0, 201] {
            let filter = ItemFilter { collection: Some(names::collection("acme")), status: None, external_id: None, before: None, limit };
            assert_eq!(code(engine.items(&World::scope("acme"), filter).await), "validation_failed");
        }
        assert_eq!(everything(world, id).await, before);
        world.complete(job.id, job.token).await.unwrap();
    }

    async fn what_a_worker_says_wrongly_is_refused_and_its_lease_stays(world: &World) {
        let (id, job) = busy(world).await;
        let before = everything(world, id).await;
        let engine = &world.engine;
        let complete = || Complete::new(job.id, job.token);
        for (what, complete, expected) in [
            ("NUL in the result", Complete { result: Some(json!({ "a": "\0" })), ..complete() }, "validation_failed"),
            ("a result of 10 MB", Complete { result: Some(json!("x".repeat(10 << 20))), ..complete() }, "payload_too_large"),
            ("NUL in what is shown", Complete { display_payload: Some(json!("\0")), ..complete() }, "validation_failed"),
            ("confidence 101", Complete { fields: Some(field("a", json!(1), 101.0)), ..complete() }, "validation_failed"),
            ("confidence NaN", Complete { fields: Some(field("a", json!(1), f64::NAN)), ..complete() }, "validation_failed"),
            ("confidence -1", Complete { fields: Some(field("a", json!(1), -1.0)), ..complete() }, "validation_failed"),
            ("NUL in a field", Complete { fields: Some(field("a", json!("\0"), 1.0)), ..complete() }, "validation_failed"),
            ("a field named twice", Complete { fields: Some([field("a", json!(1), 1.0), field("a", json!(2), 1.0)].concat()), ..complete() }, "validation_failed"),
            ("a negative amount", Complete { total_amount: Some(-1.0), ..complete() }, "validation_failed"),
        ] {
            let result = engine.complete(vec![complete]).await.unwrap().pop().unwrap();
            assert_eq!(result.unwrap_err().code(), expected, "{what}");
        }
        for (what, said) in [
            ("NUL in the error", failure("a\0b", None)),
            ("an unknown step", failure("no", Some("scan"))),
            ("a step with NUL", failure("no", Some("o\0cr"))),
        ] {
            let fail = Fail { job: job.id, token: job.token, failure: said };
            let result = engine.fail(vec![fail]).await.unwrap().pop().unwrap();
            assert_eq!(result.unwrap_err().code(), "validation_failed", "{what}");
        }
        let step = |name: &str, output| StepDone { job: job.id, token: job.token, name: name.to_owned(), output };
        for (step, expected) in [
            (step("scan", json!(1)), "validation_failed"),
            (step("o\0cr", json!(1)), "validation_failed"),
            (step("", json!(1)), "validation_failed"),
            (step("ocr", json!("\0")), "validation_failed"),
            (step("ocr", json!("x".repeat(10 << 20))), "payload_too_large"),
        ] {
            assert_eq!(code(engine.step(step).await), expected);
        }
        let correct = engine.fields_correct(&World::scope("acme"), id, vec![("nothing".to_owned(), json!(1))]).await;
        assert_eq!(code(correct), "validation_failed", "a field that the item does not have");
        let correct = engine.fields_correct(&World::scope("acme"), id, vec![("a".to_owned(), json!("\0"))]).await;
        assert_eq!(code(correct), "validation_failed");
        assert_eq!(everything(world, id).await, before);
        world.complete(job.id, job.token).await.unwrap();
    }

    async fn leases_of_nothing_and_of_a_year_are_refused(world: &World) {
        let (id, job) = busy(world).await;
        let before = everything(world, id).await;
        for lease_ms in [0, -1, YEAR, i64::MIN, i64::MAX] {
            let claim = Claim { lease_ms: Some(lease_ms), ..claim("work", 1) };
            assert_eq!(code(world.engine.claim(claim).await), "validation_failed", "{lease_ms}");
            let beat = Heartbeat { job: job.id, token: job.token, lease_ms: Some(lease_ms) };
            assert_eq!(code(world.engine.heartbeat(vec![beat]).await), "validation_failed", "{lease_ms}");
            let pipeline = Pipeline { lease_ms, ..Pipeline::default() };
            let put = world.engine.pipeline_put(&World::operator(), names::pipeline("work"), pipeline).await;
            assert_eq!(code(put), "validation_failed", "{lease_ms}");
        }
        let long = Claim { wait_ms: 60_001, ..claim("work", 1) };
        assert_eq!(code(world.engine.claim(long).await), "validation_failed");
        assert_eq!(code(world.engine.reap(Some(-1)).await), "validation_failed");
        assert_eq!(everything(world, id).await, before);
    }

    async fn names_that_are_no_names_are_refused(world: &World) {
        let (id, _) = busy(world).await;
        let before = everything(world, id).await;
        let long = "t".repeat(10_000);
        for name in ["", " ", "a b", "a\0b", "a\nb", long.as_str()] {
            let codes = [
                TenantId::new(name).unwrap_err().code(),
                CollectionId::new(name).unwrap_err().code(),
                PipelineName::new(name).unwrap_err().code(),
                WorkerId::new(name).unwrap_err().code(),
                StepName::new(name).unwrap_err().code(),
            ];
            assert_eq!(codes, ["validation_failed"; 5], "{}", name.escape_debug());
            assert!(serde_json::from_value::<TenantId>(json!(name)).is_err(), "also when it is read from JSON");
        }
        for external_id in ["a\0b", "", long.as_str()] {
            let found = world.engine.item_by_external_id(&World::scope("acme"), &names::collection("acme"), external_id).await;
            assert_eq!(code(found), "validation_failed", "{}", external_id.escape_debug());
        }
        assert_eq!(everything(world, id).await, before);
    }

    async fn what_is_not_there_is_refused_by_its_name(world: &World) {
        let (id, job) = busy(world).await;
        let before = everything(world, id).await;
        let (engine, who, acme) = (&world.engine, World::operator(), World::scope("acme"));
        assert_eq!(code(engine.claim(claim("nowhere", 1)).await), "not_found");
        assert_eq!(code(engine.pipeline(&names::pipeline("nowhere")).await), "not_found");
        assert_eq!(code(engine.limits(&World::scope("ghost")).await), "not_found");
        let ghost: ItemId = "01900000-0000-7000-8400-000000000001".parse().unwrap();
        assert_eq!(code(engine.item(&acme, ghost).await), "not_found");
        assert_eq!(code(engine.cancel(&acme, ghost).await), "not_found");
        assert_eq!(code(engine.content(&acme, id).await), "not_found", "an item of JSON has no file");
        assert_eq!("nonsense".parse::<ItemId>().unwrap_err().code(), "not_found");
        assert_eq!("00000000-0000-0000-0000-000000000000".parse::<JobId>().unwrap_err().code(), "not_found");
        let nobody: JobId = "01900000-0000-7000-8400-000000000001".parse().unwrap();
        assert_eq!(world.complete(nobody, LeaseToken(1)).await.unwrap_err().code(), "lease_lost");
        assert_eq!(world.complete(job.id, LeaseToken(i64::MAX)).await.unwrap_err().code(), "lease_lost");
        assert_eq!(world.fail(nobody, LeaseToken(i64::MIN), "x").await.unwrap_err().code(), "lease_lost");
        let tenant = TenantSettings { id: names::tenant("new"), tier: "platinum".to_owned(), uploads: None, concurrent_jobs: None };
        assert_eq!(code(engine.tenant_put(&who, tenant).await), "validation_failed", "an unknown tier");
        assert_eq!(everything(world, id).await, before);
    }

    async fn set_ups_that_make_no_sense_are_refused(world: &World) {
        let (id, _) = busy(world).await;
        let before = everything(world, id).await;
        let (engine, who) = (&world.engine, World::operator());
        for jobs in [0, 100_001] {
            let tenant = TenantSettings { id: names::tenant("acme"), tier: "free".to_owned(), uploads: None, concurrent_jobs: Some(jobs) };
            assert_eq!(code(engine.tenant_put(&who, tenant).await), "validation_failed");
            let tier = Tier { name: "free".to_owned(), uploads: UploadLimit::Unlimited, concurrent_jobs: jobs };
            assert_eq!(code(engine.tier_put(&who, tier).await), "validation_failed");
        }
        for name in ["", "a\0b", "a b"] {
            let tier = Tier { name: name.to_owned(), uploads: UploadLimit::Unlimited, concurrent_jobs: 1 };
            assert_eq!(code(engine.tier_put(&who, tier).await), "validation_failed");
            let tenant = TenantSettings { id: names::tenant("new"), tier: name.to_owned(), uploads: None, concurrent_jobs: None };
            assert_eq!(code(engine.tenant_put(&who, tenant).await), "validation_failed");
        }
        let steps = |names: &[&str]| names.iter().map(|name| StepName::new(*name).unwrap()).collect();
        let backoff = docket_core::backoff::Backoff { base_ms: -5, max_ms: 5 };
        for pipeline in [
            Pipeline { steps: steps(&["a", "a"]), ..Pipeline::default() },
            Pipeline { max_attempts: 0, ..Pipeline::default() },
            Pipeline { max_attempts: 101, ..Pipeline::default() },
            Pipeline { backoff, ..Pipeline::default() },
        ] {
            assert_eq!(code(engine.pipeline_put(&who, names::pipeline("work"), pipeline).await), "validation_failed");
        }
        for (settings, expected) in [(json!({ "a": "\0" }), "validation_failed"), (json!("x".repeat(10 << 20)), "payload_too_large")] {
            let settings = CollectionSettings {
                id: names::collection("acme"),
                tenant: names::tenant("acme"),
                pipeline: None,
                review: false,
                settings,
            };
            assert_eq!(code(engine.collection_put(&who, settings).await), expected);
        }
        assert_eq!(everything(world, id).await, before);
    }

    async fn an_attempt_ends_by_the_pipeline_it_began_with_and_the_next_follows_the_new_one(world: &World) {
        let (id, job) = busy(world).await;
        let engine = &world.engine;
        assert_eq!(job.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["ocr"]);
        let new = Pipeline {
            steps: vec![StepName::new("read").unwrap(), StepName::new("check").unwrap()],
            max_attempts: 1,
            ..Pipeline::default()
        };
        world.pipeline("work", new).await;
        let step = |name: &str| StepDone { job: job.id, token: job.token, name: name.to_owned(), output: json!("text") };
        assert_eq!(code(engine.step(step("read")).await), "validation_failed", "a step of the new version");
        engine.step(step("ocr")).await.unwrap();
        let fail = Fail { job: job.id, token: job.token, failure: failure("no text", Some("ocr")) };
        let failed = engine.fail(vec![fail]).await.unwrap().pop().unwrap().unwrap();
        assert!(failed.run_at.is_some(), "by the old version there are attempts left");
        world.pass_ms(600_000);
        engine.reap(None).await.unwrap();
        let again = world.claim_one("w1").await;
        assert_eq!((again.item, again.attempt), (id, 2));
        let steps: Vec<_> = again.steps.iter().map(|step| (step.name.as_str(), step.output.is_some())).collect();
        assert_eq!(steps, [("read", false), ("check", false)]);
        let fail = Fail { job: again.id, token: again.token, failure: failure("no", Some("check")) };
        let failed = engine.fail(vec![fail]).await.unwrap().pop().unwrap().unwrap();
        assert_eq!(failed.run_at, None, "by the new version there is no attempt left");
        assert_eq!(world.view("acme", id).await.job.unwrap().error.as_deref(), Some("Step 2 failed: no"));
    }
}
