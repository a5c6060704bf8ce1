//! The review queue from above, over HTTP: lists, one review, counts, who does how much; and the older list.

use docket_server::ServerConfig;
use docket_testkit::on_both;
use serde_json::{Value, json};

use crate::site::Site;

const QUEUE: &str = "/api/v1/review-queue";

fn about(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|entry| entry["generationId"].as_str().unwrap())
        .collect()
}

/// Submits items with these ids and confidences to the desk, one after the other.
async fn rank(site: &Site, items: &[(&str, u32)]) {
    for (id, confidence) in items {
        let item = json!({ "externalId": id, "payload": id, "confidence": confidence });
        let body = json!({ "items": [item] });
        let answer = site.post("acme", "/api/v1/collections/desk/items", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

on_both! {
    async fn reviews_are_listed_in_their_order_page_by_page(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        rank(&site, &[("sure", 95), ("lost", 5), ("so-so", 50)]).await;
        let list = async |query: &str| site.get("lead", &format!("{QUEUE}{query}")).await.json();
        assert_eq!(about(&list("?collectionId=desk").await), ["lost", "so-so", "sure"]);
        assert_eq!(about(&list("?sort=fifo").await), ["sure", "lost", "so-so"], "of all collections");
        let (mut seen, mut path) = (Vec::new(), "?limit=1".to_owned());
        loop {
            let page = list(&path).await;
            seen.extend(about(&page).into_iter().map(str::to_owned));
            let Some(next) = page["nextCursor"].as_str() else { break };
            path = format!("?limit=1&cursor={next}");
        }
        assert_eq!(seen, ["lost", "so-so", "sure"]);
        let held = site.pop("reviewer", 1).await;
        assert_eq!(about(&list("?assignedTo=reviewer").await), ["lost"]);
        assert_eq!(about(&list("?status=pending").await), ["so-so", "sure"]);
        assert_eq!(about(&list("?overdue=true").await), Vec::<&str>::new());
        world.pass_ms(25 * 3_600_000);
        assert_eq!(about(&list("?overdue=true&status=pending").await), ["sure", "so-so"], "the nearest deadline first");
        assert_eq!(about(&list("?band=high").await), Vec::<&str>::new());
        let decision = json!([{ "queueId": held[0]["queueId"], "outcome": "approved" }]);
        assert_eq!(site.commit("reviewer", decision).await[0]["error"]["code"], "lease_lost");
        for (query, path) in [
            ("?limit=0", "limit"), ("?limit=1000000", "limit"), ("?status=maybe", "status"), ("?band=red", "band"),
            ("?sort=random", "sort"), ("?overdue=perhaps", "overdue"), ("?cursor=x", "cursor"), ("?colour=red", "colour"),
        ] {
            site.get("lead", &format!("{QUEUE}{query}")).await.wrong_at(path);
        }
        site.get("lead", &format!("{QUEUE}?collectionId=nobody")).await.problem(404, "not_found");
    }

    async fn a_tenant_sees_its_own_queue_only(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        rank(&site, &[("ours", 50)]).await;
        let entry = site.pop("reviewer", 1).await.remove(0);
        let id = entry["queueId"].as_str().unwrap();
        assert_eq!(site.get("zed", QUEUE).await.json()["items"], json!([]));
        for path in [format!("/{id}"), format!("/{id}/explain"), "?collectionId=desk".to_owned(),
                     "/stats?collectionId=desk".to_owned(), "/reviewer-workload?collectionId=desk".to_owned()] {
            site.get("zed", &format!("{QUEUE}{path}")).await.problem(404, "not_found");
        }
        for who in ["admin", "service", "lead", "bob"] {
            let seen = site.get(who, &format!("{QUEUE}/{id}")).await.json();
            assert_eq!((&seen["assignedTo"], &seen["leaseToken"]), (&json!("reviewer"), &json!(null)), "{who}: the token is its holder's");
        }
        assert_eq!(site.get("reviewer", &format!("{QUEUE}/{id}")).await.json()["leaseToken"], 1);
        assert_eq!(site.get("reviewer", QUEUE).await.json()["items"][0]["leaseToken"], 1);
    }

    async fn a_score_is_explained_by_its_four_parts(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "slaHours": 10 })).await;
        let item = json!({ "externalId": "a", "payload": 1, "confidence": 25, "lineItemCount": 50, "totalAmount": 2500 });
        site.post("acme", "/api/v1/collections/desk/items", json!({ "items": [item] })).await;
        world.pass_ms(5 * 3_600_000);
        let listed = site.get("lead", QUEUE).await.json()["items"][0].clone();
        let path = format!("{QUEUE}/{}/explain", listed["queueId"].as_str().unwrap());
        let explained = site.get("reviewer", &path).await.json();
        assert_eq!(explained["parts"], json!({ "confidence": 30.0, "deadline": 15.0, "complexity": 10.0, "value": 2.5 }));
        assert_eq!(explained["weights"], json!({ "confidence": 40.0, "deadline": 30.0, "complexity": 20.0, "value": 10.0 }));
        assert_eq!((&explained["priority"], &explained["band"], &explained["sla"]["level"]),
            (&json!(57.5), &json!("medium"), &json!("attention")));
        assert_eq!(listed["priority"], 57.5);
        assert!(explained["reasons"].as_array().unwrap().len() > 1);
        site.get("lead", &format!("{QUEUE}/7")).await.wrong_at("queueId");
        site.get("lead", &format!("{QUEUE}/f47ac10b-58cc-4372-a567-0e02b2c3d479")).await.problem(404, "not_found");
    }

    async fn counts_and_workload_are_told(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({ "slaHours": 1 })).await;
        site.put("admin", "/api/v1/reviewers/reviewer", json!({ "name": "R. Viewer", "tenantId": "acme", "capacity": 7 })).await;
        rank(&site, &[("a", 10), ("b", 20), ("c", 30), ("d", 40)]).await;
        let held = site.pop("reviewer", 2).await;
        world.pass_ms(4_000);
        site.commit("reviewer", json!([{ "queueId": held[0]["queueId"], "outcome": "rejected", "reason": "torn" }])).await;
        world.pass_ms(3_600_000);
        let stats = site.get("lead", &format!("{QUEUE}/stats?collectionId=desk")).await.json();
        let counts = json!({ "pending": 2, "inReview": 1, "approved": 0, "corrected": 0, "rejected": 1, "failed": 0 });
        assert_eq!(stats, json!({
            "collectionId": "desk", "tenantId": "acme", "counts": counts, "depth": 3, "oldestPendingAgeSeconds": 3_604,
            "overdue": 3, "moreOverdue": false, "paused": false,
        }));
        let all = site.get("service", "/internal/v1/data/review-queue/stats").await.json();
        assert!(all["items"].as_array().unwrap().contains(&stats), "{all}");
        assert_eq!(all["items"].as_array().unwrap().len(), 3);
        let paged = site.get("service", "/internal/v1/data/review-queue/stats?limit=1").await.json();
        assert_eq!((&paged["items"][0]["collectionId"], paged["nextCursor"].is_string()), (&json!("acme"), true));
        let workload = site.get("lead", &format!("{QUEUE}/reviewer-workload?collectionId=desk")).await.json();
        assert_eq!(workload, json!({ "reviewers": [{
            "reviewerId": "reviewer", "name": "R. Viewer", "available": true, "capacity": 7, "inReview": 1, "decidedToday": 1,
            "meanSeconds": 4.0,
        }] }));
        site.get("lead", &format!("{QUEUE}/stats")).await.wrong_at("collectionId");
        site.get("lead", &format!("{QUEUE}/reviewer-workload?collectionId=nobody")).await.problem(404, "not_found");
    }

    async fn an_item_tells_of_its_review(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        rank(&site, &[("a", 50)]).await;
        let entry = site.pop("reviewer", 1).await.remove(0);
        let path = format!("/api/v1/items/{}", entry["itemId"].as_str().unwrap());
        let review = site.get("acme", &path).await.json()["review"].clone();
        for name in ["queueId", "status", "priority", "band", "sla", "assignedTo"] {
            assert_eq!(review[name], entry[name], "{name}");
        }
        assert!(review.get("leaseToken").is_none());
        site.commit("reviewer", json!([{ "queueId": entry["queueId"], "outcome": "rejected", "reason": "torn" }])).await;
        let item = site.get("acme", &path).await.json();
        assert_eq!((&item["review"]["status"], &item["review"]["reason"]), (&json!("rejected"), &json!("torn")));
        let outcome = &item["metadata"]["reviewOutcome"];
        assert_eq!((&outcome["outcome"], &outcome["reviewer"]), (&json!("rejected"), &json!("reviewer")));
    }

    async fn the_older_list_is_there_where_it_is_asked_for(world: &World) {
        let path = "/api/v1/collections/desk/pieces/unreviewed";
        let config = ServerConfig { unreviewed: true, ..ServerConfig::default() };
        let site = Site::with(world, config).await;
        site.desk(json!({})).await;
        rank(&site, &[("a", 50), ("b", 60)]).await;
        let entry = site.pop("reviewer", 1).await.remove(0);
        site.commit("reviewer", json!([{ "queueId": entry["queueId"], "outcome": "approved" }])).await;
        let listed = site.get("reviewer", path).await;
        assert_eq!(listed.header("deprecation"), Some("@1794787200"));
        assert_eq!(listed.header("sunset"), Some("Tue, 16 Nov 2027 00:00:00 GMT"));
        let listed = listed.json();
        assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["externalId"]), (1, &json!("b")));
        site.get("zed", path).await.problem(404, "not_found");
        site.get("reviewer", &format!("{path}?limit=0")).await.wrong_at("limit");
    }

    async fn the_older_list_is_not_there_otherwise(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        site.get("reviewer", "/api/v1/collections/desk/pieces/unreviewed").await.problem(404, "not_found");
    }
}
