//! The words between workers and Docket, over HTTP.

use std::time::Duration;

use docket_testkit::on_both;
use serde_json::{Value, json};

use crate::site::Site;

fn jobs(path: &str) -> String {
    format!("/internal/v1/jobs/{path}")
}

fn held(job: &Value) -> Value {
    json!({ "jobId": job["jobId"], "leaseToken": job["leaseToken"] })
}

on_both! {
    async fn a_job_is_claimed_worked_on_and_completed(world: &World) {
        let site = Site::new(world).await;
        site.put("admin", "/api/v1/pipelines/work", json!({ "steps": ["ocr", "extract"] })).await;
        let id = site.submit_one("acme", "INV-1").await;
        let job = site.claim_one().await;
        for (name, value) in [
            ("itemId", json!(id)), ("tenantId", json!("acme")), ("collectionId", json!("acme")), ("attempt", json!(1)),
            ("externalId", json!("INV-1")), ("payload", json!({ "for": "INV-1" })), ("leaseToken", json!(1)),
            ("leaseExpiresAt", json!("2026-09-21T14:23:20.000Z")),
            ("steps", json!([{ "name": "ocr", "status": "pending" }, { "name": "extract", "status": "pending" }])),
        ] {
            assert_eq!(job[name], value, "{name}");
        }
        let mut beat = held(&job);
        beat["leaseSeconds"] = json!(1200);
        let beaten = site.post("worker", &jobs("heartbeat"), json!({ "jobs": [beat] })).await.json();
        assert_eq!(beaten["results"][0], json!({ "ok": true, "leaseExpiresAt": "2026-09-21T14:33:20.000Z" }));
        let step = jobs(&format!("{}/steps/ocr", job["jobId"].as_str().unwrap()));
        let kept = site.post("worker", &step, json!({ "leaseToken": 1, "output": { "text": "…" } })).await;
        assert_eq!(kept.status, 204, "{}", kept.text());
        site.post("worker", &step.replace("ocr", "none"), json!({ "leaseToken": 1, "output": 1 })).await
            .problem(422, "validation_failed");
        site.post("worker", &step, json!({ "leaseToken": 2, "output": 1 })).await.problem(409, "lease_lost");
        let mut done = held(&job);
        done["result"] = json!({ "total": 5 });
        done["fields"] = json!([{ "name": "total", "value": 5, "confidence": 99 }]);
        let body = json!({ "jobs": [done] });
        let first = site.post("service", &jobs("complete"), body.clone()).await.json();
        assert_eq!(first["results"][0], json!({ "ok": true, "itemId": id, "repeated": false }));
        let again = site.post("worker", &jobs("complete"), body).await.json();
        assert_eq!(again["results"][0]["repeated"], true);
        let item = site.get("acme", &format!("/api/v1/items/{id}")).await.json();
        assert_eq!((&item["status"], &item["result"]["total"], &item["fields"][0]["value"]),
            (&json!("completed"), &json!(5), &json!(5)));
        assert_eq!(item["job"]["steps"][0]["status"], "completed");
    }

    async fn a_batch_is_answered_in_its_order_whatever_it_holds(world: &World) {
        let site = Site::new(world).await;
        site.submit_one("acme", "a").await;
        site.submit_one("acme", "b").await;
        let claim = json!({ "pipeline": "work", "workerId": "w1", "limit": 10 });
        let claimed = site.post("worker", &jobs("claim"), claim).await.json()["jobs"].clone();
        let nobody = json!({ "jobId": "f47ac10b-58cc-4372-a567-0e02b2c3d479", "leaseToken": 1 });
        let mut old = held(&claimed[1]);
        old["leaseToken"] = json!(0);
        let body = json!({ "jobs": [nobody, held(&claimed[0]), old] });
        let results = site.post("worker", &jobs("complete"), body).await.json()["results"].clone();
        assert_eq!(results[0]["error"]["code"], "not_found");
        assert_eq!(results[1]["ok"], true);
        assert_eq!(results[2]["error"]["code"], "lease_lost");
        let body = json!({ "jobs": [held(&claimed[1])] });
        let released = site.post("worker", &jobs("release"), body.clone()).await.json();
        assert_eq!(released, json!({ "results": [{ "ok": true }] }));
        let lost = site.post("worker", &jobs("release"), body).await.json();
        assert_eq!(lost["results"][0]["error"]["code"], "lease_lost");
        for call in ["heartbeat", "complete", "fail", "release"] {
            site.post("worker", &jobs(call), json!({ "jobs": [] })).await.wrong_at("jobs");
        }
        site.post("worker", &jobs("release"), json!({ "jobs": [{ "jobId": "7", "leaseToken": 1 }] })).await
            .wrong_at("jobs[0].jobId");
    }

    async fn a_failed_attempt_waits_and_a_stale_one_is_reaped(world: &World) {
        let site = Site::new(world).await;
        site.submit_one("acme", "a").await;
        let job = site.claim_one().await;
        let mut failed = held(&job);
        failed["error"] = json!("no text");
        let answer = site.post("worker", &jobs("fail"), json!({ "jobs": [failed] })).await.json();
        assert_eq!(answer["results"][0]["status"], "pending");
        assert!(answer["results"][0]["runAt"].is_string());
        world.pass_ms(10_000);
        let reaped = site.post("service", &jobs("reap"), json!({})).await.json();
        assert_eq!(reaped, json!({ "failed": 0, "requeued": 0, "resumed": 1 }));
        assert_eq!(site.claim_one().await["attempt"], 2);
        world.pass_ms(5_000);
        let reaped = site.post("admin", &jobs("reap"), json!({ "olderThanSeconds": 4 })).await.json();
        assert_eq!((&reaped["requeued"], &reaped["failed"]), (&json!(1), &json!(0)));
        site.post("admin", &jobs("reap"), json!({ "olderThanSeconds": -1 })).await.wrong_at("olderThanSeconds");
    }

    async fn a_claim_waits_for_work_and_ends_when_the_server_stops(world: &World) {
        let site = Site::new(world).await;
        site.post("worker", &jobs("claim"), json!({ "pipeline": "none", "workerId": "w" })).await.problem(404, "not_found");
        let claim = || async {
            let body = json!({ "pipeline": "work", "workerId": "w1", "waitSeconds": 30 });
            site.post("worker", &jobs("claim"), body).await.json()["jobs"].clone()
        };
        let (claimed, _) = tokio::join!(claim(), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            site.submit_one("acme", "a").await
        });
        assert_eq!(claimed[0]["externalId"], "a");
        let (claimed, ()) = tokio::join!(claim(), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            site.state.begin_shutdown();
        });
        assert_eq!(claimed, json!([]));
    }
}
