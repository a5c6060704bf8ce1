//! Items in, and what becomes of them.

use docket_testkit::on_both;
use serde_json::{Value, json};

use crate::site::Site;

const ITEMS: &str = "/api/v1/collections/acme/items";

async fn fail(site: &Site, job: &Value) {
    let failed = json!({ "jobId": job["jobId"], "leaseToken": job["leaseToken"], "error": "no text", "retryable": false });
    let answer = site
        .post("worker", "/internal/v1/jobs/fail", json!({ "jobs": [failed] }))
        .await
        .json();
    assert_eq!(answer["results"][0], json!({ "ok": true, "status": "failed" }));
}

on_both! {
    async fn a_batch_is_answered_entry_by_entry(world: &World) {
        let site = Site::new(world).await;
        let body = json!({ "items": [
            { "externalId": "a", "payload": { "n": 1 }, "metadata": { "from": "mail" } },
            { "externalId": "", "payload": 2 },
            { "externalId": "a", "payload": { "n": 1 } },
            { "externalId": "a", "payload": { "n": 2 } },
            { "externalId": "a", "payload": { "n": 3 }, "onConflict": "new_version" },
            { "payload": "x", "confidence": 101 },
        ] });
        let results = site.post("acme", ITEMS, body).await.json()["results"].clone();
        assert_eq!((&results[0]["ok"], &results[0]["duplicate"]), (&json!(true), &json!(false)));
        assert!(results[0]["item"]["jobId"].is_string());
        assert_eq!(results[1]["error"]["path"], "items[1].externalId");
        assert_eq!((&results[2]["duplicate"], &results[2]["item"]["id"]), (&json!(true), &results[0]["item"]["id"]));
        assert_eq!(results[3]["error"]["code"], "external_id_conflict");
        assert_eq!(results[4]["versioned"], true);
        assert_eq!((&results[5]["ok"], &results[5]["error"]["code"]), (&json!(false), &json!("validation_failed")));
        for (items, path) in [(json!([]), "items"), (json!(vec![json!({ "payload": 1 }); 1_001]), "items")] {
            site.post("acme", ITEMS, json!({ "items": items })).await.wrong_at(path);
        }
        site.post("acme", "/api/v1/collections/none/items", json!({ "items": [{ "payload": 1 }] })).await
            .problem(404, "not_found");
    }

    async fn the_same_idempotency_key_answers_the_same_and_creates_nothing(world: &World) {
        let site = Site::new(world).await;
        let submit = |payload: u32| site.call("acme", "POST", ITEMS).header("idempotency-key", "monday")
            .json(json!({ "items": [{ "externalId": "a", "payload": payload }] }));
        let (first, again) = (submit(1).send().await, submit(1).send().await);
        assert_eq!(first.json(), again.json());
        assert_eq!((first.header("idempotency-replayed"), again.header("idempotency-replayed")), (None, Some("true")));
        let other = submit(2).send().await;
        assert_eq!(other.json()["results"][0]["item"]["id"], first.json()["results"][0]["item"]["id"]);
        assert_eq!(other.header("idempotency-request-differs"), Some("true"));
        assert_eq!(world.number("select count(*) from item").await, 1);
    }

    async fn an_item_is_seen_with_all_that_belongs_to_it(world: &World) {
        let site = Site::new(world).await;
        let body = json!({ "items": [
            { "externalId": "a", "payload": { "n": 1 }, "metadata": { "from": "mail" },
              "fields": [{ "name": "total", "value": 12.5, "confidence": 80,
                           "region": { "page": 1, "x": 0.1, "y": 0.2, "width": 0.3, "height": 0.1 } }] },
            { "externalId": "b", "payload": 2 },
        ] });
        let results = site.post("acme", ITEMS, body).await.json()["results"].clone();
        let id = results[0]["item"]["id"].as_str().unwrap();
        let item = site.get("reviewer", &format!("/api/v1/items/{id}")).await.json();
        for (name, value) in [
            ("tenantId", json!("acme")), ("collectionId", json!("acme")), ("externalId", json!("a")),
            ("kind", json!("json")), ("filename", json!(null)), ("status", json!("queued")), ("version", json!(1)),
            ("payload", json!({ "n": 1 })), ("metadata", json!({ "from": "mail" })), ("result", json!(null)),
            ("position", json!({ "ahead": 0, "message": "Processing... (next in line)" })),
            ("createdAt", json!("2026-09-21T14:13:20.000Z")),
        ] {
            assert_eq!(item[name], value, "{name}");
        }
        assert_eq!((&item["fields"][0]["value"], &item["fields"][0]["locked"]), (&json!(12.5), &json!(false)));
        assert_eq!((&item["job"]["pipeline"], &item["job"]["status"]), (&json!("work"), &json!("pending")));
        let second = results[1]["item"]["id"].as_str().unwrap();
        let place = site.get("acme", &format!("/api/v1/items/{second}/position")).await.json();
        assert_eq!(place["message"], "Processing... (1 document ahead)");
        let why = site.get("acme", &format!("/api/v1/items/{second}/explain")).await.json();
        assert!(why["reasons"].as_array().unwrap().len() >= 2, "{why}");
        site.get("acme", &format!("/api/v1/items/{id}/content")).await.problem(404, "not_found");
    }

    async fn items_are_listed_by_filter_and_page(world: &World) {
        let site = Site::new(world).await;
        for n in 0..5 {
            site.submit_one("acme", &format!("d-{n}")).await;
        }
        let job = site.claim_one().await;
        let mut seen = Vec::new();
        let mut path = "/api/v1/items?collectionId=acme&limit=2".to_owned();
        loop {
            let page = site.get("lead", &path).await.json();
            seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["externalId"].as_str().unwrap().to_owned()));
            let Some(next) = page["nextCursor"].as_str() else { break };
            path = format!("/api/v1/items?collectionId=acme&limit=2&cursor={next}");
        }
        seen.sort();
        assert_eq!(seen, ["d-0", "d-1", "d-2", "d-3", "d-4"]);
        let one = site.get("acme", "/api/v1/items?collectionId=acme&status=processing").await.json();
        assert_eq!((one["items"].as_array().unwrap().len(), &one["items"][0]["id"]), (1, &job["itemId"]));
        let one = site.get("acme", "/api/v1/items?collectionId=acme&externalId=d-3").await.json();
        assert_eq!(one["items"][0]["externalId"], "d-3");
        for none in ["externalId=d-9", "externalId=d-3&status=failed"] {
            let page = site.get("acme", &format!("/api/v1/items?collectionId=acme&{none}")).await.json();
            assert_eq!(page, json!({ "items": [], "nextCursor": null }));
        }
        site.get("acme", "/api/v1/items?collectionId=none&externalId=d-3").await.problem(404, "not_found");
    }

    async fn only_what_failed_is_retried_and_only_what_lives_is_cancelled(world: &World) {
        let site = Site::new(world).await;
        let id = site.submit_one("acme", "a").await;
        let call = |what: &str| site.call("acme", "POST", &format!("/api/v1/items/{id}/{what}"));
        call("retry").send().await.problem(409, "not_failed");
        call("reprocess").send().await.problem(409, "conflict");
        let job = site.claim_one().await;
        fail(&site, &job).await;
        let item = site.get("acme", &format!("/api/v1/items/{id}")).await.json();
        assert_eq!((&item["status"], &item["error"]), (&json!("failed"), &json!("no text")));
        site.get("acme", &format!("/api/v1/items/{id}/position")).await.problem(409, "conflict");
        call("cancel").send().await.problem(409, "conflict");
        let again = call("retry").header("idempotency-key", "k").send().await;
        assert_eq!(again.status, 201, "{}", again.text());
        let repeated = call("retry").header("idempotency-key", "k").send().await;
        assert_eq!((repeated.json(), repeated.header("idempotency-replayed")), (again.json(), Some("true")));
        let jobs = site.get("acme", &format!("/api/v1/items/{id}/jobs")).await.json();
        assert_eq!((&jobs["items"][0]["id"], &jobs["items"][0]["retryOf"]), (&again.json()["jobId"], &job["jobId"]));
        let cancelled = call("cancel").send().await.json();
        assert_eq!(cancelled["status"], "cancelled");
        assert_eq!(call("reprocess").send().await.status, 201);
        let story = site.get("acme", &format!("/api/v1/items/{id}/timeline?limit=2")).await.json();
        assert_eq!((&story["items"][0]["action"], &story["items"][1]["action"]), (&json!("item.submitted"), &json!("job.claimed")));
        let next = story["nextCursor"].as_str().unwrap();
        let rest = site.get("acme", &format!("/api/v1/items/{id}/timeline?cursor={next}")).await.json();
        let actions: Vec<_> = rest["items"].as_array().unwrap().iter().map(|e| e["action"].as_str().unwrap().to_owned()).collect();
        assert_eq!(actions, ["job.failed", "job.retried", "job.cancelled", "item.cancelled", "item.reprocessed"]);
        assert_eq!(rest["nextCursor"], json!(null));
    }

    async fn the_log_is_paged_newest_first_and_filtered(world: &World) {
        let site = Site::new(world).await;
        let id = site.submit_one("acme", "a").await;
        site.submit_one("zeta", "z").await;
        let own = site.get("acme", "/api/v1/audit").await.json();
        assert!(own["items"].as_array().unwrap().iter().all(|entry| entry["tenantId"] == "acme"), "{own}");
        assert_eq!((&own["items"][0]["action"], &own["items"][0]["itemId"]), (&json!("item.submitted"), &json!(id)));
        let all = site.get("admin", "/api/v1/audit?action=item.submitted").await.json();
        assert_eq!(all["items"].as_array().unwrap().len(), 2);
        let one = site.get("admin", "/api/v1/audit?tenantId=zeta&action=item.submitted&limit=1").await.json();
        assert_eq!(one["items"][0]["tenantId"], "zeta");
        for none in ["actor=nobody", "since=2100-01-01T00:00:00Z", "until=2000-01-01T00:00:00Z"] {
            assert_eq!(site.get("acme", &format!("/api/v1/audit?{none}")).await.json()["items"], json!([]), "{none}");
        }
        let mut count = 0;
        let mut path = "/api/v1/audit?limit=1&action=item.submitted".to_owned();
        loop {
            let page = site.get("admin", &path).await.json();
            count += page["items"].as_array().unwrap().len();
            let Some(next) = page["nextCursor"].as_str() else { break };
            path = format!("/api/v1/audit?limit=1&action=item.submitted&cursor={next}");
        }
        assert_eq!(count, 2);
    }

    async fn the_log_is_exported_with_its_seals_or_as_a_table(world: &World) {
        let site = Site::new(world).await;
        site.submit_one("acme", "a").await;
        site.submit_one("zeta", "z").await;
        let mut export = site.get("acme", "/api/v1/audit/export").await;
        // Transactions of other tests on the same cluster hold the newest entries back for a moment.
        for _ in 0..500 {
            if export.text().contains("item.submitted") && site.get("admin", "/api/v1/audit/export").await.text().contains("producer:zeta") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            export = site.get("acme", "/api/v1/audit/export").await;
        }
        assert_eq!((export.status.as_u16(), export.header("content-type")), (200, Some("application/x-ndjson")));
        let text = export.text();
        assert!(text.lines().count() > 2 && text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
        assert!(text.contains("producer:acme") && !text.contains("producer:zeta"), "{text}");
        assert!(site.get("admin", "/api/v1/audit/export?format=jsonl").await.text().contains("producer:zeta"));
        assert!(!site.get("admin", "/api/v1/audit/export?tenantId=acme").await.text().contains("producer:zeta"));
        let table = site.get("acme", "/api/v1/audit/export?format=csv").await.text();
        assert!(table.starts_with("id,at,tenantId,") && table.contains(",item.submitted,producer:acme,"), "{table}");
        assert!(!table.contains("zeta"), "{table}");
        site.get("acme", "/api/v1/audit/export?format=xml").await.wrong_at("format");
        site.get("acme", "/api/v1/audit/export?tenantId=zeta").await.problem(404, "not_found");
        site.get("admin", "/api/v1/audit/export?tenantId=none").await.problem(404, "not_found");
    }

    async fn limits_say_what_is_left_and_how_long_to_wait(world: &World) {
        let site = Site::new(world).await;
        let limits = site.get("acme", "/api/v1/limits").await.json();
        assert_eq!(limits, json!({ "allowed": true, "limit": "unlimited", "remaining": "unlimited", "windowSeconds": 3600 }));
        site.put("admin", "/api/v1/tenants/acme", json!({ "tier": "free", "uploadsPerHour": 1 })).await;
        site.submit_one("acme", "a").await;
        world.pass_ms(1_500);
        let limits = site.get("acme", "/api/v1/limits").await.json();
        assert_eq!(limits, json!({ "allowed": false, "limit": 1, "remaining": 0, "windowSeconds": 3600, "waitTimeSeconds": 3599 }));
        let body = json!({ "items": [{ "externalId": "b", "payload": 1 }] });
        let refused = site.post("acme", ITEMS, body).await.json();
        let error = &refused["results"][0]["error"];
        assert_eq!((&error["code"], &error["waitTimeSeconds"]), (&json!("rate_limited"), &json!(3599)));
        assert_eq!(error["detail"], "Upload limit reached. Please try again later.");
    }

    async fn items_are_listed_by_any_of_the_filters(world: &World) {
        let site = Site::new(world).await;
        site.put("admin", "/api/v1/collections/second", json!({ "tenantId": "acme" })).await;
        site.submit_one("zeta", "x").await;
        let first = site.submit_one("acme", "x").await;
        let body = json!({ "items": [{ "externalId": "x", "payload": 1 }, { "externalId": "y", "payload": 2 }] });
        let made = site.post("acme", "/api/v1/collections/second/items", body).await.json();
        let id = |n: usize| made["results"][n]["item"]["id"].as_str().unwrap().to_owned();
        let list = async |who: &str, query: &str| {
            let answer = site.get(who, &format!("/api/v1/items{query}")).await;
            assert_eq!(answer.status, 200, "{query}: {}", answer.text());
            let items = answer.json()["items"].as_array().unwrap().clone();
            let mut ids: Vec<_> = items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
            assert!(ids.is_sorted_by(|a, b| a > b), "{query}");
            ids.sort();
            ids
        };
        let sorted = |mut ids: Vec<String>| {
            ids.sort();
            ids
        };
        let all = sorted(vec![first.clone(), id(0), id(1)]);
        for (who, query) in [("acme", ""), ("acme", "?tenantId=acme"), ("admin", "?tenantId=acme"), ("service", "?tenantId=acme")] {
            assert_eq!(list(who, query).await, all, "{who} {query}");
        }
        assert_eq!(list("acme", "?status=queued").await, std::slice::from_ref(&first));
        assert_eq!(list("acme", "?status=completed&collectionId=second&externalId=x").await, [id(0)]);
        assert_eq!(list("acme", "?externalId=x").await, sorted(vec![first.clone(), id(0)]));
        assert_eq!(list("acme", "?externalId=x&status=queued").await, std::slice::from_ref(&first));
        assert_eq!(list("admin", "?collectionId=acme").await, [first]);
        assert!(list("acme", "?externalId=none").await.is_empty());
        site.get("admin", "/api/v1/items").await.wrong_at("tenantId");
        for (who, query) in [
            ("admin", "tenantId=none"), ("admin", "tenantId=zeta&collectionId=acme"), ("acme", "tenantId=zeta"), ("acme", "collectionId=zeta"),
        ] {
            site.get(who, &format!("/api/v1/items?{query}")).await.problem(404, "not_found");
        }
    }
}
