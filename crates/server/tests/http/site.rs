//! A server in this process, with a key for each role, and requests that are short to write.

use std::collections::HashMap;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use docket_access::{Access, AccessConfig};
use docket_core::access::Role;
use docket_engine::NewKey;
use docket_server::{AppState, ServerConfig, router};
use docket_testkit::{World, names};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

/// A server over a world that has tenants `acme` and `zeta`, each with a collection of its name and pipeline `work`.
pub(crate) struct Site {
    pub(crate) router: Router,
    pub(crate) state: AppState,
    keys: HashMap<&'static str, String>,
}

/// Who has a key: what they are called here, their role, their tenant.
pub(crate) const CALLERS: [(&str, Role, Option<&str>); 9] = [
    ("admin", Role::Admin, None),
    ("service", Role::Service, None),
    ("worker", Role::Worker, None),
    ("acme", Role::Producer, Some("acme")),
    ("zeta", Role::Producer, Some("zeta")),
    ("reviewer", Role::Reviewer, Some("acme")),
    ("bob", Role::Reviewer, Some("acme")),
    ("zed", Role::Reviewer, Some("zeta")),
    ("lead", Role::Lead, Some("acme")),
];

impl Site {
    pub(crate) async fn new(world: &World) -> Self {
        Self::with(world, ServerConfig::default()).await
    }

    pub(crate) async fn with(world: &World, config: ServerConfig) -> Self {
        world.lanes(5, &["acme", "zeta"]).await;
        let mut keys = HashMap::new();
        for (name, role, tenant) in CALLERS {
            let new = NewKey {
                role,
                tenant: tenant.map(names::tenant),
                subject: name.to_owned(),
            };
            let made = world.engine.key_create(&World::operator(), new).await.unwrap();
            keys.insert(name, made.key.reveal().to_owned());
        }
        let access = Access::new(world.engine.clone(), AccessConfig::default()).unwrap();
        let state = AppState::new(world.engine.clone(), access, config);
        Self {
            router: router(state.clone()),
            state,
            keys,
        }
    }

    pub(crate) fn key(&self, who: &str) -> &str {
        &self.keys[who]
    }

    /// A request by one of the callers; by nobody where it is `""`.
    pub(crate) fn call(&self, who: &str, method: &str, path: &str) -> Call<'_> {
        let mut request = Request::builder().method(method).uri(path);
        if !who.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.key(who)));
        }
        Call {
            site: self,
            request,
            body: Body::empty(),
        }
    }

    pub(crate) async fn get(&self, who: &str, path: &str) -> Answer {
        self.call(who, "GET", path).send().await
    }

    pub(crate) async fn post(&self, who: &str, path: &str, body: Value) -> Answer {
        self.call(who, "POST", path).json(body).send().await
    }

    pub(crate) async fn put(&self, who: &str, path: &str, body: Value) -> Answer {
        self.call(who, "PUT", path).json(body).send().await
    }

    /// Uploads a file to `acme`.
    pub(crate) fn upload(&self, bytes: &'static [u8]) -> Call<'_> {
        self.call("acme", "POST", "/api/v1/collections/acme/documents")
            .header("content-type", "application/pdf")
            .header("x-filename", "scan.pdf")
            .body(bytes)
    }

    /// Submits one item to the collection and by the producer of this name; its id.
    pub(crate) async fn submit_one(&self, who: &str, external_id: &str) -> String {
        let item = serde_json::json!({ "externalId": external_id, "payload": { "for": external_id } });
        let body = serde_json::json!({ "items": [item] });
        let answer = self
            .post(who, &format!("/api/v1/collections/{who}/items"), body)
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["results"][0]["item"]["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Makes collection `desk` of `acme`, whose items arrive finished and are reviewed by this policy.
    pub(crate) async fn desk(&self, mut policy: Value) {
        policy["enabled"] = Value::Bool(true);
        let body = serde_json::json!({ "tenantId": "acme", "review": policy });
        let answer = self.put("admin", "/api/v1/collections/desk", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Puts items on the desk, one for each of these ids, with a field `total`.
    pub(crate) async fn put_on_desk(&self, external_ids: &[&str]) {
        let item = |id: &&str| {
            let field = serde_json::json!({ "name": "total", "value": 5, "confidence": 60 });
            serde_json::json!({ "externalId": id, "payload": { "for": id }, "fields": [field] })
        };
        let items: Vec<Value> = external_ids.iter().map(item).collect();
        let body = serde_json::json!({ "items": items });
        let answer = self.post("acme", "/api/v1/collections/desk/items", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["results"][0]["ok"], true, "{}", answer.text());
    }

    /// Pops up to so many reviews of the desk.
    pub(crate) async fn pop(&self, who: &str, limit: u32) -> Vec<Value> {
        let body = serde_json::json!({ "collectionId": "desk", "limit": limit });
        let answer = self.post(who, "/api/v1/review-queue/pop", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["items"].as_array().unwrap().clone()
    }

    /// Commits decisions; the results.
    pub(crate) async fn commit(&self, who: &str, decisions: Value) -> Vec<Value> {
        let body = serde_json::json!({ "decisions": decisions });
        let answer = self.post(who, "/api/v1/review-queue/commit", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["results"].as_array().unwrap().clone()
    }

    /// Claims one job of pipeline `work`.
    pub(crate) async fn claim_one(&self) -> Value {
        let body = serde_json::json!({ "pipeline": "work", "workerId": "w1" });
        let answer = self.post("worker", "/internal/v1/jobs/claim", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["jobs"][0].clone()
    }
}

/// A request that is being put together.
pub(crate) struct Call<'a> {
    site: &'a Site,
    request: axum::http::request::Builder,
    body: Body,
}

impl Call<'_> {
    #[must_use]
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    #[must_use]
    pub(crate) fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "so that json!(…) can stand at the call"
    )]
    pub(crate) fn json(self, body: Value) -> Self {
        self.header("content-type", "application/json")
            .body(body.to_string())
    }

    pub(crate) async fn send(self) -> Answer {
        let request = self.request.body(self.body).unwrap();
        let response = self.site.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The answer is this problem, whole and well formed; its detail.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem: docket_wire::Problem = serde_json::from_value(self.json()).unwrap();
        assert_eq!(
            (problem.code.as_str(), problem.status),
            (code, status),
            "{problem}"
        );
        assert_eq!(problem.request_id.as_deref(), self.header("x-request-id"));
        if matches!(status, 429 | 503) {
            assert!(self.header("retry-after").is_some(), "{problem}");
        }
        problem.detail
    }

    /// The same, and where the request is wrong.
    #[track_caller]
    pub(crate) fn wrong_at(&self, path: &str) -> String {
        let detail = self.problem(422, "validation_failed");
        assert_eq!(self.json()["path"], path, "{detail}");
        detail
    }
}
