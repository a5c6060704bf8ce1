//! Whether reviewers are there and how much they may hold: said by those who lead them, and by themselves.

use crate::site::Site;
use docket_testkit::{World, on_both};
use serde_json::{Value, json};

/// Reviewers of `acme`, of `zeta` and of every tenant.
async fn with_reviewers(world: &World) -> Site {
    let site = Site::new(world).await;
    for (id, tenant) in [("reviewer", Some("acme")), ("bob", None), ("zed", Some("zeta"))] {
        let body = json!({ "name": id, "tenantId": tenant, "capacity": 2 });
        let path = format!("/api/v1/reviewers/{id}");
        assert_eq!(site.put("admin", &path, body).await.status, 200);
    }
    site
}

async fn stored(site: &Site, id: &str) -> Value {
    site.get("admin", &format!("/api/v1/reviewers/{id}")).await.json()
}

on_both! {
    async fn a_lead_says_whether_a_reviewer_is_there_and_how_much_they_may_hold(world: &World) {
        let site = with_reviewers(world).await;
        let path = "/api/v1/reviewers/reviewer";
        let away = site.put("lead", &format!("{path}/availability"), json!({ "available": false })).await;
        let mut shown = json!({ "id": "reviewer", "name": "reviewer", "tenantId": "acme", "available": false, "capacity": 2 });
        assert_eq!((away.status.as_u16(), away.json()), (200, shown.clone()));
        let more = site.put("lead", &format!("{path}/capacity"), json!({ "capacity": 7 })).await;
        shown["capacity"] = json!(7);
        assert_eq!((more.status.as_u16(), more.json()), (200, shown.clone()));
        let any = site.put("admin", &format!("{path}/capacity"), json!({ "capacity": null })).await;
        shown["capacity"] = json!(null);
        assert_eq!((any.status.as_u16(), any.json()), (200, shown.clone()));
        assert_eq!(stored(&site, "reviewer").await, shown);
        let again = site.put("lead", &format!("{path}/availability"), json!({ "available": false })).await;
        assert_eq!(again.json(), shown, "said again, nothing changes");
        let log = site.get("lead", "/api/v1/audit?action=reviewer.put").await.json();
        let told = |actor: &str, old: (bool, Value), new: (bool, Value)| {
            let is = |side: &Value, (available, capacity): &(bool, Value)| side["available"] == *available && side["capacity"] == *capacity;
            let told = log["items"].as_array().unwrap().iter().filter(|entry| entry["actor"] == actor);
            told.filter(|entry| is(&entry["old"], &old) && is(&entry["new"], &new)).count()
        };
        assert_eq!(told("lead:lead", (true, json!(2)), (false, json!(2))), 1, "{log}");
        assert_eq!(told("lead:lead", (false, json!(2)), (false, json!(7))), 1, "{log}");
        assert_eq!(told("admin:admin", (false, json!(7)), (false, json!(null))), 1, "{log}");
        assert_eq!(log["items"].as_array().unwrap().len(), 4, "with how an admin described them: {log}");
        for (call, body, at) in [
            ("availability", json!({}), "available"), ("availability", json!({ "available": "no" }), "available"),
            ("availability", json!({ "available": true, "capacity": 1 }), "capacity"), ("capacity", json!({}), "capacity"),
            ("capacity", json!({ "capacity": 0 }), "capacity"), ("capacity", json!({ "capacity": 10_001 }), "capacity"),
            ("capacity", json!({ "capacity": 1, "tenantId": "zeta" }), "tenantId"),
        ] {
            site.put("lead", &format!("{path}/{call}"), body).await.wrong_at(at);
        }
        assert_eq!(stored(&site, "reviewer").await, shown);
    }

    async fn of_anothers_reviewers_a_lead_says_nothing(world: &World) {
        let site = with_reviewers(world).await;
        let before = (stored(&site, "zed").await, stored(&site, "bob").await);
        for (call, body) in [("availability", json!({ "available": false })), ("capacity", json!({ "capacity": 1 }))] {
            let unknown = site.put("lead", &format!("/api/v1/reviewers/nobody/{call}"), body.clone()).await;
            let anothers = site.put("lead", &format!("/api/v1/reviewers/zed/{call}"), body.clone()).await;
            assert_eq!(unknown.problem(404, "not_found").replace("nobody", "zed"), anothers.problem(404, "not_found"));
            let everybodys = site.put("lead", &format!("/api/v1/reviewers/bob/{call}"), body).await;
            assert!(everybodys.problem(409, "conflict").contains("every tenant"));
        }
        assert_eq!((stored(&site, "zed").await, stored(&site, "bob").await), before);
        site.get("admin", "/api/v1/reviewers/nobody").await.problem(404, "not_found");
    }

    async fn reviewers_say_of_themselves_whether_they_are_there_and_nothing_else(world: &World) {
        let site = with_reviewers(world).await;
        let away = json!({ "available": false });
        for who in ["reviewer", "bob", "zed"] {
            let said = site.put(who, &format!("/api/v1/reviewers/{who}/availability"), away.clone()).await;
            assert_eq!((said.status.as_u16(), &said.json()["available"]), (200, &json!(false)), "{who}");
            site.put(who, &format!("/api/v1/reviewers/{who}/capacity"), json!({ "capacity": 9 })).await.problem(403, "forbidden");
            assert_eq!(stored(&site, who).await["capacity"], 2);
        }
        let back = json!({ "available": true });
        for other in ["bob", "zed", "nobody"] {
            let path = format!("/api/v1/reviewers/{other}/availability");
            assert!(site.put("reviewer", &path, back.clone()).await.problem(403, "forbidden").contains("lead"));
        }
        assert_eq!(stored(&site, "bob").await["available"], false);
        // A person of another tenant who has the same name is somebody else.
        site.put("admin", "/api/v1/reviewers/zed", json!({ "name": "Z", "tenantId": "acme" })).await;
        site.put("zed", "/api/v1/reviewers/zed/availability", away).await.problem(404, "not_found");
        assert_eq!(stored(&site, "zed").await["available"], true);
    }
}
