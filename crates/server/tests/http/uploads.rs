//! Files over HTTP: taken, known, refused, cut off, and given back so that they never run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use base64::Engine as _;
use docket_core::content::Digest;
use docket_testkit::{FILE_MAX, on_both};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use crate::site::Site;

fn digest(bytes: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(Digest::of(bytes).bytes());
    format!("sha-256=:{text}:")
}

/// A body that sends this, and then breaks.
fn cut(bytes: &'static [u8]) -> Body {
    let broken = std::io::Error::other("the line is dead");
    let pieces = vec![Ok(bytes::Bytes::from_static(bytes)), Err(broken)];
    Body::from_stream(futures_util::stream::iter(pieces))
}

/// A body that must not be asked for anything.
fn untouched() -> Body {
    Body::from_stream(futures_util::stream::poll_fn(
        |_| -> std::task::Poll<Option<Result<bytes::Bytes, std::io::Error>>> {
            panic!("the body was asked for")
        },
    ))
}

on_both! {
    async fn a_file_is_taken_and_the_same_bytes_are_a_duplicate(world: &World) {
        let site = Site::new(world).await;
        let first = site.upload(b"%PDF-1").send().await;
        assert_eq!(first.status, 201, "{}", first.text());
        let item = first.json();
        for (name, value) in [
            ("kind", json!("file")), ("filename", json!("scan.pdf")), ("mediaType", json!("application/pdf")),
            ("size", json!(6)), ("duplicate", json!(false)), ("status", json!("queued")), ("payload", json!(null)),
            ("contentHash", json!(Digest::of(b"%PDF-1").to_string())),
        ] {
            assert_eq!(item[name], value, "{name}");
        }
        assert_eq!(first.header("location"), Some(format!("/api/v1/items/{}", item["id"].as_str().unwrap()).as_str()));
        let again = site.upload(b"%PDF-1").send().await;
        assert_eq!((again.status.as_u16(), &again.json()["duplicate"], &again.json()["id"]), (200, &json!(true), &item["id"]));
        let announced = site.upload(b"").header("repr-digest", &digest(b"%PDF-1")).body(untouched()).send().await;
        assert_eq!((announced.status.as_u16(), &announced.json()["id"]), (200, &item["id"]));
        assert_eq!(announced.header("connection"), Some("close"));
        assert_eq!(world.number("select count(*) from item").await, 1);
    }

    async fn the_same_idempotency_key_brings_the_first_item_and_asks_for_no_byte(world: &World) {
        let site = Site::new(world).await;
        let first = site.upload(b"one").header("idempotency-key", "k").send().await;
        assert_eq!(first.status, 201, "{}", first.text());
        let again = site.upload(b"").header("idempotency-key", "k").body(untouched()).send().await;
        assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (201, Some("true")), "{}", again.text());
        assert_eq!((&again.json()["id"], &again.json()["duplicate"]), (&first.json()["id"], &json!(false)));
        assert_eq!(world.number("select count(*) from item").await, 1);
    }

    async fn names_come_from_either_header(world: &World) {
        let site = Site::new(world).await;
        let path = "/api/v1/collections/acme/documents";
        for (n, (header, value, name)) in [
            ("x-filename", "caf%C3%A9%20menu.pdf", json!("café menu.pdf")),
            ("content-disposition", "attachment; filename*=UTF-8''%E2%82%AC.pdf", json!("€.pdf")),
            ("content-disposition", "attachment; filename=\"../x y.pdf\"", json!("x y.pdf")),
            ("x-unknown", "1", json!(null)),
        ].into_iter().enumerate() {
            let answer = site.call("acme", "POST", path).header(header, value).body(format!("file {n}")).send().await;
            assert_eq!((answer.status.as_u16(), &answer.json()["filename"]), (201, &name), "{}", answer.text());
            assert_eq!(answer.json()["mediaType"], "application/octet-stream");
        }
        site.call("acme", "POST", path).header("x-filename", "%FF").body("x").send().await.wrong_at("X-Filename");
        site.call("acme", "POST", path).header("x-filename", "").body("x").send().await.wrong_at("filename");
    }

    async fn a_digest_that_cannot_be_read_is_refused_before_a_byte_is_asked_for(world: &World) {
        let site = Site::new(world).await;
        let short = "sha-256=:aGk=:";
        for said in [
            "sha-256=x", "sha-256", "sha-256=?1", "sha-256=\"x\"", short, "sha-256=:*:", "sha-256=:aGk=", "SHA-256=:aGk=:", "sha-256=",
            "sha-512=x y", "=", "sha-512=:eA==:,", "sha-512=:eA==:, sha-256=1", &format!("{}, {short}", digest(b"abc")),
        ] {
            let refused = site.upload(b"").header("repr-digest", said).body(untouched()).send().await;
            refused.wrong_at("Repr-Digest");
            assert_eq!(refused.header("connection"), Some("close"), "{said}");
        }
        let twice = site.upload(b"").header("repr-digest", &digest(b"abc")).header("repr-digest", short);
        twice.body(untouched()).send().await.wrong_at("Repr-Digest");
        assert_eq!(world.number("select count(*) from upload").await, 0, "nothing was begun");
        // Other algorithms are passed over, whatever they say; the last word on one's own counts.
        for (bytes, said) in [
            (b"1", "sha-512=:eA==:".to_owned()), (b"2", "sha-512=7;q=1, unixsum".to_owned()), (b"3", String::new()),
            (b"4", format!("md5=:eA==:, {}", digest(b"4"))), (b"5", format!("{short}, {};x", digest(b"5"))),
        ] {
            let taken = site.upload(bytes).header("repr-digest", &said).send().await;
            assert_eq!(taken.status, 201, "{said}: {}", taken.text());
        }
        let lines = site.upload(b"6").header("repr-digest", "md5=:eA==:").header("repr-digest", &digest(b"6")).send().await;
        assert_eq!(lines.status, 201, "one dictionary in two lines: {}", lines.text());
        site.upload(b"7").header("repr-digest", &format!("md5=1, {}", digest(b"8"))).send().await.wrong_at("Repr-Digest");
    }

    async fn what_cannot_be_taken_leaves_nothing(world: &World) {
        let site = Site::new(world).await;
        site.upload(b"").send().await.wrong_at("file");
        site.upload(b"abc").header("repr-digest", &digest(b"abd")).send().await.wrong_at("Repr-Digest");
        site.upload(b"").body(cut(b"half a file")).send().await.wrong_at("body");
        let large = vec![7_u8; usize::try_from(FILE_MAX).unwrap() + 1];
        let answer = site.upload(b"").body(large).send().await;
        answer.problem(413, "payload_too_large");
        assert_eq!(answer.header("connection"), Some("close"));
        let announced = site.upload(b"").header("content-length", &(FILE_MAX + 1).to_string()).body(untouched());
        announced.send().await.problem(413, "payload_too_large");
        site.call("acme", "POST", "/api/v1/collections/none/documents").body(untouched()).send().await.problem(404, "not_found");
        assert_eq!(world.number("select count(*) from item").await, 0);
        world.engine.sweep_run_once().await.unwrap();
        assert_eq!((world.number("select count(*) from upload").await, world.files()), (0, 0));
    }

    async fn fifty_at_once_on_a_free_tenant_are_ten(world: &World) {
        let site = Site::new(world).await;
        site.put("admin", "/api/v1/tenants/acme", json!({ "tier": "free" })).await;
        let path = "/api/v1/collections/acme/documents";
        let uploads = (0..50).map(|n| site.call("acme", "POST", path).body(format!("file {n}")).send());
        let answers = join_all(uploads).await;
        let taken = answers.iter().filter(|answer| answer.status == 201).count();
        assert_eq!(taken, 10);
        for refused in answers.iter().filter(|answer| answer.status != 201) {
            assert_eq!(refused.problem(429, "rate_limited"), "Upload limit reached. Please try again later.");
            let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=3_600).contains(&wait), "{wait}");
            assert_eq!(refused.json()["waitTimeSeconds"], wait);
        }
        let refused = site.upload(b"").body(untouched()).send().await;
        assert_eq!(refused.header("retry-after"), Some("3600"), "{}", refused.text());
        assert_eq!(refused.header("connection"), Some("close"));
    }

    async fn a_browsers_form_works_too(world: &World) {
        let site = Site::new(world).await;
        let part = |name: &str, content: &str| format!(
            "--B\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"f.txt\"\r\nContent-Type: text/plain\r\n\r\n{content}\r\n");
        let send = |body: String| site.call("acme", "POST", "/api/v1/collections/acme/documents")
            .header("content-type", "multipart/form-data; boundary=B").body(body).send();
        let taken = send(format!("{}--B--\r\n", part("file", "hello"))).await;
        assert_eq!(taken.status, 201, "{}", taken.text());
        assert_eq!((&taken.json()["filename"], &taken.json()["mediaType"], &taken.json()["size"]),
            (&json!("f.txt"), &json!("text/plain"), &json!(5)));
        assert_eq!(send(format!("{}--B--\r\n", part("file", "hello"))).await.json()["duplicate"], true);
        for body in [
            format!("{}--B--\r\n", part("other", "x")),
            format!("{}{}--B--\r\n", part("file", "y"), part("file", "z")),
            "--B--\r\n".to_owned(),
            part("file", "never ends"),
            "no form at all".to_owned(),
            String::new(),
        ] {
            send(body).await.wrong_at("body");
        }
        assert_eq!(world.number("select count(*) from item").await, 1);
        site.put("admin", "/api/v1/tenants/acme", json!({ "tier": "free", "uploadsPerHour": 0 })).await;
        site.call("acme", "POST", "/api/v1/collections/acme/documents")
            .header("content-type", "multipart/form-data; boundary=B").body(untouched()).send().await.problem(429, "rate_limited");
        site.call("acme", "POST", "/api/v1/collections/acme/documents").header("idempotency-key", "new")
            .header("content-type", "multipart/form-data; boundary=B").body(untouched()).send().await.problem(429, "rate_limited");
    }

    async fn no_more_of_a_form_is_gathered_than_a_head_needs(world: &World) {
        let site = Site::new(world).await;
        let head = "--B\r\nContent-Disposition: form-data; name=\"file\"\r\n";
        for beginning in [String::new(), format!("{head}X-Long: "), format!("{head}\r\nhello\r\n--B\r\nX-Long: ")] {
            let read = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&read);
            let pieces = std::iter::once(bytes::Bytes::from(beginning)).chain(std::iter::repeat_n("x".repeat(16 << 10).into(), 1_000));
            let pieces = stream::iter(pieces).map(move |piece| {
                counted.fetch_add(piece.len(), Ordering::SeqCst);
                Ok::<_, std::io::Error>(piece)
            });
            site.call("acme", "POST", "/api/v1/collections/acme/documents")
                .header("content-type", "multipart/form-data; boundary=B").body(Body::from_stream(pieces)).send().await.wrong_at("body");
            assert!(read.load(Ordering::SeqCst) < 256 << 10, "{read:?} bytes were read");
        }
        assert_eq!(world.number("select count(*) from item").await, 0);
    }

    async fn content_comes_back_whole_or_in_part_and_never_runs(world: &World) {
        let site = Site::new(world).await;
        let page = site.call("acme", "POST", "/api/v1/collections/acme/documents")
            .header("content-type", "text/html").header("x-filename", "p%22.html").body("<script>alert(1)</script>").send().await;
        let path = format!("/api/v1/items/{}/content", page.json()["id"].as_str().unwrap());
        let content = site.get("worker", &path).await;
        assert_eq!((content.status.as_u16(), content.text().as_str()), (200, "<script>alert(1)</script>"));
        assert!(content.header("content-security-policy").unwrap().contains("sandbox"));
        assert!(content.header("content-disposition").unwrap().starts_with("attachment; filename=\"p_.html\""));
        assert_eq!((content.header("x-content-type-options"), content.header("content-type")), (Some("nosniff"), Some("text/html")));
        let tag = content.header("etag").unwrap().to_owned();
        let get = |name: &str, value: &str| site.call("acme", "GET", &path).header(name, value);
        assert_eq!(get("if-none-match", &tag).send().await.status, 304);
        let part = get("range", "bytes=1-6").send().await;
        assert_eq!((part.status.as_u16(), part.text().as_str(), part.header("content-range")), (206, "script", Some("bytes 1-6/25")));
        assert_eq!(get("range", "bytes=-9").send().await.text(), "</script>");
        let outside = get("range", "bytes=25-").send().await;
        outside.problem(416, "validation_failed");
        assert_eq!(outside.header("content-range"), Some("bytes */25"));
        assert_eq!(get("range", "bytes=0-1,3-4").send().await.status, 200);
        let shown = site.upload(b"%PDF-1").send().await.json();
        let shown = site.get("reviewer", &format!("/api/v1/items/{}/content", shown["id"].as_str().unwrap())).await;
        assert!(shown.header("content-disposition").unwrap().starts_with("inline"));
    }

    async fn a_form_at_the_limit_is_answered_by_its_key_or_its_digest(world: &World) {
        let site = Site::new(world).await;
        let form = || site.call("acme", "POST", "/api/v1/collections/acme/documents")
            .header("content-type", "multipart/form-data; boundary=B")
            .body("--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\n\r\nhello\r\n--B--\r\n");
        let first = form().header("idempotency-key", "k").send().await;
        assert_eq!(first.status, 201, "{}", first.text());
        site.put("admin", "/api/v1/tenants/acme", json!({ "tier": "free", "uploadsPerHour": 1 })).await;
        site.submit_one("acme", "the last place").await;
        let again = form().header("idempotency-key", "k").send().await;
        assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (201, Some("true")), "{}", again.text());
        let known = form().header("repr-digest", &digest(b"hello")).send().await;
        assert_eq!((known.status.as_u16(), &known.json()["id"]), (200, &first.json()["id"]), "{}", known.text());
        form().header("idempotency-key", "new").send().await.problem(429, "rate_limited");
        form().header("repr-digest", &digest(b"new")).send().await.problem(429, "rate_limited");
        form().body(untouched()).send().await.problem(429, "rate_limited");
    }

    async fn the_key_of_a_duplicate_is_kept(world: &World) {
        let site = Site::new(world).await;
        let first = site.upload(b"known").send().await;
        let keyed = || site.upload(b"").header("idempotency-key", "k").body(untouched());
        let known = keyed().header("repr-digest", &digest(b"known")).send().await;
        assert_eq!((known.status.as_u16(), known.header("idempotency-replayed")), (200, None), "{}", known.text());
        let again = keyed().send().await;
        assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (200, Some("true")), "{}", again.text());
        assert_eq!((&again.json()["id"], again.header("idempotency-request-differs")), (&first.json()["id"], None));
        let other = keyed().header("repr-digest", &digest(b"other")).send().await;
        assert_eq!((other.status.as_u16(), other.header("idempotency-request-differs")), (200, Some("true")));
    }

    async fn of_two_uploads_with_one_key_the_later_is_told_that_it_is(world: &World) {
        let site = Site::new(world).await;
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let body = Body::from_stream(futures_util::stream::once(async {
            gone.await.unwrap();
            Ok::<_, std::io::Error>(bytes::Bytes::from_static(b"the slower one"))
        }));
        let (slow, fast) = tokio::join!(site.upload(b"").header("idempotency-key", "k").body(body).send(), async {
            while world.number("select count(*) from upload").await == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            let fast = site.upload(b"the faster one").header("idempotency-key", "k").send().await;
            go.send(()).unwrap();
            fast
        });
        assert_eq!((fast.status.as_u16(), fast.header("idempotency-replayed")), (201, None), "{}", fast.text());
        assert_eq!((slow.status.as_u16(), &slow.json()["id"]), (201, &fast.json()["id"]), "{}", slow.text());
        assert_eq!(slow.header("idempotency-replayed"), Some("true"));
        assert_eq!(slow.header("idempotency-request-differs"), Some("true"), "its bytes were others");
    }

    async fn a_type_that_is_too_long_is_told_by_its_header(world: &World) {
        let site = Site::new(world).await;
        let path = "/api/v1/collections/acme/documents";
        let long = format!("text/{}", "x".repeat(200));
        site.call("acme", "POST", path).header("content-type", &long).body(untouched()).send().await.wrong_at("Content-Type");
        let part = format!("--B\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Type: {long}\r\n\r\nx\r\n--B--\r\n");
        let form = site.call("acme", "POST", path).header("content-type", "multipart/form-data; boundary=B");
        form.body(part).send().await.wrong_at("Content-Type");
    }

    async fn a_file_store_that_is_away_is_an_opaque_503(world: &World) {
        let site = Site::new(world).await;
        let item = site.upload(b"before").send().await.json();
        let content = format!("/api/v1/items/{}/content", item["id"].as_str().unwrap());
        let folder = world.database.blob_folder();
        let aside = folder.with_extension("aside");
        std::fs::rename(&folder, &aside).unwrap();
        std::fs::write(&folder, "no folder").unwrap();
        // One that goes in one piece, and one of several.
        for size in [10, 3 << 20] {
            let refused = site.upload(b"").body(vec![7; size]).send().await;
            let detail = refused.problem(503, "unavailable");
            assert_eq!(detail, "the file store cannot be reached at the moment");
        }
        site.get("acme", &content).await.problem(503, "unavailable");
        assert_eq!(world.number("select count(*) from item").await, 1);
        std::fs::remove_file(&folder).unwrap();
        std::fs::rename(&aside, &folder).unwrap();
        assert_eq!(site.get("acme", &content).await.text(), "before");
        assert_eq!(site.upload(b"").body(vec![7; 3 << 20]).send().await.status, 201);
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        site.get("acme", &content).await.problem(500, "internal");
    }
}
