//! JSON bodies: numbers that stay what they are, and the memory that bodies may take, alone and together.

use std::time::Duration;

use axum::body::Body;
use docket_server::ServerConfig;
use docket_testkit::on_both;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::site::{Answer, Site};

const ITEMS: &str = "/api/v1/collections/acme/items";
const CLAIM: &str = "/internal/v1/jobs/claim";
/// Below and above what 64 bits hold.
const LONG: [&str; 2] = ["18446744073709551616", "-9223372036854775809"];

async fn send(site: &Site, who: &str, path: &str, body: impl Into<Body>) -> Answer {
    let call = site
        .call(who, "POST", path)
        .header("content-type", "application/json");
    call.body(body).send().await
}

/// A submission of this text, in a body of some size.
fn padded(payload: &str, size: usize) -> String {
    let body = format!(r#"{{"items":[{{"payload":{payload}}}]}}"#);
    format!("{}{body}", " ".repeat(size.saturating_sub(body.len())))
}

/// A small place for bodies, and little patience.
fn tight() -> ServerConfig {
    ServerConfig {
        bodies_held_max: 256 << 10,
        room_timeout: Duration::from_millis(100),
        ..ServerConfig::default()
    }
}

on_both! {
    async fn whole_numbers_that_would_be_rounded_are_refused_wherever_they_are(world: &World) {
        let site = Site::new(world).await;
        site.desk(json!({})).await;
        site.put_on_desk(&["a"]).await;
        let review = site.pop("reviewer", 1).await.remove(0);
        let job = {
            site.submit_one("acme", "b").await;
            site.claim_one().await
        };
        let before = world.number("select count(*) from item").await;
        let (id, token) = (job["jobId"].as_str().unwrap(), &job["leaseToken"]);
        let step = format!("/internal/v1/jobs/{id}/steps/ocr");
        let queue = review["queueId"].as_str().unwrap();
        let message = r#"{"idempotencyKey":"k","changelistId":"c","recipients":["email:a@example.com"],"subject":"s","body":"b","reviewVersion":"#;
        for long in LONG {
            for (who, path, body, place) in [
                ("acme", ITEMS, format!(r#"{{"items":[{{"payload":1}},{{"payload":{{"a":[{{}},{long}]}}}}]}}"#), "items[1].payload.a[1]"),
                ("acme", ITEMS, format!(r#"{{"items":[{{"payload":1,"metadata":{{"\"":{long}}}}}]}}"#), "items[0].metadata.\""),
                ("acme", ITEMS, format!(r#"{{"items":[{{"payload":1,"fields":[{{"name":"n","value":{long}}}]}}]}}"#), "items[0].fields[0].value"),
                ("worker", "/internal/v1/jobs/complete", format!(r#"{{"jobs":[{{"jobId":"{id}","leaseToken":{token},"result":{long}}}]}}"#), "jobs[0].result"),
                ("worker", &step, format!(r#"{{"leaseToken":{token},"output":{long}}}"#), "output"),
                ("reviewer", "/api/v1/review-queue/commit",
                    format!(r#"{{"decisions":[{{"queueId":"{queue}","outcome":"corrected","corrections":[{{"field":"total","value":{long}}}]}}]}}"#),
                    "decisions[0].corrections[0].value"),
                ("service", "/api/v1/notifications", format!("{message}{long}}}"), "reviewVersion"),
                ("worker", CLAIM, long.to_owned(), "body"),
            ] {
                let detail = send(&site, who, path, body).await.wrong_at(place);
                assert!(detail.contains(long) && detail.ends_with("send it as a string"), "{detail}");
            }
        }
        assert_eq!(world.number("select count(*) from item").await, before, "nothing was taken");
    }

    async fn numbers_come_back_as_they_were_sent(world: &World) {
        let site = Site::new(world).await;
        let payload = r#"{"largest":18446744073709551615,"least":-9223372036854775808,"long":"18446744073709551616"}"#;
        let answer = send(&site, "acme", ITEMS, padded(payload, 0)).await;
        let id = answer.json()["results"][0]["item"]["id"].as_str().unwrap().to_owned();
        let shown = site.get("acme", &format!("/api/v1/items/{id}")).await.text();
        assert!(shown.contains(&format!("\"payload\":{payload}")), "{shown}");
        let floats: Vec<Value> = (0..200_u64).map(|n| json!({ "payload": f64::from_bits(0x3ff0_0000_0000_0001 + n * 0x0001_2345_6789_abcd) })).collect();
        let answer = send(&site, "acme", ITEMS, json!({ "items": floats }).to_string()).await;
        for (sent, result) in floats.iter().zip(answer.json()["results"].as_array().unwrap()) {
            assert_eq!(result["duplicate"], false, "{sent}");
            let item = site.get("acme", &format!("/api/v1/items/{}", result["item"]["id"].as_str().unwrap())).await;
            assert!(item.text().contains(&format!("\"payload\":{}", sent["payload"])), "{sent}: {}", item.text());
        }
    }

    async fn a_body_whose_values_would_take_too_much_memory_is_refused_before_they_are_made(world: &World) {
        let site = Site::new(world).await;
        let many = |n: usize| format!("[{}0]", r#"{"":0},"#.repeat(n));
        for (who, path, body) in [
            ("acme", ITEMS, padded(&many(450_000), 0)),
            ("worker", CLAIM, many(450_000)),
        ] {
            let detail = send(&site, who, path, body).await.problem(413, "payload_too_large");
            assert!(detail.contains("256 MiB") && detail.ends_with("send fewer items in a call"), "{detail}");
        }
        let answer = send(&site, "acme", ITEMS, padded(&many(100_000), 0)).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["results"][0]["ok"]), (200, &json!(true)), "{}", answer.text());
    }

    async fn bodies_that_find_no_room_are_told_to_come_back_and_small_ones_need_none(world: &World) {
        let site = Site::with(world, tight()).await;
        let (reading, is_read) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel::<()>();
        let beginning = stream::iter([Ok::<_, std::io::Error>(bytes::Bytes::from(padded("1", 100 << 10)))]);
        // There is room for one that is no small one.
        let slow = Body::from_stream(beginning.chain(stream::once(async {
            reading.send(()).unwrap();
            ended.await.unwrap();
            Ok(bytes::Bytes::new())
        })));
        let (slow, ()) = tokio::join!(send(&site, "acme", ITEMS, slow), async {
            is_read.await.unwrap();
            let refused = send(&site, "acme", ITEMS, padded("2", 100 << 10)).await;
            let detail = refused.problem(503, "unavailable");
            assert!(detail.contains("send it again"), "{detail}");
            assert_eq!(refused.header("connection"), Some("close"));
            assert_eq!(send(&site, "acme", ITEMS, padded("3", 60 << 10)).await.status, 200, "a small one needs no room");
            end.send(()).unwrap();
        });
        assert_eq!(slow.status, 200, "{}", slow.text());
        for _ in 0..5 {
            assert_eq!(send(&site, "acme", ITEMS, padded("4", 200 << 10)).await.status, 200, "room was given back");
        }
    }

    async fn who_says_that_much_is_to_come_and_sends_little_holds_little(world: &World) {
        let site = Site::with(world, tight()).await;
        let (reading, is_read) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel::<()>();
        let text = padded("1", 200 << 10);
        let (beginning, rest) = text.split_at(50 << 10);
        let (beginning, rest) = (bytes::Bytes::from(beginning.to_owned()), bytes::Bytes::from(rest.to_owned()));
        let slow = Body::from_stream(stream::iter([Ok::<_, std::io::Error>(beginning)]).chain(stream::once(async move {
            reading.send(()).unwrap();
            ended.await.unwrap();
            Ok(rest)
        })));
        let (slow, ()) = tokio::join!(send(&site, "acme", ITEMS, slow), async {
            is_read.await.unwrap();
            assert_eq!(send(&site, "acme", ITEMS, padded("2", 200 << 10)).await.status, 200);
            end.send(()).unwrap();
        });
        assert_eq!(slow.status, 200, "{}", slow.text());
    }

    async fn what_is_no_json_is_that_before_anything_else(world: &World) {
        let site = Site::new(world).await;
        for body in ["a=123456789012345678901", "{\"items\":[123456789012345678901", "[123456789012345678901,]"] {
            let detail = send(&site, "acme", ITEMS, body).await.wrong_at("body");
            assert!(!detail.contains("64 bits"), "{detail}");
        }
    }

    async fn a_body_that_says_it_is_too_large_is_refused_before_it_is_read(world: &World) {
        let site = Site::with(world, ServerConfig { batch_max: 100 << 10, ..tight() }).await;
        let answer = send(&site, "acme", ITEMS, padded("1", 101 << 10)).await;
        answer.problem(413, "payload_too_large");
    }

    async fn room_for_values_is_given_back_with_every_answer(world: &World) {
        let site = Site::with(world, ServerConfig { values_held_max: 8 << 20, ..tight() }).await;
        let payload = format!("[{}0]", r#"{"":0},"#.repeat(9_000));
        for _ in 0..4 {
            assert_eq!(send(&site, "acme", ITEMS, padded(&payload, 0)).await.status, 200);
        }
        let broken = padded(&payload, 0).replace("\"items\"", "\"item\"");
        for _ in 0..4 {
            send(&site, "acme", ITEMS, broken.clone()).await.wrong_at("item");
        }
    }

    async fn a_claim_that_waits_holds_no_room(world: &World) {
        let patient = ServerConfig { room_timeout: Duration::from_secs(5), ..tight() };
        let site = Site::with(world, patient).await;
        let claim = r#"{"pipeline":"work","workerId":"w","waitSeconds":30}"#;
        let claim = format!("{}{claim}", " ".repeat(250 << 10));
        let (claimed, ()) = tokio::join!(send(&site, "worker", CLAIM, claim), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(send(&site, "acme", ITEMS, padded("1", 250 << 10)).await.status, 200);
        });
        assert_eq!(claimed.json()["jobs"].as_array().unwrap().len(), 1, "{}", claimed.text());
    }
}
