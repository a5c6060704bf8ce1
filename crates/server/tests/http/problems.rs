//! Requests that cannot be read, in every way: each is a problem that says where.

use std::time::Duration;

use crate::site::Site;
use docket_server::ServerConfig;
use docket_testkit::on_both;
use serde_json::json;

const CLAIM: &str = "/internal/v1/jobs/claim";

on_both! {
    async fn bodies_that_cannot_be_read_say_where(world: &World) {
        let site = Site::new(world).await;
        let post = |body: &'static str| site.call("worker", "POST", CLAIM).header("content-type", "application/json").body(body);
        for (body, path) in [
            (r#"{"pipeline":"work","workerId":"w","limits":1}"#, "limits"),
            (r#"{"pipeline":"work","workerId":7}"#, "workerId"),
            (r#"{"pipeline":"work","workerId":"w","limit":-1}"#, "limit"),
            (r#"{"pipeline":"work","workerId":"w","limit":1.5}"#, "limit"),
            (r#"{"pipeline":"work","workerId":"w","limit":0}"#, "limit"),
            (r#"{"pipeline":"work","workerId":"w","waitSeconds":61}"#, "waitSeconds"),
            (r#"{"pipeline":"work","workerId":"w","leaseSeconds":1e300}"#, "leaseSeconds"),
            (r#"{"pipeline":"work","workerId":"two words"}"#, "workerId"),
            (r#"{"pipeline":"work"}"#, "workerId"),
            (r#"{"pipeline":"work","pipeline":"work","workerId":"w"}"#, "pipeline"),
            ("{", "body"),
            ("", "body"),
            ("[]", "body"),
            (r#"["work", "w"]"#, "body"),
            ("null", "body"),
            (r#"{"pipeline":"work","workerId":"w"} more"#, "body"),
            ("\u{feff}{}", "body"),
        ] {
            let detail = post(body).send().await.wrong_at(path);
            if body == "{" {
                assert!(detail.contains("line 1 column 1"), "{detail}");
            }
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep = site.call("worker", "POST", CLAIM).header("content-type", "application/json").body(deep).send().await;
        deep.wrong_at("body");
        let nested = json!({ "items": [{ "payload": 1 }, { "payload": 1, "fields": [{ "name": "a", "value": 1, "sure": 2 }] }] });
        let answer = site.post("acme", "/api/v1/collections/acme/items", nested).await;
        assert!(answer.wrong_at("items[1].fields[0].sure").contains("unknown field"));
    }

    async fn a_body_of_another_type_is_refused(world: &World) {
        let site = Site::new(world).await;
        let body = r#"{"pipeline":"work","workerId":"w"}"#;
        for kind in ["text/plain", "application/x-www-form-urlencoded", "json", ""] {
            let answer = site.call("worker", "POST", CLAIM).header("content-type", kind).body(body).send().await;
            answer.problem(415, "unsupported_media_type");
        }
        site.call("worker", "POST", CLAIM).body(body).send().await.problem(415, "unsupported_media_type");
        for kind in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.docket+json"] {
            let answer = site.call("worker", "POST", CLAIM).header("content-type", kind).body(body).send().await;
            assert_eq!(answer.status, 200, "{kind}: {}", answer.text());
        }
    }

    async fn parameters_and_headers_that_cannot_be_read_say_which(world: &World) {
        let site = Site::new(world).await;
        for (path, wrong) in [
            ("/api/v1/tenants?limit=0", "limit"),
            ("/api/v1/tenants?limit=201", "limit"),
            ("/api/v1/tenants?limit=x", "limit"),
            ("/api/v1/tenants?limit=", "limit"),
            ("/api/v1/tenants?limit=1&limit=2", "limit"),
            ("/api/v1/tenants?cursor=%00", "cursor"),
            ("/api/v1/tenants?cursor=***", "cursor"),
            ("/api/v1/tenants?offset=1", "offset"),
            ("/api/v1/keys?cursor=YWJj", "cursor"),
            ("/api/v1/items?collectionId=acme&status=done", "status"),
            ("/api/v1/items?collectionId=two%20words", "collectionId"),
            ("/api/v1/items/not-a-uuid", "itemId"),
            ("/api/v1/items/%ff", "path"),
            ("/api/v1/tenants/%00", "tenantId"),
            ("/api/v1/audit?since=yesterday", "since"),
            ("/api/v1/audit?itemId=7", "itemId"),
        ] {
            let detail = site.get("admin", path).await.wrong_at(wrong);
            assert!(!detail.is_empty(), "{path}");
        }
        site.get("admin", "/api/v1/items/f47ac10b-58cc-4372-a567-0e02b2c3d479").await.problem(404, "not_found");
        site.get("admin", "/api/v1/items").await.problem(422, "validation_failed");
        let twice = site.call("admin", "GET", "/api/v1/tenants").header("authorization", "Bearer again");
        twice.send().await.wrong_at("authorization");
        let body = json!({ "scope": "all", "reason": "x" });
        let twice = site.call("admin", "POST", "/api/v1/pauses").header("idempotency-key", "a").header("idempotency-key", "b");
        twice.json(body).send().await.wrong_at("idempotency-key");
    }

    async fn what_is_not_there_and_what_is_not_allowed_are_problems_too(world: &World) {
        let site = Site::new(world).await;
        for path in ["/", "/api/v1", "/api/v1/nothing", "/api/v2/items", "/internal/v1/jobs/unknown/way"] {
            site.get("admin", path).await.problem(404, "not_found");
        }
        let answer = site.call("admin", "PATCH", "/api/v1/keys").send().await;
        answer.problem(405, "method_not_allowed");
        let allow = answer.header("allow").unwrap_or_default();
        assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
        assert_eq!(site.call("", "HEAD", "/healthz").send().await.status, 200);
        assert_eq!(site.call("", "OPTIONS", "/api/v1/keys").send().await.status, 405);
    }

    async fn bodies_have_a_largest_size_and_a_time_to_arrive(world: &World) {
        let config = ServerConfig {
            json_max: 1_000,
            batch_max: 2_000,
            body_timeout: Duration::from_millis(100),
            ..ServerConfig::default()
        };
        let site = Site::with(world, config).await;
        let body = |len: usize| json!({ "pipeline": "work", "workerId": "w".repeat(len) });
        let answer = site.post("worker", CLAIM, body(1_000)).await;
        answer.problem(413, "payload_too_large");
        assert_eq!(answer.header("connection"), Some("close"));
        let item = json!({ "items": [{ "payload": "x".repeat(1_500) }] });
        assert_eq!(site.post("acme", "/api/v1/collections/acme/items", item).await.status, 200);
        let item = json!({ "items": [{ "payload": "x".repeat(2_000) }] });
        site.post("acme", "/api/v1/collections/acme/items", item).await.problem(413, "payload_too_large");
        let never = futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        let slow = site.call("worker", "POST", CLAIM).header("content-type", "application/json");
        slow.body(axum::body::Body::from_stream(never)).send().await.problem(408, "request_timeout");
    }

    async fn every_answer_carries_an_id_and_is_only_data(world: &World) {
        let site = Site::new(world).await;
        let given = site.call("", "GET", "/healthz").header("x-request-id", "abc-123").send().await;
        assert_eq!(given.header("x-request-id"), Some("abc-123"));
        for unfit in ["has space", "\"quoted\"", &"x".repeat(129), ""] {
            let answer = site.call("", "GET", "/api/v1/keys").header("x-request-id", unfit).send().await;
            let id = answer.header("x-request-id").unwrap_or_default();
            assert!(id.len() == 32 && id != unfit, "{id}");
            answer.problem(401, "unauthorized");
        }
        for (path, policy) in [("/healthz", "default-src 'none'"), ("/docs", "script-src 'sha256-")] {
            let answer = site.get("", path).await;
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert!(answer.header("content-security-policy").unwrap_or_default().contains(policy));
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
        let small = site.call("", "GET", "/healthz").header("accept-encoding", "gzip").send().await;
        assert_eq!(small.header("content-encoding"), None);
        let large = site.call("", "GET", "/openapi.json").header("accept-encoding", "gzip").send().await;
        assert_eq!(large.header("content-encoding"), Some("gzip"));
    }

    async fn a_lost_database_is_an_opaque_503(world: &World) {
        let site = Site::new(world).await;
        assert_eq!(site.get("", "/readyz").await.status, 200);
        assert_eq!(site.get("admin", "/api/v1/tenants").await.status, 200);
        let another = world.beside(&docket_testkit::WorldConfig::default()).await;
        let lost = Site::new(&another).await;
        assert_eq!(lost.get("admin", "/api/v1/tenants").await.status, 200);
        another.engine.close();
        let detail = lost.get("admin", "/api/v1/tenants").await.problem(503, "unavailable");
        assert!(!detail.to_lowercase().contains("sql"), "{detail}");
        lost.get("", "/readyz").await.problem(503, "unavailable");
        assert_eq!(lost.get("", "/healthz").await.status, 200);
    }
}
