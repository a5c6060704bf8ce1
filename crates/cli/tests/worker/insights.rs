//! What decided reviews tell, from the command line.

use docket_core::field::MachineField;
use docket_core::item::ItemDetails;
use docket_core::name::{CollectionId, ReviewerId, TenantId};
use docket_core::review::{FieldCorrection, Outcome};
use docket_core::scope::{Actor, Operator, Reviewing, Scope};
use docket_engine::{CollectionSettings, Decision, Engine, Pop, Submit, SubmitItem};
use serde_json::{Value, json};

use crate::site::Site;

/// A collection `r` of tenant `t` in which Ann has corrected one review.
async fn correct_one(engine: &Engine) {
    let (tenant, collection) = (
        TenantId::new("t").expect("a name"),
        CollectionId::new("r").expect("a name"),
    );
    let settings = CollectionSettings {
        id: collection.clone(),
        tenant: tenant.clone(),
        pipeline: None,
        review: true,
        settings: json!({}),
    };
    engine
        .collection_put(&Operator::system(), settings)
        .await
        .expect("the collection is taken");
    let actor = Actor::new("reviewer:ann").expect("a name");
    let scope = Scope { tenant, actor };
    let read = MachineField {
        name: "vendor".to_owned(),
        value: json!("Acne"),
        confidence: Some(67.0),
        region: None,
    };
    let item = SubmitItem {
        payload: json!({}),
        details: ItemDetails {
            external_id: Some("INV-1".to_owned()),
            fields: Some(vec![read]),
            ..ItemDetails::default()
        },
    };
    let call = Submit {
        collection: collection.clone(),
        items: vec![item],
        idempotency_key: None,
    };
    engine.submit(&scope, call).await.expect("the item is taken");
    let ann = Reviewing::of(&scope, ReviewerId::new("ann").expect("a name"));
    let pop = Pop {
        collection,
        limit: 1,
        strategy: None,
        lock_timeout_ms: None,
        wait_ms: 0,
    };
    let popped = engine.review_pop(&ann, pop, std::future::pending()).await;
    let held = popped.expect("the pop is taken").entries.remove(0);
    let decision = Decision {
        id: held.review.id,
        generation_id: None,
        token: None,
        outcome: Outcome::Corrected,
        reason: None,
        corrections: vec![FieldCorrection {
            field: "vendor".to_owned(),
            value: json!("Acme"),
        }],
    };
    let decided = engine.review_commit(&ann, vec![Ok(decision)]).await;
    decided
        .expect("the call is taken")
        .remove(0)
        .expect("it is decided");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_reviewers_decided_is_told_on_the_command_line() {
    let site = Site::new().await;
    correct_one(site.engine()).await;
    for (what, told) in [
        ("corrections", r#""Acne" → "Acme" (1)"#),
        ("reviewers", "ann"),
        ("calibration", "60–70"),
        ("sla", "At the pace of the last 24 hours 0 of 0 that wait"),
    ] {
        let (code, shown, complaint) = site.run(&["insights", what, "--tenant", "t"]).await;
        assert_eq!(code, 0, "{complaint}");
        assert!(
            shown.contains("Decisions: 1, from") && shown.contains(told),
            "{shown}"
        );
    }
    let (_, shown, _) = site
        .run(&["insights", "corrections", "--collection", "r", "--json"])
        .await;
    let found: Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!(found["fields"][0]["rate"], json!(1.0));
    let (code, _, complaint) = site.run(&["insights", "sla"]).await;
    assert_eq!(code, 1, "an admin says for whom: {complaint}");
}

#[tokio::test(flavor = "multi_thread")]
async fn training_data_gets_its_name_when_it_is_whole() {
    let site = Site::new().await;
    correct_one(site.engine()).await;
    let file = site.folder.path().join("examples.jsonl");
    let path = file.to_str().expect("it is UTF-8");
    let (code, shown, complaint) = site
        .run(&["insights", "training-data", "--tenant", "t", "--output", path])
        .await;
    assert_eq!(code, 0, "{complaint}");
    assert!(shown.contains("Examples: 1, written to"), "{shown}");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let line: Value = serde_json::from_str(text.trim_end()).expect("it is one line of JSON");
    assert_eq!(
        (&line["machineValue"], &line["humanValue"]),
        (&json!("Acne"), &json!("Acme"))
    );
    assert_eq!(
        (&line["externalId"], &line["confidence"], &line["version"]),
        (&json!("INV-1"), &json!(67.0), &json!(1))
    );
    let (_, piped, _) = site
        .run(&["insights", "training-data", "--tenant", "t", "--output", "-"])
        .await;
    assert_eq!(piped, text);
    let other = site.folder.path().join("refused.jsonl");
    let path = other.to_str().expect("it is UTF-8");
    let (code, ..) = site
        .run(&[
            "insights",
            "training-data",
            "--tenant",
            "nobody",
            "--output",
            path,
        ])
        .await;
    assert_eq!(code, 1);
    assert!(!other.exists() && !other.with_extension("jsonl.part").exists());
}
