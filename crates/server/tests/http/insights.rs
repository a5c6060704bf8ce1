//! Insights over HTTP: what is told, to whom, and what is asked wrongly.

use docket_core::access::Role;
use docket_core::item::ItemDetails;
use docket_core::review::Outcome;
use docket_engine::NewKey;
use docket_testkit::desk::{correction, decision, said};
use docket_testkit::{World, names, on_both};
use docket_wire::insight::{
    CalibrationInsight, CorrectionsInsight, ReviewersInsight, SlaInsight, TrainingExample,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::site::Site;

/// A site where reviewers of `acme` have decided: one approves, two correct.
async fn decided(world: &World) -> Site {
    let site = Site::new(world).await;
    world.review_policy("acme", json!({ "slaHours": 1 })).await;
    for (item, who) in [("a", "reviewer"), ("b", "ann"), ("c", "ann")] {
        let details = ItemDetails {
            fields: Some(vec![said("vendor", "Acne", 80.0), said("total", 12, 100.0)]),
            ..ItemDetails::default()
        };
        world.submit_with("acme", item, details).await;
        let id = world.pop_one("acme", who).await.review.id;
        world.pass_ms(20_000);
        let decision = match who {
            "ann" => correction(id, "vendor", "Acme"),
            _ => decision(id, Outcome::Approved),
        };
        world.decide("acme", who, decision).await.unwrap();
    }
    world.submit_one("acme", "waits").await;
    site
}

async fn ask<T: DeserializeOwned>(site: &Site, who: &str, path: &str) -> T {
    let answer = site.get(who, &format!("/api/v1/insights/{path}")).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    serde_json::from_value(answer.json()).unwrap()
}

const ALL: [&str; 5] = ["corrections", "reviewers", "calibration", "sla", "training-data"];

on_both! {
    async fn a_lead_learns_what_reviewers_decided(world: &World) {
        let site = decided(world).await;
        for (who, of) in [("lead", ""), ("admin", "?tenantId=acme"), ("admin", "?collectionId=acme")] {
            let found: CorrectionsInsight = ask(&site, who, &format!("corrections{of}")).await;
            assert_eq!((found.looked_at.reviews, found.looked_at.capped), (3, false));
            let vendor = &found.fields[0];
            assert_eq!((vendor.field.as_str(), vendor.extracted, vendor.corrected), ("vendor", 3, 2));
            let changes = json!([{ "old": "Acne", "new": "Acme", "count": 2 }]);
            assert_eq!(serde_json::to_value(&vendor.changes).unwrap(), changes);
        }
        let found: ReviewersInsight = ask(&site, "lead", "reviewers").await;
        let rows: Vec<_> = found.reviewers.iter().map(|r| (r.reviewer_id.as_str(), r.decisions, r.median_seconds)).collect();
        assert_eq!(rows, [("ann", 2, 20.0), ("reviewer", 1, 20.0)]);
        assert_eq!((found.reviewers[0].correction_rate, found.reviewers[0].days[0].day.as_str()), (1.0, "2026-09-21"));
        let found: CalibrationInsight = ask(&site, "lead", "calibration?field=vendor&threshold=87.5").await;
        assert_eq!((found.bins[8].fields, found.bins[8].changed, found.bins[9].fields), (3, 2, 0));
        let asked = found.thresholds.iter().find(|approval| approval.threshold == 87.5).unwrap();
        assert_eq!((asked.reviews, asked.let_through, asked.review_share), (3, 2, Some(1.0)));
        let found: SlaInsight = ask(&site, "lead", "sla?paceHours=3").await;
        assert_eq!((found.met, found.missed, found.pace_hours), (3, 0, 3));
        assert_eq!((found.waiting.reviews, found.waiting.will_miss), (1, 0));
        assert_eq!(found.collections[0].decisions_per_hour, 1.0);
    }

    async fn training_data_comes_as_json_lines(world: &World) {
        let site = decided(world).await;
        for query in ["", "?format=jsonl", "?field=vendor"] {
            let answer = site.get("lead", &format!("/api/v1/insights/training-data{query}")).await;
            assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some("application/x-ndjson")));
            let text = answer.text();
            assert!(text.ends_with('\n'));
            let lines: Vec<TrainingExample> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let said: Vec<_> = lines.iter().map(|line| (line.external_id.as_deref(), &line.machine_value, &line.human_value)).collect();
            assert_eq!(said, [(Some("b"), &json!("Acne"), &json!("Acme")), (Some("c"), &json!("Acne"), &json!("Acme"))]);
            assert_eq!((lines[0].confidence, lines[0].version, lines[0].decided_by.as_str()), (Some(80.0), 1, "ann"));
        }
        assert_eq!(site.get("lead", "/api/v1/insights/training-data?field=total").await.text(), "");
    }

    async fn a_reviewer_sees_the_own_row_and_no_other_insight(world: &World) {
        let site = decided(world).await;
        let own: ReviewersInsight = ask(&site, "reviewer", "reviewers").await;
        assert_eq!(own.looked_at.reviews, 1, "how much the others do is not told");
        assert_eq!(own.reviewers.iter().map(|r| r.reviewer_id.as_str()).collect::<Vec<_>>(), ["reviewer"]);
        for what in ["corrections", "calibration", "sla", "training-data"] {
            site.get("reviewer", &format!("/api/v1/insights/{what}")).await.problem(403, "forbidden");
        }
    }

    async fn insights_of_another_tenant_are_not_there(world: &World) {
        let site = decided(world).await;
        let new = NewKey { role: Role::Lead, tenant: Some(names::tenant("zeta")), subject: "zoe".to_owned() };
        let key = world.engine.key_create(&World::operator(), new).await.unwrap().key;
        let zoe = async |path: String| {
            let authorization = format!("Bearer {}", key.reveal());
            site.call("", "GET", &path).header("authorization", &authorization).send().await
        };
        for what in ALL {
            for other in ["tenantId=acme", "collectionId=acme", "tenantId=nobody", "collectionId=nobody"] {
                zoe(format!("/api/v1/insights/{what}?{other}")).await.problem(404, "not_found");
            }
            for other in ["tenantId=nobody", "collectionId=nobody", "tenantId=zeta&collectionId=acme"] {
                site.get("admin", &format!("/api/v1/insights/{what}?{other}")).await.problem(404, "not_found");
            }
            site.get("admin", &format!("/api/v1/insights/{what}")).await.wrong_at("tenantId");
            let own = zoe(format!("/api/v1/insights/{what}")).await;
            assert_eq!(own.status, 200);
            assert!(!own.text().contains("acme") && !own.text().contains("Acme"), "{}", own.text());
        }
    }

    async fn what_is_asked_wrongly_is_said_with_its_place(world: &World) {
        let site = Site::new(world).await;
        for what in ALL {
            for (query, path) in [
                ("since=yesterday", "since"),
                ("until=2026-13-01T00:00:00Z", "until"),
                ("since=2026-09-02T00:00:00Z&until=2026-09-01T00:00:00Z", "since"),
                ("since=2024-09-02T00:00:00Z&until=2026-09-01T00:00:00Z", "since"),
                ("collectionId=a%20b", "collectionId"),
                ("nothing=1", "nothing"),
            ] {
                site.get("lead", &format!("/api/v1/insights/{what}?{query}")).await.wrong_at(path);
            }
        }
        for (query, path) in [
            ("calibration?threshold=101", "threshold"),
            ("calibration?threshold=NaN", "threshold"),
            ("calibration?threshold=high", "threshold"),
            ("calibration?field=", "field"),
            ("corrections?field=a%0Ab", "field"),
            ("corrections?paceHours=1", "paceHours"),
            ("sla?paceHours=0", "paceHours"),
            ("sla?paceHours=169", "paceHours"),
            ("sla?paceHours=-1", "paceHours"),
            ("sla?field=vendor", "field"),
            ("training-data?format=csv", "format"),
        ] {
            site.get("lead", &format!("/api/v1/insights/{query}")).await.wrong_at(path);
        }
    }
}
