//! Notifications over HTTP: made once, looked at, and looked after.

use crate::site::Site;
use docket_testkit::on_both;
use docket_testkit::outbox::{FILE, HOOK, MAIL};
use docket_testkit::scripted::Play;
use serde_json::{Value, json};

fn body(key: &str, version: i64) -> Value {
    json!({
        "idempotencyKey": key, "changelistId": "CL-1", "reviewVersion": version, "recipients": [HOOK], "subject": "Reviewed",
        "body": "It is good.\n",
    })
}

const PATH: &str = "/api/v1/notifications";

on_both! {
    async fn a_notification_is_made_once_and_followed_to_its_end(world: &World) {
        let site = Site::new(world).await;
        let made = site.post("service", PATH, body("k1", 1)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let made = made.json();
        assert_eq!((&made["status"], &made["duplicate"], &made["noop"]), (&json!("pending"), &json!(false), &json!(false)));
        let again = site.post("service", PATH, body("k1", 1)).await;
        assert_eq!(again.status, 200);
        let again = again.json();
        assert_eq!((&again["id"], &again["duplicate"], &again["requestDiffers"]), (&made["id"], &json!(true), &json!(false)));
        assert_eq!(site.post("service", PATH, body("k1", 2)).await.json()["requestDiffers"], true);
        site.post("service", PATH, body("k2", 1)).await.problem(409, "review_version_not_higher");
        world.dispatch().await;
        let noop = site.post("service", PATH, body("k3", 1)).await;
        assert_eq!((noop.status.as_u16(), &noop.json()["noop"]), (200, &json!(true)));
        let path = format!("{PATH}/{}", made["id"].as_str().unwrap());
        assert_eq!(site.get("admin", &path).await.json()["status"], "succeeded");
        let told = site.get("admin", &format!("{path}/deliveries")).await.json()["items"][0].clone();
        assert_eq!((&told["recipient"], &told["status"]), (&json!(HOOK), &json!("sent")));
        assert!(told["notificationId"].as_str().unwrap().starts_with("receipt-of-dlv_"));
        assert!(told["notifiedAt"].is_string() && told["nextAttemptAt"].is_null());
        assert_eq!(told["attempts"][0]["words"], "250 taken", "the provider's own words");
        world.pass_ms(1);
        assert_eq!(site.post("service", PATH, body("k4", 2)).await.status, 201);
        assert_eq!(site.get("admin", &format!("{PATH}?changelistId=CL-1&limit=1")).await.json()["items"][0]["reviewVersion"], 2);
    }

    async fn a_lead_sees_and_makes_the_tenants_own_notifications_only(world: &World) {
        let site = Site::new(world).await;
        let own = site.post("lead", PATH, body("k1", 1)).await.json();
        assert_eq!(own["tenantId"], "acme");
        let others = site.post("service", PATH, body("k1", 1)).await.json();
        assert!(others["tenantId"].is_null());
        let path = format!("{PATH}/{}", others["id"].as_str().unwrap());
        site.get("lead", &path).await.problem(404, "not_found");
        site.get("lead", &format!("{path}/deliveries")).await.problem(404, "not_found");
        assert_eq!(site.get("lead", PATH).await.json()["items"].as_array().unwrap().len(), 1);
        assert_eq!(site.get("lead", "/api/v1/deliveries").await.json()["items"].as_array().unwrap().len(), 1);
        assert_eq!(site.get("admin", PATH).await.json()["items"].as_array().unwrap().len(), 2);
        let mut foreign = body("k2", 2);
        foreign["tenantId"] = json!("zeta");
        site.post("lead", PATH, foreign.clone()).await.problem(404, "not_found");
        assert_eq!(site.post("service", PATH, foreign).await.json()["tenantId"], "zeta");
    }

    async fn operators_look_after_what_is_stuck(world: &World) {
        let site = Site::new(world).await;
        world.providers.email.plays([Play::AcceptInSilence]);
        let mut mail = body("k1", 1);
        mail["recipients"] = json!([MAIL]);
        mail["optionalRecipients"] = json!([FILE]);
        site.post("service", PATH, mail).await;
        world.dispatch().await;
        world.dispatch_after(60_000).await;
        let held = site.get("admin", "/api/v1/deliveries?status=held").await.json()["items"][0].clone();
        assert_eq!(held["recipient"], MAIL);
        let path = format!("/api/v1/deliveries/{}", held["id"].as_str().unwrap());
        assert_eq!(site.get("admin", &path).await.json(), held);
        site.post("admin", &format!("{path}/reconcile"), json!({})).await.problem(409, "conflict");
        site.post("admin", &format!("{path}/resend"), json!({})).await.wrong_at("nonce");
        let resent = site.post("admin", &format!("{path}/resend"), json!({ "nonce": "by-hand" })).await.json();
        assert_eq!(resent["status"], "pending");
        assert_ne!(resent["token"], held["token"]);
        world.dispatch().await;
        assert_eq!(site.get("admin", &path).await.json()["status"], "sent");
        site.post("admin", &format!("{path}/cancel"), json!({})).await.problem(409, "conflict");
        assert_eq!(site.get("admin", "/api/v1/deliveries?channel=file").await.json()["items"].as_array().unwrap().len(), 1);
        site.get("admin", "/api/v1/deliveries?status=lost").await.wrong_at("status");
        site.get("admin", "/api/v1/deliveries?channel=pigeon").await.wrong_at("channel");
        let pause = json!({ "scope": "channel", "id": "email", "reason": "maintenance" });
        assert_eq!(site.post("admin", "/api/v1/pauses", pause).await.json()["channel"], "email");
        let pause = json!({ "scope": "channel", "id": "pigeon", "reason": "none" });
        site.post("admin", "/api/v1/pauses", pause).await.wrong_at("id");
    }

    async fn what_is_wrong_with_a_notification_is_told_where_it_is(world: &World) {
        let site = Site::new(world).await;
        let many: Vec<String> = (0..10_000).map(|n| format!("email:a{n}@example.com")).collect();
        for (property, value, at) in [
            ("recipients", json!([]), "recipients"),
            ("recipients", json!(many), "recipients"),
            ("recipients", json!(["pigeon:x"]), "recipients[0]"),
            ("recipients", json!([HOOK, HOOK]), "recipients[1]"),
            ("optionalRecipients", json!(["email:nobody"]), "optionalRecipients[0]"),
            ("reviewVersion", json!(-1), "reviewVersion"),
            ("reviewVersion", json!("1"), "reviewVersion"),
            ("idempotencyKey", json!(""), "idempotencyKey"),
            ("changelistId", json!("a\nb"), "changelistId"),
            ("subject", json!(""), "subject"),
            ("body", json!("\u{0}"), "body"),
            ("receivers", json!([]), "receivers"),
        ] {
            let mut wrong = body("k1", 1);
            wrong[property] = value;
            site.post("service", PATH, wrong).await.wrong_at(at);
        }
        let mut large = body("k1", 1);
        large["body"] = json!("x".repeat(300_000));
        site.post("service", PATH, large).await.problem(413, "payload_too_large");
        site.get("service", &format!("{PATH}/not-an-id")).await.wrong_at("notificationId");
        site.get("service", &format!("{PATH}?changelistId=a%0Ab")).await.wrong_at("changelistId");
        assert_eq!(site.get("service", PATH).await.json()["items"], json!([]));
    }
}
