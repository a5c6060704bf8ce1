//! What admins set up, over HTTP.

use crate::site::Site;
use docket_testkit::on_both;
use serde_json::json;

on_both! {
    async fn a_key_is_made_shown_once_listed_and_revoked(world: &World) {
        let site = Site::new(world).await;
        world.pass_ms(1_000);
        let body = json!({ "role": "producer", "tenantId": "acme", "subject": "ben" });
        let made = site.post("admin", "/api/v1/keys", body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let (id, key) = (made.json()["id"].clone(), made.json()["key"].clone());
        let key = format!("Bearer {}", key.as_str().unwrap());
        let limits = || site.call("", "GET", "/api/v1/limits").header("authorization", &key);
        assert_eq!(limits().send().await.status, 200);
        let listed = site.get("admin", "/api/v1/keys?limit=1").await.json();
        assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["subject"]), (&id, &json!("ben")));
        assert!(listed["items"][0].get("key").is_none() && listed["nextCursor"].is_string());
        let next = listed["nextCursor"].as_str().unwrap();
        let second = site.get("admin", &format!("/api/v1/keys?limit=1&cursor={next}")).await.json();
        assert_ne!(second["items"][0]["id"], id);
        let path = format!("/api/v1/keys/{}", id.as_str().unwrap());
        for _ in 0..2 {
            assert_eq!(site.call("admin", "DELETE", &path).send().await.status, 204);
        }
        limits().send().await.problem(401, "unauthorized");
    }

    async fn a_key_that_makes_no_caller_is_refused(world: &World) {
        let site = Site::new(world).await;
        for (body, path) in [
            (json!({ "role": "producer", "subject": "ben" }), "tenantId"),
            (json!({ "role": "admin", "tenantId": "acme", "subject": "ben" }), "tenantId"),
            (json!({ "role": "boss", "subject": "ben" }), "role"),
            (json!({ "role": "admin", "subject": "" }), "subject"),
            (json!({ "role": "admin", "subject": "two words" }), "subject"),
        ] {
            site.post("admin", "/api/v1/keys", body).await.wrong_at(path);
        }
        let body = json!({ "role": "producer", "tenantId": "nobody", "subject": "ben" });
        site.post("admin", "/api/v1/keys", body).await.problem(404, "not_found");
    }

    async fn a_repeated_key_makes_nothing_twice(world: &World) {
        let site = Site::new(world).await;
        let body = json!({ "role": "worker", "subject": "w" });
        let post = || site.call("admin", "POST", "/api/v1/keys").header("idempotency-key", "k1").json(body.clone());
        let first = post().send().await;
        assert_eq!(first.status, 201);
        let detail = post().send().await.problem(409, "conflict");
        assert!(detail.contains(first.json()["id"].as_str().unwrap()), "{detail}");
        assert_eq!(world.number("select count(*) from api_key where subject = 'w'").await, 1);
        let body = json!({ "scope": "all", "reason": "maintenance" });
        let pause = |body: &serde_json::Value| {
            site.call("admin", "POST", "/api/v1/pauses").header("idempotency-key", "k1").json(body.clone())
        };
        let first = pause(&body).send().await;
        let again = pause(&body).send().await;
        assert_eq!((first.status, first.json()), (again.status, again.json()));
        assert_eq!((first.header("idempotency-replayed"), again.header("idempotency-replayed")), (None, Some("true")));
        let other = pause(&json!({ "scope": "all", "reason": "another" })).send().await;
        assert_eq!((other.json(), other.header("idempotency-request-differs")), (first.json(), Some("true")));
        assert_eq!(world.number("select count(*) from pause").await, 1);
    }

    async fn tenants_take_what_is_left_out_from_their_tier(world: &World) {
        let site = Site::new(world).await;
        let made = site.put("admin", "/api/v1/tenants/newco", json!({ "tier": "pro" })).await;
        assert_eq!((made.status.as_u16(), made.json()),
            (200, json!({ "id": "newco", "tier": "pro", "uploadsPerHour": 200, "concurrentJobs": 5 })));
        let body = json!({ "tier": "free", "uploadsPerHour": "unlimited", "concurrentJobs": 7 });
        let changed = site.put("admin", "/api/v1/tenants/newco", body).await.json();
        assert_eq!(changed, json!({ "id": "newco", "tier": "free", "uploadsPerHour": "unlimited", "concurrentJobs": 7 }));
        assert_eq!(site.get("admin", "/api/v1/tenants/newco").await.json(), changed);
        site.get("admin", "/api/v1/tenants/nobody").await.problem(404, "not_found");
        for (body, path) in [
            (json!({ "tier": "gold" }), "tier"),
            (json!({ "tier": "free", "uploadsPerHour": -1 }), "uploadsPerHour"),
            (json!({ "tier": "free", "uploadsPerHour": "many" }), "uploadsPerHour"),
            (json!({ "tier": "free", "concurrentJobs": 0 }), "concurrentJobs"),
            (json!({ "tier": "free", "concurrentjobs": 1 }), "concurrentjobs"),
        ] {
            site.put("admin", "/api/v1/tenants/newco", body).await.wrong_at(path);
        }
        let mut ids = Vec::new();
        let mut path = "/api/v1/tenants?limit=2".to_owned();
        loop {
            let page = site.get("admin", &path).await.json();
            ids.extend(page["items"].as_array().unwrap().iter().map(|tenant| tenant["id"].clone()));
            let Some(next) = page["nextCursor"].as_str() else { break };
            path = format!("/api/v1/tenants?limit=2&cursor={next}");
        }
        assert_eq!(ids, ["acme", "newco", "zeta"]);
    }

    async fn pipelines_have_versions(world: &World) {
        let site = Site::new(world).await;
        let put = |body| site.put("admin", "/api/v1/pipelines/reading", body);
        let first = put(json!({ "steps": ["ocr", "extract"], "leaseSeconds": 0.5, "onStale": "fail" })).await.json();
        assert_eq!((&first["version"], &first["leaseSeconds"], &first["maxAttempts"]), (&json!(1), &json!(0.5), &json!(3)));
        assert_eq!(put(json!({ "steps": ["ocr", "extract"], "leaseSeconds": 0.5, "onStale": "fail" })).await.json(), first);
        assert_eq!(put(json!({ "steps": ["ocr"], "strict": true })).await.json()["version"], 2);
        let seen = site.get("admin", "/api/v1/pipelines/reading").await.json();
        assert_eq!((&seen["version"], &seen["steps"], &seen["strict"]), (&json!(2), &json!(["ocr"]), &json!(true)));
        assert_eq!(site.get("admin", "/api/v1/pipelines").await.json()["items"].as_array().unwrap().len(), 2);
        for (body, path) in [
            (json!({ "steps": ["a", "a"] }), "steps[1]"),
            (json!({ "steps": ["a b"] }), "steps[0]"),
            (json!({ "leaseSeconds": 0 }), "leaseSeconds"),
            (json!({ "leaseSeconds": -1 }), "leaseSeconds"),
            (json!({ "maxAttempts": 101 }), "maxAttempts"),
            (json!({ "onStale": "hope" }), "onStale"),
            (json!({ "backoff": { "baseMs": 5, "maxMs": 1 } }), "backoff"),
            (json!({ "backoff": { "baseMs": 5 } }), "backoff.maxMs"),
            (json!({ "backoff": [1, 2] }), "backoff"),
            (json!([]), "body"),
        ] {
            put(body).await.wrong_at(path);
        }
    }

    async fn collections_keep_their_policy_and_their_tenant(world: &World) {
        let site = Site::new(world).await;
        let path = "/api/v1/collections/invoices";
        let body = json!({
            "tenantId": "acme", "pipeline": "work",
            "review": { "enabled": true, "slaHours": 4, "strategy": "deadline", "leaseSeconds": 60, "assignment": "auto",
                        "roster": ["ann", "bob"], "maxRetries": 2 },
            "notify": { "recipients": ["email:a@example.com"], "on": ["rejected"] },
        });
        for (part, wrong, at) in [
            ("review", json!({ "slaHours": 0 }), "review.slaHours"),
            ("review", json!({ "slaHour": 1 }), "review.slaHour"),
            ("review", json!({ "strategy": "lifo" }), "review.strategy"),
            ("review", json!({ "leaseSeconds": 0 }), "review.leaseSeconds"),
            ("review", json!({ "assignment": "push" }), "review.assignment"),
            ("review", json!({ "roster": ["ann", "ann"] }), "review.roster[1]"),
            ("review", json!({ "weights": { "confidence": 101 } }), "review.weights.confidence"),
            ("review", json!({ "maxRetries": 1.5 }), "review.maxRetries"),
            ("notify", json!({ "recipients": ["ann"], "on": [] }), "notify.recipients[0]"),
            ("notify", json!({ "recipients": ["email:"], "on": [] }), "notify.recipients[0]"),
            ("notify", json!({ "recipients": ["file:a", "file:a"], "on": [] }), "notify.recipients[1]"),
            ("notify", json!({ "recipients": [], "on": ["rejected", "rejected"] }), "notify.on[1]"),
            ("notify", json!({ "recipients": [], "on": ["late"] }), "notify.on[0]"),
            ("notify", json!({ "recipients": [] }), "notify.on"),
        ] {
            let mut body = body.clone();
            body[part] = wrong;
            site.put("admin", path, body).await.wrong_at(at);
        }
        let made = site.put("admin", path, body.clone()).await;
        assert_eq!(made.status, 200, "{}", made.text());
        let made = made.json();
        for name in ["tenantId", "pipeline", "notify"] {
            assert_eq!(made[name], body[name]);
        }
        assert_eq!((&made["review"]["slaHours"], &made["review"]["roster"]), (&json!(4.0), &json!(["ann", "bob"])));
        assert_eq!(site.get("acme", path).await.json(), made);
        assert_eq!(site.get("acme", "/api/v1/collections").await.json()["items"].as_array().unwrap().len(), 2);
        assert_eq!(site.get("admin", "/api/v1/collections").await.json()["items"].as_array().unwrap().len(), 3);
        site.put("admin", path, json!({ "tenantId": "zeta" })).await.problem(409, "conflict");
        site.put("admin", path, json!({ "tenantId": "nobody" })).await.problem(409, "conflict");
        site.put("admin", "/api/v1/collections/x", json!({ "tenantId": "nobody" })).await.problem(404, "not_found");
        site.put("admin", path, json!({ "tenantId": "acme", "pipeline": "none" })).await.problem(404, "not_found");
        for (review, wrong) in [
            (json!({ "enabled": "yes" }), "review.enabled"),
            (json!({ "slaHours": 0 }), "review.slaHours"),
            (json!({ "strategy": "random" }), "review.strategy"),
            (json!({ "roster": ["a", ""] }), "review.roster[1]"),
            (json!({ "weights": { "confidence": 101 } }), "review.weights.confidence"),
            (json!({ "sla": 1 }), "review.sla"),
        ] {
            site.put("admin", path, json!({ "tenantId": "acme", "review": review })).await.wrong_at(wrong);
        }
    }

    async fn a_pause_holds_until_it_is_lifted(world: &World) {
        let site = Site::new(world).await;
        let id = site.submit_one("acme", "INV-1").await;
        let body = json!({ "scope": "lane", "id": "work", "tenantId": "acme", "reason": "bad scans" });
        let made = site.post("admin", "/api/v1/pauses", body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let made = made.json();
        assert_eq!((&made["scope"], &made["pipeline"], &made["tenantId"], &made["actor"]),
            (&json!("lane"), &json!("work"), &json!("acme"), &json!("admin:admin")));
        assert_eq!(site.claim_one().await, json!(null));
        let why = site.get("acme", &format!("/api/v1/items/{id}/explain")).await.json();
        assert_eq!((&why["pauses"][0]["reason"], &why["status"]), (&json!("bad scans"), &json!("queued")));
        assert_eq!(site.get("admin", "/api/v1/pauses").await.json()["items"], json!([made]));
        let path = format!("/api/v1/pauses/{}", made["id"].as_str().unwrap());
        assert_eq!(site.call("admin", "DELETE", &path).send().await.status, 204);
        site.call("admin", "DELETE", &path).send().await.problem(404, "not_found");
        assert_eq!(site.claim_one().await["itemId"], json!(id));
        for (body, wrong) in [
            (json!({ "scope": "all", "id": "work", "reason": "x" }), "id"),
            (json!({ "scope": "pipeline", "reason": "x" }), "id"),
            (json!({ "scope": "lane", "id": "work", "reason": "x" }), "tenantId"),
            (json!({ "scope": "all", "reason": "" }), "reason"),
            (json!({ "scope": "world", "reason": "x" }), "scope"),
        ] {
            site.post("admin", "/api/v1/pauses", body).await.wrong_at(wrong);
        }
        let body = json!({ "scope": "pipeline", "id": "none", "reason": "x" });
        site.post("admin", "/api/v1/pauses", body).await.problem(404, "not_found");
    }
}
