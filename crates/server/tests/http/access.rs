//! Who may call what (rule A1): every route of the document is called without credentials and with each role.

use crate::site::{CALLERS, Site};
use docket_core::access::Role;
use docket_testkit::on_both;
use serde_json::{Value, json};

const ADMIN: &[Role] = &[Role::Admin];
const PRODUCING: &[Role] = &[Role::Producer, Role::Service, Role::Admin];
const SEEING: &[Role] = &[
    Role::Producer,
    Role::Reviewer,
    Role::Lead,
    Role::Service,
    Role::Admin,
];
const FETCHING: &[Role] = &Role::ALL;
const WORKING: &[Role] = &[Role::Worker, Role::Service];
const NOTIFYING: &[Role] = &[Role::Lead, Role::Service, Role::Admin];
const REAPING: &[Role] = &[Role::Service, Role::Admin];
const DECIDING: &[Role] = &[Role::Reviewer, Role::Lead];
const LEADING: &[Role] = &[Role::Lead, Role::Admin];
const OVERSEEING: &[Role] = &[Role::Reviewer, Role::Lead, Role::Service, Role::Admin];
const SPEAKING: &[Role] = &[Role::Service];
const STAFFING: &[Role] = &[Role::Reviewer, Role::Lead, Role::Admin];
const LEARNING: &[Role] = &[Role::Reviewer, Role::Lead, Role::Admin];

/// Who may call each operation: what a reader of the contract expects, and the code has to agree with.
const ALLOWED: &[(&[Role], &[&str])] = &[
    (
        ADMIN,
        &[
            "key_create",
            "keys",
            "key_revoke",
            "tenants",
            "tenant_put",
            "tenant",
            "collection_put",
            "pipelines",
            "pipeline_put",
            "pipeline",
            "pause",
            "pauses",
            "resume",
            "reviewers",
            "reviewer_put",
            "reviewer",
        ],
    ),
    (PRODUCING, &["submit", "upload", "retry", "reprocess", "cancel"]),
    (
        SEEING,
        &[
            "collections",
            "collection",
            "unreviewed",
            "limits",
            "items",
            "item",
            "position",
            "jobs",
            "timeline",
            "explain",
            "log",
            "audit_export",
            "follow",
        ],
    ),
    (FETCHING, &["content"]),
    (
        WORKING,
        &["claim", "heartbeat", "step", "complete", "fail", "release"],
    ),
    (REAPING, &["reap", "review_reap", "review_stats_all"]),
    (
        OVERSEEING,
        &[
            "reviews",
            "review",
            "review_explain",
            "review_stats",
            "review_workload",
        ],
    ),
    (
        DECIDING,
        &[
            "review_pop",
            "review_commit",
            "review_release",
            "review_heartbeat",
            "review_undo",
            "review_claim",
        ],
    ),
    (
        LEADING,
        &[
            "review_reassign",
            "reviewer_capacity",
            "review_hand_on",
            "field_unlock",
            "insight_corrections",
            "insight_calibration",
            "insight_sla",
            "training_data",
        ],
    ),
    (STAFFING, &["reviewer_availability"]),
    (LEARNING, &["insight_reviewers"]),
    (
        SPEAKING,
        &[
            "review_pop_for",
            "review_commit_for",
            "review_release_for",
            "review_heartbeat_for",
            "review_undo_for",
            "review_claim_for",
            "review_entries",
        ],
    ),
    (
        NOTIFYING,
        &[
            "notification_create",
            "notifications",
            "notification",
            "notification_deliveries",
            "deliveries",
            "delivery",
            "delivery_reconcile",
            "delivery_resend",
            "delivery_cancel",
        ],
    ),
];
/// Open to all.
const OPEN: &[&str] = &["healthz", "readyz"];

/// Every operation of the document: its name, its method, a path that names nothing that is there.
fn operations() -> Vec<(String, String, String)> {
    let document: Value = serde_json::from_str(&docket_server::openapi::document_text()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let mut path = path.clone();
            for id in [
                "itemId",
                "jobId",
                "keyId",
                "pauseId",
                "queueId",
                "notificationId",
                "deliveryId",
            ] {
                path = path.replace(&format!("{{{id}}}"), "01997a2c-5c00-7a3b-8c4d-5e6f708192a3");
            }
            for name in ["tenantId", "collectionId", "reviewerId", "field", "name"] {
                path = path.replace(&format!("{{{name}}}"), "nobody");
            }
            assert!(!path.contains('{'), "{path}");
            let name = operation["operationId"].as_str().unwrap().to_owned();
            found.push((name, method.to_uppercase(), path));
        }
    }
    found
}

on_both! {
    async fn every_route_knows_who_may_call_it(world: &World) {
        let site = Site::new(world).await;
        let mut seen = Vec::new();
        for (name, method, path) in operations() {
            let request = |who: &str| site.call(who, &method, &path).json(json!({}));
            if OPEN.contains(&name.as_str()) {
                assert_eq!(request("").send().await.status, 200, "{name}");
                continue;
            }
            let (allowed, _) = ALLOWED.iter().find(|(_, names)| names.contains(&name.as_str()))
                .unwrap_or_else(|| panic!("say in ALLOWED who may call {name}"));
            let nobody = request("").send().await;
            nobody.problem(401, "unauthorized");
            assert_eq!(nobody.header("www-authenticate"), Some("Bearer"), "{name}");
            // Those who guess are slowed down; here they take their time.
            world.pass_ms(600_000);
            let stranger = site.call("", &method, &path).header("authorization", "Bearer nobody-knows-this-key-0123456789");
            stranger.json(json!({})).send().await.problem(401, "unauthorized");
            for (who, role, _) in CALLERS {
                if name == "follow" && allowed.contains(&role) {
                    continue; // A stream that is let in does not end; its own test follows it.
                }
                let answer = request(who).send().await;
                if allowed.contains(&role) {
                    assert!(!matches!(answer.status.as_u16(), 401 | 403 | 500..), "{name} as {who}: {}", answer.text());
                } else {
                    let detail = answer.problem(403, "forbidden");
                    assert!(detail.contains(allowed[0].as_str()), "{name} as {who}: {detail}");
                }
            }
            seen.push(name);
        }
        let expected: usize = ALLOWED.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(seen.len(), expected, "ALLOWED names what the document does not have: {seen:?}");
    }

    async fn anothers_things_are_not_there(world: &World) {
        let site = Site::new(world).await;
        let id = site.submit_one("acme", "INV-1").await;
        for path in ["", "/position", "/jobs", "/timeline", "/explain", "/content"] {
            site.get("zeta", &format!("/api/v1/items/{id}{path}")).await.problem(404, "not_found");
        }
        for path in ["retry", "reprocess", "cancel"] {
            site.call("zeta", "POST", &format!("/api/v1/items/{id}/{path}")).send().await.problem(404, "not_found");
        }
        for path in ["items?collectionId=acme", "collections/acme", "limits?tenantId=acme", "collections?tenantId=acme",
                     "audit?tenantId=acme", "audit?collectionId=acme"] {
            site.get("zeta", &format!("/api/v1/{path}")).await.problem(404, "not_found");
        }
        let body = json!({ "items": [{ "payload": 1 }] });
        site.post("zeta", "/api/v1/collections/acme/items", body).await.problem(404, "not_found");
        site.call("zeta", "POST", "/api/v1/collections/acme/documents").body("x").send().await.problem(404, "not_found");
        site.get("zeta", &format!("/api/v1/events?itemId={id}")).await.problem(404, "not_found");
        assert_eq!(site.get("zeta", &format!("/api/v1/audit?itemId={id}")).await.json()["items"], json!([]));
        assert_eq!(site.get("acme", &format!("/api/v1/items/{id}")).await.json()["status"], "queued");
    }

    async fn those_who_act_for_the_deployment_reach_every_tenant(world: &World) {
        let site = Site::new(world).await;
        let id = site.submit_one("acme", "INV-1").await;
        for who in ["admin", "service"] {
            let item = site.get(who, &format!("/api/v1/items/{id}")).await.json();
            assert_eq!((item["id"].as_str().unwrap(), &item["tenantId"]), (id.as_str(), &json!("acme")));
            site.get(who, "/api/v1/limits").await.wrong_at("tenantId");
            assert_eq!(site.get(who, "/api/v1/limits?tenantId=acme").await.json()["allowed"], true);
        }
        let body = json!({ "items": [{ "externalId": "by-admin", "payload": 1 }] });
        let taken = site.post("admin", "/api/v1/collections/zeta/items", body).await.json();
        let theirs = taken["results"][0]["item"]["id"].as_str().unwrap().to_owned();
        assert_eq!(site.get("zeta", &format!("/api/v1/items/{theirs}")).await.status, 200);
        let log = site.get("zeta", &format!("/api/v1/items/{theirs}/timeline")).await.json();
        assert_eq!(log["items"][0]["actor"], "admin:admin");
    }
}
