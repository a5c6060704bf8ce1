//! What a finished job hands over, and what people make of it (rules P12, V10 and V11).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::field::{Field, MachineField, Region};
use docket_core::id::ItemId;
use docket_core::item::{ItemDetails, ItemStatus, OnConflict};
use docket_core::pipeline::Pipeline;
use docket_engine::{ClaimedJob, Complete, Entry, LogPosition, SubmitItem};
use docket_testkit::{World, on_both};
use serde_json::{Value, json};

fn said(name: &str, value: impl Into<Value>, confidence: f64) -> MachineField {
    MachineField {
        name: name.into(),
        value: value.into(),
        confidence: Some(confidence),
        region: None,
    }
}

fn with_fields(job: &ClaimedJob, fields: Vec<MachineField>) -> Complete {
    Complete {
        fields: Some(fields),
        ..Complete::new(job.id, job.token)
    }
}

/// Processes the item once, with these fields.
async fn process(world: &World, item: ItemId, fields: Vec<MachineField>) {
    let job = world.claim_one("w1").await;
    assert_eq!(job.item, item);
    world
        .engine
        .complete(vec![with_fields(&job, fields)])
        .await
        .unwrap()
        .remove(0)
        .unwrap();
}

async fn correct(world: &World, item: ItemId, name: &str, value: &str) {
    let corrections = vec![(name.to_owned(), json!(value))];
    world
        .engine
        .fields_correct(&World::scope("acme"), item, corrections)
        .await
        .unwrap();
}

async fn fields(world: &World, item: ItemId) -> Vec<Field> {
    world.view("acme", item).await.fields
}

/// Name, value, lock and what the machine says beside it.
fn brief(fields: &[Field]) -> Vec<(&str, Value, bool, Option<Value>)> {
    let brief = |field: &'_ Field| (field.value.clone(), field.locked, field.machine_value.clone());
    fields
        .iter()
        .map(|field| {
            let (value, locked, machine) = brief(field);
            (field.name.as_str(), value, locked, machine)
        })
        .collect()
}

async fn entries(world: &World, item: ItemId, action: &str) -> Vec<Entry> {
    let log = world
        .engine
        .timeline(&World::scope("acme"), item, LogPosition::default(), 200)
        .await
        .unwrap();
    log.into_iter().filter(|entry| entry.action == action).collect()
}

on_both! {
    async fn a_finished_job_carries_result_fields_and_what_a_reviewer_sees(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        let job = world.claim_one("w1").await;
        let region = Region { page: 2, x: 0.1, y: 0.2, width: 0.3, height: 0.04 };
        let vendor = MachineField { region: Some(region), ..said("vendor", "Acme Corp", 98.5) };
        let total = MachineField { confidence: None, ..said("total", json!({"amount": 12.5}), 0.0) };
        let complete = Complete {
            result: Some(json!({"pages": 3, "text": "\"quoted\" é \\u0041"})),
            fields: Some(vec![vendor, total]),
            display_payload: Some(json!("shown-to-the-reviewer")),
            line_item_count: Some(7),
            total_amount: Some(12.5),
            ..Complete::new(job.id, job.token)
        };
        world.engine.complete(vec![complete]).await.unwrap().remove(0).unwrap();
        let view = world.view("acme", item).await;
        assert_eq!(view.item.status, ItemStatus::Completed);
        let result: Value = serde_json::from_str(&view.result.unwrap()).unwrap();
        assert_eq!(result, json!({"pages": 3, "text": "\"quoted\" é \\u0041"}));
        let fields = view.fields;
        assert_eq!((fields[0].region, fields[0].confidence), (Some(region), Some(98.5)));
        assert_eq!((&fields[1].value, fields[1].confidence), (&json!({"amount": 12.5}), None));
        let kept = "select count(*) from job where display_payload = '\"shown-to-the-reviewer\"'
                    and line_item_count = 7 and total_amount = 12.5";
        assert_eq!(world.number(kept).await, 1);
    }

    async fn where_a_review_follows_the_item_goes_there(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", Pipeline { review: true, ..Pipeline::default() }).await;
        let item = world.submit_one("acme", "doc").await.id;
        process(world, item, vec![said("vendor", "Acme", 50.0)]).await;
        assert_eq!(world.view("acme", item).await.item.status, ItemStatus::InReview);
    }

    async fn a_corrected_field_survives_processing_again(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        process(world, item, vec![said("vendor", "Acne Corp", 67.0), said("date", "2026-09-01", 90.0)]).await;
        world.pass_ms(1_000);
        correct(world, item, "vendor", "Acme Corp").await;
        let before = fields(world, item).await;
        assert_eq!(before[0].corrected_by.as_deref(), Some("producer:acme"));
        assert_eq!(before[0].corrected_at.unwrap().since(item.created_at()), 1_000);

        world.engine.reprocess(&World::scope("acme"), item).await.unwrap();
        process(world, item, vec![said("vendor", "Acne Corp", 71.0), said("date", "2026-09-02", 95.0)]).await;
        let after = fields(world, item).await;
        let expected = [
            ("vendor", json!("Acme Corp"), true, Some(json!("Acne Corp"))),
            ("date", json!("2026-09-02"), false, None),
        ];
        assert_eq!(brief(&after), expected);
        assert_eq!(after[0].corrected_by, before[0].corrected_by);
        assert_eq!((after[0].corrected_at, after[0].confidence), (before[0].corrected_at, Some(71.0)));

        let corrected = entries(world, item, "field.corrected").await;
        let kept = entries(world, item, "field.kept_locked").await;
        assert_eq!((corrected.len(), kept.len()), (1, 1));
        for (entry, old, new) in
            [(&corrected[0], "\"Acne Corp\"", "\"Acme Corp\""), (&kept[0], "\"Acme Corp\"", "\"Acne Corp\"")]
        {
            assert_eq!(entry.field.as_deref(), Some("vendor"));
            assert_eq!((entry.old.as_deref(), entry.new.as_deref()), (Some(old), Some(new)));
        }
        assert!(kept[0].details.as_deref().unwrap().contains("71"), "how sure the machine was is on record");
    }

    async fn a_next_version_that_brings_fields_leaves_locked_ones_and_takes_the_place_of_others(world: &World) {
        world.tenant("acme", 1).await;
        world.collection("acme", "acme", None).await;
        let arrives = async |payload: &str, vendor: &str, total: i64| {
            let details = ItemDetails {
                external_id: Some("doc".to_owned()),
                on_conflict: OnConflict::NewVersion,
                fields: Some(vec![said("vendor", vendor, 60.0), said("total", total, 60.0)]),
                ..ItemDetails::default()
            };
            let item = SubmitItem { payload: json!({ "text": payload }), details };
            world.submit("acme", vec![item]).await.unwrap().results.remove(0).unwrap().id
        };
        let item = arrives("one", "Acne", 1).await;
        correct(world, item, "vendor", "Acme").await;
        correct(world, item, "total", "2").await;
        world.engine.field_unlock(&World::scope("acme"), item, "total").await.unwrap();
        assert_eq!(arrives("two", "Acne Corp", 3).await, item);
        let expected = [("vendor", json!("Acme"), true, Some(json!("Acne Corp"))), ("total", json!(3), false, None)];
        assert_eq!(brief(&fields(world, item).await), expected);
        let kept = entries(world, item, "field.kept_locked").await;
        assert_eq!((kept.len(), kept[0].new.as_deref()), (1, Some("\"Acne Corp\"")));
    }

    async fn a_correction_can_be_corrected(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        process(world, item, vec![said("vendor", "Acne Corp", 67.0)]).await;
        correct(world, item, "vendor", "Acme").await;
        correct(world, item, "vendor", "Acme Corp").await;
        let expected = [("vendor", json!("Acme Corp"), true, Some(json!("Acne Corp")))];
        assert_eq!(brief(&fields(world, item).await), expected);
        let log = entries(world, item, "field.corrected").await;
        assert_eq!((log[1].old.as_deref(), log[1].new.as_deref()), (Some("\"Acme\""), Some("\"Acme Corp\"")));
    }

    async fn a_locked_field_stays_when_the_machine_no_longer_mentions_it(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        process(world, item, vec![said("vendor", "Acne", 60.0), said("date", "today", 60.0)]).await;
        correct(world, item, "vendor", "Acme").await;
        world.engine.reprocess(&World::scope("acme"), item).await.unwrap();
        process(world, item, vec![said("total", 5, 60.0)]).await;
        let expected = [("total", json!(5), false, None), ("vendor", json!("Acme"), true, None)];
        assert_eq!(brief(&fields(world, item).await), expected);
        assert!(entries(world, item, "field.kept_locked").await.is_empty(), "the machine said nothing of it");
    }

    async fn a_job_that_hands_in_no_fields_leaves_them_as_they_are(world: &World) {
        world.lanes(1, &["acme"]).await;
        let details = ItemDetails {
            external_id: Some("doc".into()),
            fields: Some(vec![said("vendor", "from the submitter", 10.0)]),
            ..ItemDetails::default()
        };
        let submitted = world.submit("acme", vec![SubmitItem { payload: json!(1), details }]).await;
        let item = submitted.unwrap().results.remove(0).unwrap().id;
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        assert_eq!(fields(world, item).await[0].value, json!("from the submitter"));
        for (value, handed_in) in [("from the machine", true), ("from the machine", false)] {
            world.engine.reprocess(&World::scope("acme"), item).await.unwrap();
            let job = world.claim_one("w1").await;
            let fields_in = handed_in.then(|| vec![said("vendor", value, 20.0)]);
            let complete = Complete { fields: fields_in, ..Complete::new(job.id, job.token) };
            world.engine.complete(vec![complete]).await.unwrap().remove(0).unwrap();
            assert_eq!(fields(world, item).await[0].value, json!(value));
        }
    }

    async fn fields_that_make_no_sense_are_refused_and_the_job_goes_on(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        let job = world.claim_one("w1").await;
        let before = world.all_of("acme", item).await;
        for (fields, path) in [
            (vec![said("a", 1, 101.0)], "jobs[0].fields[0].confidence"),
            (vec![said("a", 1, f64::NAN)], "jobs[0].fields[0].confidence"),
            (vec![said("a", 1, -1.0)], "jobs[0].fields[0].confidence"),
            (vec![said("a", 1, 1.0), said("a", 2, 1.0)], "jobs[0].fields[1]"),
            (vec![said("", 1, 1.0)], "jobs[0].fields[0].name"),
            (vec![said("a", "x\0y", 1.0)], "jobs[0].fields"),
        ] {
            let refused = world.engine.complete(vec![with_fields(&job, fields)]).await.unwrap().remove(0);
            match refused {
                Err(Refusal::Invalid { path: found, .. }) => assert_eq!(found, path),
                other => panic!("{path}: {other:?}"),
            }
        }
        assert_eq!(world.all_of("acme", item).await, before);
        world.complete(job.id, job.token).await.unwrap();
    }

    async fn a_correction_of_nothing_or_of_an_unknown_field_changes_nothing(world: &World) {
        world.lanes(1, &["acme", "other"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        process(world, item, vec![said("vendor", "Acne", 60.0)]).await;
        let before = world.all_of("acme", item).await;
        let good = ("vendor".to_owned(), json!("Acme"));
        let unknown = ("vendr".to_owned(), json!("Acme"));
        let nul = ("vendor".to_owned(), json!("Ac\0me"));
        for (corrections, code) in [
            (vec![], "validation_failed"),
            (vec![unknown.clone()], "validation_failed"),
            (vec![good.clone(), unknown], "validation_failed"),
            (vec![good.clone(), nul], "validation_failed"),
        ] {
            let refused = world.engine.fields_correct(&World::scope("acme"), item, corrections).await;
            assert_eq!(refused.unwrap_err().refusal().map(Refusal::code), Some(code));
        }
        let stranger = world.engine.fields_correct(&World::scope("other"), item, vec![good]).await;
        assert_eq!(stranger.unwrap_err().refusal().map(Refusal::code), Some("not_found"));
        assert_eq!(world.all_of("acme", item).await, before, "all of it or nothing");
    }

    async fn a_field_corrected_while_the_job_runs_is_kept(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        process(world, item, vec![said("vendor", "Acne", 60.0)]).await;
        world.engine.reprocess(&World::scope("acme"), item).await.unwrap();
        let job = world.claim_one("w1").await;
        correct(world, item, "vendor", "Acme").await;
        let complete = with_fields(&job, vec![said("vendor", "Acne Corp", 99.0)]);
        world.engine.complete(vec![complete]).await.unwrap().remove(0).unwrap();
        let expected = [("vendor", json!("Acme"), true, Some(json!("Acne Corp")))];
        assert_eq!(brief(&fields(world, item).await), expected);
        assert_eq!(entries(world, item, "field.kept_locked").await.len(), 1);
    }
}
