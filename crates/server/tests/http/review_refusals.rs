//! What reviewers cannot do, over HTTP: each has a clear answer, and nothing is changed.

use docket_testkit::on_both;
use serde_json::{Value, json};

use crate::site::Site;

fn queue(path: &str) -> String {
    format!("/api/v1/review-queue/{path}")
}

/// Everything that a decision could change.
async fn picture(world: &docket_testkit::World) -> Vec<i64> {
    let mut counts = Vec::new();
    for query in [
        "select count(*) from log",
        "select count(*) from correction",
        "select count(*) from review where state = 1",
        "select cast(coalesce(sum(token), 0) as bigint) from review",
    ] {
        counts.push(world.number(query).await);
    }
    counts
}

on_both! {
    async fn a_pop_that_asks_wrongly_is_refused(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        site.put_on_desk(&["a"]).await;
        let before = picture(world).await;
        let pop = |body| site.post("reviewer", "/api/v1/review-queue/pop", body);
        for (more, path) in [
            (json!({ "limit": 0 }), "limit"), (json!({ "limit": 1_000_000 }), "limit"), (json!({ "limit": -1 }), "limit"),
            (json!({ "waitSeconds": 61 }), "waitSeconds"), (json!({ "waitSeconds": -1 }), "waitSeconds"),
            (json!({ "lockTimeoutSeconds": -5 }), "lockTimeoutSeconds"), (json!({ "strategy": "random" }), "strategy"),
            (json!({ "reviewerId": "bob" }), "reviewerId"), (json!({ "collectionId": "" }), "collectionId"),
            (json!({ "collectionId": null }), "collectionId"),
        ] {
            let mut body = json!({ "collectionId": "desk" });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            pop(body).await.wrong_at(path);
        }
        pop(json!({})).await.wrong_at("collectionId");
        pop(json!([])).await.wrong_at("body");
        pop(json!({ "collectionId": "nobody" })).await.problem(404, "not_found");
        site.post("zed", &queue("pop"), json!({ "collectionId": "desk" })).await.problem(404, "not_found");
        assert_eq!(picture(world).await, before);
    }

    async fn one_bad_decision_spoils_no_other(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        site.put_on_desk(&["a", "b"]).await;
        let held = site.pop("reviewer", 2).await;
        let (first, second) = (&held[0]["queueId"], &held[1]["queueId"]);
        let nobody = "f47ac10b-58cc-4372-a567-0e02b2c3d479";
        let wrong = [
            (json!({ "queueId": first, "outcome": "maybe" }), "validation_failed", Some("outcome")),
            (json!({ "queueId": first, "outcome": "rejected" }), "validation_failed", Some("reason")),
            (json!({ "queueId": first, "outcome": "corrected" }), "validation_failed", Some("corrections")),
            (json!({ "queueId": first, "outcome": "corrected", "corrections": [{ "field": "colour", "value": 1 }] }),
                "validation_failed", Some("corrections[0].field")),
            (json!({ "queueId": first, "outcome": "approved", "corrections": [{ "field": "total", "value": 1 }] }),
                "validation_failed", Some("corrections")),
            (json!({ "queueId": first, "outcome": "rejected", "reason": "x".repeat(2 << 20) }), "validation_failed", Some("reason")),
            (json!({ "queueId": first, "outcome": "approved", "generationId": "other" }), "validation_failed", Some("generationId")),
            (json!({ "queueId": first, "outcome": "approved", "leaseToken": 7 }), "lease_lost", None),
            (json!({ "queueId": first, "outcome": "approved", "leaseToken": "1" }), "validation_failed", Some("leaseToken")),
            (json!({ "queueId": first, "outcome": "approved", "note": 1 }), "validation_failed", Some("note")),
            (json!({ "queueId": "7", "outcome": "approved" }), "validation_failed", Some("queueId")),
            (json!({ "outcome": "approved" }), "validation_failed", Some("queueId")),
            (json!({ "queueId": nobody, "outcome": "approved" }), "not_found", None),
        ];
        let before = picture(world).await;
        for (decision, code, path) in &wrong {
            let result = site.commit("reviewer", json!([decision])).await.remove(0);
            assert_eq!((&result["ok"], result["error"]["code"].as_str()), (&json!(false), Some(*code)), "{result}");
            let path = path.map(|path| format!("decisions[0].{path}"));
            assert_eq!(result["error"]["path"].as_str(), path.as_deref(), "{result}");
        }
        assert_eq!(picture(world).await, before, "nothing was changed");
        // Amid all of them, one that is right.
        let mut all: Vec<Value> = wrong.iter().map(|(decision, ..)| decision.clone()).filter(|d| d["queueId"] != *first).collect();
        all.insert(1, json!({ "queueId": second, "outcome": "approved" }));
        all.push(json!({ "queueId": first, "outcome": "maybe" }));
        let results = site.commit("reviewer", json!(all)).await;
        let taken: Vec<_> = results.iter().map(|result| result["ok"] == true).collect();
        assert_eq!(taken, [false, true, false, false, false], "{results:?}");
        assert_eq!(results[4]["error"]["path"], "decisions[4].outcome");
    }

    async fn a_commit_of_another_shape_is_refused_as_a_whole(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        site.put_on_desk(&["a"]).await;
        let entry = site.pop("reviewer", 1).await.remove(0);
        let good = json!({ "queueId": entry["queueId"], "outcome": "approved" });
        let before = picture(world).await;
        let commit = |body| site.post("reviewer", "/api/v1/review-queue/commit", body);
        for (body, path) in [
            (json!({ "decisions": [] }), "decisions"),
            (json!({ "decisions": vec![good.clone(); 201] }), "decisions"),
            (json!({ "decisions": good }), "decisions"),
            (json!({ "decisions": [good, "approved"] }), "decisions[1]"),
            (json!({ "decisions": [good], "reviewerId": "bob" }), "reviewerId"),
            (json!({}), "decisions"),
            (json!([good]), "body"),
        ] {
            commit(body).await.wrong_at(path);
        }
        let huge = json!({ "decisions": [{ "queueId": entry["queueId"], "outcome": "rejected", "reason": "x".repeat(5 << 20) }] });
        commit(huge).await.problem(413, "payload_too_large");
        assert_eq!(picture(world).await, before);
        let twice = site.commit("reviewer", json!([good, good])).await;
        assert_eq!((&twice[0]["ok"], &twice[1]["error"]["code"]), (&json!(true), &json!("validation_failed")));
        assert!(twice[1]["error"]["detail"].as_str().unwrap().contains("decisions[0]"), "{twice:?}");
    }

    async fn lists_of_reviews_name_each_once(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        site.put_on_desk(&["a"]).await;
        let entry = site.pop("reviewer", 1).await.remove(0);
        let before = picture(world).await;
        for call in ["release", "heartbeat", "undo"] {
            let ask = async |body| site.post("reviewer", &queue(call), body).await;
            ask(json!({ "queueIds": [] })).await.wrong_at("queueIds");
            ask(json!({ "queueIds": [entry["queueId"], entry["queueId"]] })).await.wrong_at("queueIds[1]");
            ask(json!({ "queueIds": ["7"] })).await.wrong_at("queueIds[0]");
            ask(json!({ "queueIds": vec![entry["queueId"].clone(); 201] })).await.wrong_at("queueIds");
            ask(json!({ "queueIds": vec!["f47ac10b-58cc-4372-a567-0e02b2c3d479"; 201] })).await.wrong_at("queueIds");
            ask(json!({ "queueIds": entry["queueId"] })).await.wrong_at("queueIds");
        }
        let long = json!({ "queueIds": [entry["queueId"]], "reason": "x".repeat(2 << 20) });
        site.post("reviewer", &queue("release"), long).await.wrong_at("reason");
        assert_eq!(picture(world).await, before);
    }

    async fn anothers_reviews_are_not_there(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        site.put_on_desk(&["a"]).await;
        let entry = site.pop("reviewer", 1).await.remove(0);
        let id = entry["queueId"].as_str().unwrap();
        let before = picture(world).await;
        let decision = json!([{ "queueId": id, "leaseToken": 1, "outcome": "approved" }]);
        assert_eq!(site.commit("zed", decision).await[0]["error"]["code"], "not_found");
        for call in ["release", "heartbeat", "undo"] {
            let answer = site.post("zed", &queue(call), json!({ "queueIds": [id] })).await.json();
            assert_eq!(answer["results"][0]["error"]["code"], "not_found", "{call}");
        }
        site.call("zed", "POST", &queue(&format!("{id}/claim"))).send().await.problem(404, "not_found");
        assert_eq!(picture(world).await, before);
    }
}
