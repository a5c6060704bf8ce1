//! The log as it happens: in order, resumable, filtered, with places for those who watch an item.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use docket_testkit::on_both;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::site::Site;

/// A stream that is being read.
struct Stream {
    body: Body,
    text: String,
}

/// One event.
#[derive(Debug)]
struct Event {
    id: Option<String>,
    name: Option<String>,
    data: Option<Value>,
}

impl Stream {
    async fn open(site: &Site, who: &str, query: &str, last: Option<&str>) -> Self {
        let mut request = Request::get(format!("/api/v1/events{query}"))
            .header("authorization", format!("Bearer {}", site.key(who)))
            .header("accept-encoding", "gzip");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = site.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(!response.headers().contains_key("content-encoding"));
        let (body, text) = (response.into_body(), String::new());
        Self { body, text }
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        while !self.text.contains("\n\n") {
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame());
            let frame = frame.await.expect("something happens")?.unwrap();
            self.text
                .push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
        let (event, rest) = self
            .text
            .split_once("\n\n")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .unwrap();
        self.text = rest;
        let line = |name: &str| {
            event
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::to_owned)
        };
        Some(Event {
            id: line("id: "),
            name: line("event: "),
            data: line("data: ").map(|data| serde_json::from_str(&data).unwrap()),
        })
    }

    /// The next event of this name.
    async fn of(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await.expect("the stream goes on");
            if event.name.as_deref() == Some(name) {
                return event;
            }
        }
    }
}

on_both! {
    async fn a_tenant_follows_its_own_log_and_resumes_where_it_was(world: &World) {
        let site = Site::new(world).await;
        let mut stream = Stream::open(&site, "acme", "", None).await;
        let begin = stream.next().await.unwrap();
        assert!(begin.id.is_some() && begin.data.is_none());
        site.submit_one("zeta", "z").await;
        let first = site.submit_one("acme", "a").await;
        let event = stream.of("item.submitted").await;
        let data = event.data.unwrap();
        assert_eq!((event.name.as_deref(), &data["itemId"], data["id"].as_str()),
            (Some("item.submitted"), &json!(first), event.id.as_deref()));
        drop(stream);
        let second = site.submit_one("acme", "b").await;
        let mut resumed = Stream::open(&site, "acme", "", event.id.as_deref()).await;
        assert_eq!(resumed.of("item.submitted").await.data.unwrap()["itemId"], json!(second));
        let mut from_begin = Stream::open(&site, "acme", "", begin.id.as_deref()).await;
        assert_eq!(from_begin.of("item.submitted").await.data.unwrap()["itemId"], json!(first));
        assert_eq!(from_begin.of("item.submitted").await.data.unwrap()["itemId"], json!(second));
        for bad in ["x", "1", "99999999999999-99999999999999"] {
            site.call("acme", "GET", "/api/v1/events").header("last-event-id", bad).send().await.wrong_at("Last-Event-ID");
        }
    }

    async fn whoever_watches_an_item_is_told_its_place(world: &World) {
        let site = Site::new(world).await;
        let first = site.submit_one("acme", "a").await;
        let id = site.submit_one("acme", "b").await;
        let mut stream = Stream::open(&site, "acme", &format!("?itemId={id}"), None).await;
        assert_eq!(stream.of("position").await.data.unwrap()["ahead"], 1);
        site.call("acme", "POST", &format!("/api/v1/items/{first}/cancel")).send().await;
        let place = stream.of("position").await.data.unwrap();
        assert_eq!(place["message"], "Processing... (next in line)");
        site.claim_one().await;
        assert_eq!(stream.of("job.claimed").await.data.unwrap()["itemId"], json!(id));
    }

    async fn a_stream_ends_when_the_server_stops(world: &World) {
        let site = Site::new(world).await;
        let mut stream = Stream::open(&site, "admin", "?collectionId=acme", None).await;
        stream.next().await.unwrap();
        site.submit_one("zeta", "z").await;
        let id = site.submit_one("acme", "a").await;
        assert_eq!(stream.of("item.submitted").await.data.unwrap()["itemId"], json!(id));
        site.state.begin_shutdown();
        assert!(stream.next().await.is_none());
    }
}
