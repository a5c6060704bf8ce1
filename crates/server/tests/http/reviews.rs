//! Reviews over HTTP: taken, kept, decided, taken back, given back, handed on.

use std::time::Duration;

use docket_testkit::on_both;
use serde_json::{Value, json};

use crate::site::Site;

const MINUTE_MS: i64 = 60_000;

fn queue(path: &str) -> String {
    format!("/api/v1/review-queue/{path}")
}

fn service(path: &str) -> String {
    format!("/internal/v1/data/review-queue/{path}")
}

fn id(entry: &Value) -> &str {
    entry["queueId"].as_str().unwrap()
}

on_both! {
    async fn a_review_is_popped_and_decided(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "slaHours": 12, "leaseSeconds": 60 })).await;
        site.put_on_desk(&["INV-1"]).await;
        let popped = site.post("reviewer", &queue("pop"), json!({ "collectionId": "desk" })).await;
        assert_eq!((popped.header("retry-after"), popped.json().get("empty")), (None, None));
        let entry = popped.json()["items"][0].clone();
        for (name, value) in [
            ("generationId", json!("INV-1")), ("collectionId", json!("desk")), ("tenantId", json!("acme")),
            ("version", json!(1)), ("status", json!("in_review")), ("priority", json!(16.0)), ("band", json!("low")),
            ("sla", json!({ "deadline": "2026-09-22T02:13:20.000Z", "secondsLeft": 43_200, "level": "on_track" })),
            ("assignedTo", json!("reviewer")), ("assignedAt", json!("2026-09-21T14:13:20.000Z")), ("leaseToken", json!(1)),
            ("leaseExpiresAt", json!("2026-09-21T14:14:20.000Z")), ("retryCount", json!(0)), ("displayPayload", json!({ "for": "INV-1" })),
        ] {
            assert_eq!(entry[name], value, "{name}");
        }
        assert_eq!((&entry["fields"][0]["name"], &entry["fields"][0]["locked"]), (&json!("total"), &json!(false)));
        let decisions = json!([{
            "queueId": entry["queueId"], "generationId": "INV-1", "leaseToken": 1, "outcome": "accepted", "reason": "fine",
        }]);
        let first = site.commit("reviewer", decisions.clone()).await;
        assert_eq!(first[0], json!({
            "ok": true, "queueId": entry["queueId"], "itemId": entry["itemId"], "status": "approved",
            "decidedAt": "2026-09-21T14:13:20.000Z", "undoUntil": "2026-09-21T14:13:30.000Z", "repeated": false,
        }));
        assert_eq!(site.commit("reviewer", decisions).await[0]["repeated"], true, "said again, it stands");
        let item = site.get("acme", &format!("/api/v1/items/{}", entry["itemId"].as_str().unwrap())).await.json();
        assert_eq!(item["status"], "approved");
    }

    async fn a_pop_that_finds_nothing_says_why_and_when_to_ask_again(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "leaseSeconds": 30 })).await;
        let pop = |who: &'static str| site.post(who, "/api/v1/review-queue/pop", json!({ "collectionId": "desk" }));
        let none = pop("reviewer").await;
        assert_eq!((none.status.as_u16(), none.header("retry-after")), (200, Some("10")));
        assert_eq!(none.json()["empty"], json!({
            "reason": "none", "detail": "nothing is left to review", "pending": 0, "inReview": 0,
        }));
        site.put_on_desk(&["INV-1"]).await;
        site.pop("reviewer", 1).await;
        world.pass_ms(10_000);
        let held = pop("bob").await;
        assert_eq!(held.header("retry-after"), Some("20"));
        let empty = &held.json()["empty"];
        assert_eq!((&empty["reason"], &empty["inReview"], &empty["nextLeaseEndsAt"]),
            (&json!("all_assigned"), &json!(1), &json!("2026-09-21T14:13:50.000Z")));
        site.post("admin", "/api/v1/pauses", json!({ "scope": "collection", "id": "desk", "reason": "holiday" })).await;
        assert_eq!(pop("bob").await.json()["empty"]["reason"], "paused");
        site.desk(json!({ "roster": ["reviewer"] })).await;
        let pauses = site.get("admin", "/api/v1/pauses").await.json();
        let path = format!("/api/v1/pauses/{}", pauses["items"][0]["id"].as_str().unwrap());
        assert_eq!(site.call("admin", "DELETE", &path).send().await.status, 204);
        assert_eq!(pop("bob").await.json()["empty"]["reason"], "not_permitted");
    }

    async fn a_pop_waits_for_reviews_and_ends_when_the_server_stops(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        let pop = || async {
            let body = json!({ "collectionId": "desk", "waitSeconds": 30 });
            site.post("reviewer", &queue("pop"), body).await.json()
        };
        let (popped, ()) = tokio::join!(pop(), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            site.put_on_desk(&["INV-1"]).await;
        });
        assert_eq!(popped["items"][0]["generationId"], "INV-1");
        let (popped, ()) = tokio::join!(pop(), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            site.state.begin_shutdown();
        });
        assert_eq!((&popped["items"], &popped["empty"]["reason"]), (&json!([]), &json!("all_assigned")));
    }

    async fn what_was_popped_for_nobody_goes_back_at_once(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        let body = json!({ "collectionId": "desk", "waitSeconds": 30 });
        let gone = site.post("reviewer", "/api/v1/review-queue/pop", body);
        // The caller hangs up while it waits, and the review arrives at that moment.
        assert!(tokio::time::timeout(Duration::from_millis(100), gone).await.is_err());
        site.put_on_desk(&["INV-1"]).await;
        let entry = loop {
            if let Some(entry) = site.pop("bob", 1).await.pop() {
                break entry;
            }
        };
        assert_eq!((&entry["generationId"], &entry["retryCount"]), (&json!("INV-1"), &json!(0)));
    }

    async fn reviews_are_kept_given_back_and_skipped(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "leaseSeconds": 60 })).await;
        site.put_on_desk(&["a", "b"]).await;
        let held = site.pop("reviewer", 2).await;
        let ids = json!({ "queueIds": [id(&held[0]), id(&held[1])] });
        world.pass_ms(MINUTE_MS / 2);
        let kept = site.post("reviewer", &queue("heartbeat"), ids.clone()).await.json();
        assert_eq!(kept["results"][1], json!({ "ok": true, "leaseExpiresAt": "2026-09-21T14:14:50.000Z" }));
        let others = site.post("bob", &queue("heartbeat"), ids).await.json();
        assert_eq!(others["results"][0]["error"]["code"], "lease_lost");
        let skip = json!({ "queueIds": [id(&held[0])], "skip": true, "reason": "my own invoice" });
        assert_eq!(site.post("reviewer", &queue("release"), skip).await.json(), json!({ "results": [{ "ok": true }] }));
        assert!(site.pop("reviewer", 2).await.is_empty(), "what was skipped is not offered again");
        let back = json!({ "queueIds": [id(&held[1]), "f47ac10b-58cc-4372-a567-0e02b2c3d479"] });
        let answer = site.post("reviewer", &queue("release"), back).await.json();
        assert_eq!((&answer["results"][0]["ok"], &answer["results"][1]["error"]["code"]), (&json!(true), &json!("not_found")));
        assert_eq!(site.pop("bob", 5).await.len(), 2);
    }

    async fn anothers_review_is_refused_with_who_has_it_and_until_when(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "leaseSeconds": 60 })).await;
        site.put_on_desk(&["a"]).await;
        let entry = site.pop("reviewer", 1).await.remove(0);
        let claim = queue(&format!("{}/claim", id(&entry)));
        world.pass_ms(MINUTE_MS / 2);
        let refused = site.call("bob", "POST", &claim).send().await;
        refused.problem(409, "already_claimed");
        assert_eq!((&refused.json()["assignedTo"], &refused.json()["leaseExpiresAt"]),
            (&json!("reviewer"), &json!("2026-09-21T14:14:20.000Z")));
        let own = site.call("reviewer", "POST", &claim).send().await.json();
        assert_eq!((&own["leaseToken"], &own["leaseExpiresAt"]), (&json!(1), &json!("2026-09-21T14:14:50.000Z")));
        world.pass_ms(2 * MINUTE_MS);
        let taken = site.call("bob", "POST", &claim).send().await.json();
        assert_eq!((&taken["leaseToken"], &taken["retryCount"]), (&json!(2), &json!(1)), "it had run out");
    }

    async fn an_expired_holder_never_wins(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "leaseSeconds": 60 })).await;
        site.put_on_desk(&["a", "b"]).await;
        let held = site.pop("reviewer", 2).await;
        world.pass_ms(MINUTE_MS + 1);
        let decide = |entry: &Value, token: Option<i64>| {
            let mut decision = json!({ "queueId": entry["queueId"], "outcome": "approved" });
            if let Some(token) = token {
                decision["leaseToken"] = json!(token);
            }
            json!([decision])
        };
        for token in [Some(1), None] {
            let late = site.commit("reviewer", decide(&held[0], token)).await;
            assert_eq!(late[0]["error"]["code"], "lease_lost", "{token:?}: nobody has it yet, and it is lost all the same");
        }
        let theirs = site.pop("bob", 2).await;
        assert_eq!(theirs.len(), 2);
        for token in [Some(1), Some(2), None] {
            let late = site.commit("reviewer", decide(&held[0], token)).await;
            assert_eq!(late[0]["error"]["code"], "lease_lost", "{token:?}: bob has it");
        }
        assert_eq!(site.commit("bob", decide(&theirs[0], Some(1))).await[0]["error"]["code"], "lease_lost");
        assert_eq!(site.commit("bob", decide(&theirs[0], Some(2))).await[0]["ok"], true);
        assert_eq!(site.commit("bob", decide(&theirs[1], None)).await[0]["ok"], true);
        let late = site.commit("reviewer", decide(&held[0], Some(1))).await;
        assert_eq!(late[0]["error"]["code"], "already_decided");
    }

    async fn a_decision_is_taken_back_for_a_short_while(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "undoSeconds": 5 })).await;
        site.put_on_desk(&["a"]).await;
        let entry = site.pop("reviewer", 1).await.remove(0);
        let decision = json!([{ "queueId": entry["queueId"], "outcome": "rejected", "reason": "torn" }]);
        site.commit("reviewer", decision.clone()).await;
        let undo = json!({ "queueIds": [entry["queueId"]] });
        let others = site.post("bob", &queue("undo"), undo.clone()).await.json();
        assert_eq!(others["results"][0]["error"]["code"], "conflict");
        world.pass_ms(5_000);
        let undone = site.post("reviewer", &queue("undo"), undo.clone()).await.json();
        assert_eq!((&undone["results"][0]["ok"], &undone["results"][0]["leaseToken"]), (&json!(true), &json!(2)));
        assert_eq!(site.commit("reviewer", decision).await[0]["ok"], true);
        world.pass_ms(5_001);
        let late = site.post("reviewer", &queue("undo"), undo).await.json();
        assert_eq!(late["results"][0]["error"]["code"], "conflict");
    }

    async fn a_lead_puts_reviews_into_other_hands(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        site.put_on_desk(&["a", "b", "c"]).await;
        let held = site.pop("reviewer", 2).await;
        let reassign = queue(&format!("{}/reassign", id(&held[0])));
        let moved = site.post("lead", &reassign, json!({ "to": "bob", "reason": "knows the supplier" })).await.json();
        assert_eq!((&moved["assignedTo"], &moved["leaseToken"]), (&json!("bob"), &json!(null)), "the token is bob's alone");
        let decision = json!([{ "queueId": held[0]["queueId"], "leaseToken": 1, "outcome": "approved" }]);
        assert_eq!(site.commit("reviewer", decision).await[0]["error"]["code"], "lease_lost");
        site.post("lead", &reassign, json!({ "to": "two words" })).await.wrong_at("to");
        let handed = site.call("lead", "POST", "/api/v1/reviewers/reviewer/hand-on").send().await.json();
        assert_eq!(handed, json!({ "handedOn": 1 }));
        let moved = site.post("admin", &reassign, json!({ "to": "lead" })).await.json();
        assert_eq!(moved["assignedTo"], "lead", "an admin may do what leads may");
        assert_eq!(site.pop("bob", 5).await.len(), 2, "what was handed on is there for others");
    }

    async fn reviewers_are_described_listed_and_bounded(world: &World) {
        let site = Site::new(world).await;
        let body = json!({ "name": "Ann", "available": false, "capacity": 2, "tenantId": "acme" });
        let put = site.put("admin", "/api/v1/reviewers/ann", body.clone()).await;
        let mut shown = body;
        shown["id"] = json!("ann");
        assert_eq!((put.status.as_u16(), put.json()), (200, shown.clone()));
        assert_eq!(site.get("admin", "/api/v1/reviewers/ann").await.json(), shown);
        site.put("admin", "/api/v1/reviewers/reviewer", json!({ "name": "R", "capacity": 1 })).await;
        let page = site.get("admin", "/api/v1/reviewers?limit=1").await.json();
        assert_eq!(page["items"], json!([shown]));
        let next = format!("/api/v1/reviewers?limit=1&cursor={}", page["nextCursor"].as_str().unwrap());
        let page = site.get("admin", &next).await.json();
        assert_eq!((&page["items"][0]["id"], &page["items"][0]["available"], &page["nextCursor"]),
            (&json!("reviewer"), &json!(true), &json!(null)));
        site.get("admin", "/api/v1/reviewers/nobody").await.problem(404, "not_found");
        for (body, path) in [
            (json!({ "name": "" }), "name"), (json!({ "available": true }), "name"), (json!({ "name": "x", "capacity": 0 }), "capacity"),
            (json!({ "name": "x", "capacity": 1.5 }), "capacity"), (json!({ "name": "x", "role": "lead" }), "role"),
        ] {
            site.put("admin", "/api/v1/reviewers/ann", body).await.wrong_at(path);
        }
        site.put("admin", "/api/v1/reviewers/ann", json!({ "name": "x", "tenantId": "nobody" })).await.problem(404, "not_found");
        site.desk(json!({})).await;
        site.put_on_desk(&["a", "b"]).await;
        assert_eq!(site.pop("reviewer", 2).await.len(), 1, "as many as they may hold");
    }

    async fn a_service_speaks_for_reviewers(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "leaseSeconds": 60 })).await;
        let new = json!({ "collectionId": "desk", "entries": [
            { "externalId": "G-1", "payload": { "url": "…" }, "confidence": 40 }, { "payload": 2, "metadata": 3 },
        ] });
        let entered = site.post("service", &service("entries"), new.clone()).await.json();
        assert_eq!((&entered["results"][0]["created"], &entered["results"][1]["error"]["path"]),
            (&json!(true), &json!("entries[1].metadata")));
        let again = site.post("service", &service("entries"), new).await.json();
        assert_eq!((&again["results"][0]["created"], &again["results"][0]["queueId"]),
            (&json!(false), &entered["results"][0]["queueId"]));
        let pop = json!({ "collectionId": "desk", "limit": 5, "reviewerId": "reviewer" });
        let popped = site.post("service", &service("pop"), pop).await.json();
        let entry = &popped["items"][0];
        assert_eq!((&entry["generationId"], &entry["assignedTo"], &entry["leaseToken"]),
            (&json!("G-1"), &json!("reviewer"), &json!(1)));
        let one = |reviewer: &str| json!({ "reviewerId": reviewer, "queueIds": [entry["queueId"]] });
        let lost = site.post("service", &service("heartbeat"), one("bob")).await.json();
        assert_eq!(lost["results"][0]["error"]["code"], "lease_lost");
        assert_eq!(site.post("service", &service("release"), one("reviewer")).await.json()["results"][0]["ok"], true);
        let claim = service(&format!("{}/claim", id(entry)));
        assert_eq!(site.post("service", &claim, json!({ "reviewerId": "bob" })).await.json()["leaseToken"], 2);
        let commit = json!({ "reviewerId": "bob", "decisions": [{ "queueId": entry["queueId"], "outcome": "approved" }] });
        assert_eq!(site.post("service", &service("commit"), commit.clone()).await.json()["results"][0]["ok"], true);
        assert_eq!(site.post("service", &service("undo"), one("bob")).await.json()["results"][0]["ok"], true);
        // The reviewer's own calls are the same ones: bob goes on where the service has begun.
        assert_eq!(site.commit("bob", commit["decisions"].clone()).await[0]["ok"], true);
        let log = site.get("acme", &format!("/api/v1/items/{}/timeline", entry["itemId"].as_str().unwrap())).await.json();
        let actors: Vec<_> = log["items"].as_array().unwrap().iter().filter(|entry| entry["action"] == "review.approved")
            .map(|entry| entry["actor"].as_str().unwrap()).collect();
        assert_eq!(actors, ["reviewer:bob", "reviewer:bob"]);
    }

    async fn silent_holders_are_reaped(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "leaseSeconds": 600, "maxRetries": 0 })).await;
        site.put_on_desk(&["a"]).await;
        site.pop("reviewer", 1).await;
        world.pass_ms(MINUTE_MS);
        let reap = |body| site.post("service", "/internal/v1/data/review-queue/reap", body);
        assert_eq!(reap(json!({})).await.json(), json!({ "requeued": 0, "failed": 0 }));
        assert_eq!(reap(json!({ "olderThanSeconds": 30 })).await.json(), json!({ "requeued": 0, "failed": 1 }));
        reap(json!({ "olderThanSeconds": -1 })).await.wrong_at("olderThanSeconds");
    }

    async fn a_correction_stands_when_the_machine_says_the_same_again(world: &World) {
        let site = Site::new(world).await;
        site.put("admin", "/api/v1/pipelines/work", json!({ "steps": [], "review": true })).await;
        site.put("admin", "/api/v1/collections/acme", json!({
            "tenantId": "acme", "pipeline": "work", "review": { "enabled": true },
        })).await;
        let item = format!("/api/v1/items/{}", site.submit_one("acme", "INV-1").await);
        let read = async || {
            let job = site.claim_one().await;
            let fields = json!([{ "name": "vendor", "value": "Acne Corp", "confidence": 67 }]);
            let done = json!({ "jobId": job["jobId"], "leaseToken": job["leaseToken"], "fields": fields });
            let done = site.post("worker", "/internal/v1/jobs/complete", json!({ "jobs": [done] })).await.json();
            assert_eq!(done["results"][0]["ok"], true, "{done}");
        };
        read().await;
        let popped = site.post("reviewer", &queue("pop"), json!({ "collectionId": "acme" })).await.json();
        let entry = popped["items"][0].clone();
        assert_eq!((&entry["fields"][0]["value"], &entry["fields"][0]["confidence"]), (&json!("Acne Corp"), &json!(67.0)));
        let correction = json!([{ "field": "vendor", "value": "Acme Corp" }]);
        let decision = json!([{ "queueId": entry["queueId"], "outcome": "corrected", "corrections": correction }]);
        assert_eq!(site.commit("reviewer", decision).await[0]["status"], "corrected");
        let again = site.call("acme", "POST", &format!("{item}/reprocess")).send().await;
        assert!(again.status.is_success(), "{}", again.text());
        read().await;
        let field = site.get("acme", &item).await.json()["fields"][0].clone();
        for (name, value) in [
            ("value", json!("Acme Corp")), ("machineValue", json!("Acne Corp")), ("locked", json!(true)),
            ("manuallyCorrected", json!(true)), ("correctedBy", json!("reviewer")),
        ] {
            assert_eq!(field[name], value, "{name}");
        }
        let log = site.get("acme", &format!("{item}/timeline")).await.json();
        let of_fields: Vec<_> = log["items"].as_array().unwrap().iter().filter(|entry| entry["field"] == "vendor")
            .map(|entry| (entry["action"].as_str().unwrap(), entry["old"].clone(), entry["new"].clone())).collect();
        assert!(of_fields.contains(&("field.corrected", json!("Acne Corp"), json!("Acme Corp"))), "{of_fields:?}");
        assert!(of_fields.iter().any(|(action, ..)| *action == "field.kept_locked"), "{of_fields:?}");
        let unlock = format!("{item}/fields/vendor/unlock");
        for _ in 0..2 {
            assert_eq!(site.call("lead", "POST", &unlock).send().await.status, 204);
        }
        site.call("lead", "POST", &unlock.replace("vendor", "total")).send().await.problem(404, "not_found");
        assert_eq!(site.get("acme", &item).await.json()["fields"][0]["locked"], false);
        let path = queue(id(&entry));
        let seen = site.get("reviewer", &path).await.json();
        assert_eq!((&seen["status"], &seen["decidedBy"]), (&json!("corrected"), &json!("reviewer")));
        assert_eq!((&seen["fields"][0]["value"], &seen["fields"][0]["machineValue"]), (&json!("Acme Corp"), &json!("Acne Corp")));
    }
}
