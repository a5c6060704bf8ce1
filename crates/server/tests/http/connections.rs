//! Over a real connection: what a refused upload sends, and how the server ends.

use std::time::Duration;

use docket_server::ServerConfig;
use docket_testkit::on_both;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::site::Site;

pub(crate) struct Running {
    pub(crate) address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Tells the server to stop and waits until it has.
    pub(crate) async fn end(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

pub(crate) async fn run(site: &Site) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = docket_server::serve(listener, site.state.clone(), site.router.clone(), async {
        stopped.await.ok();
    });
    let task = tokio::spawn(serve);
    Running { address, stop, task }
}

/// Reads until the other side closes.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = stream.read_to_end(&mut text);
    tokio::time::timeout(Duration::from_secs(10), read)
        .await
        .expect("the server closes")
        .ok();
    String::from_utf8_lossy(&text).into_owned()
}

fn head(site: &Site, length: usize) -> String {
    format!(
        "POST /api/v1/collections/acme/documents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Type: text/plain\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n",
        site.key("acme")
    )
}

on_both! {
    async fn a_refused_upload_is_told_so_before_it_sends_a_byte(world: &World) {
        let site = Site::new(world).await;
        let running = run(&site).await;
        let mut wanted = TcpStream::connect(running.address).await.unwrap();
        wanted.write_all(head(&site, 5).as_bytes()).await.unwrap();
        let mut answer = [0_u8; 25];
        wanted.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
        wanted.write_all(b"hello").await.unwrap();
        let mut answer = [0_u8; 12];
        wanted.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 201");
        site.put("admin", "/api/v1/tenants/acme", json!({ "tier": "free", "uploadsPerHour": 0 })).await;
        let mut refused = TcpStream::connect(running.address).await.unwrap();
        refused.write_all(head(&site, 20 << 20).as_bytes()).await.unwrap();
        let answer = rest(&mut refused).await;
        assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
        assert!(answer.contains("retry-after: ") && answer.contains("connection: close"), "{answer}");
        assert!(answer.contains("Upload limit reached. Please try again later."), "{answer}");
        drop(wanted);
        running.stop.send(()).unwrap();
        running.task.await.unwrap();
    }

    async fn an_upload_that_is_cut_off_leaves_nothing(world: &World) {
        let site = Site::new(world).await;
        site.put("admin", "/api/v1/tenants/acme", json!({ "tier": "free", "uploadsPerHour": 5 })).await;
        let running = run(&site).await;
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(head(&site, 1 << 20).as_bytes()).await.unwrap();
        let mut answer = [0_u8; 25];
        stream.read_exact(&mut answer).await.unwrap();
        stream.write_all(&[7_u8; 100_000]).await.unwrap();
        assert_eq!(site.get("acme", "/api/v1/limits").await.json()["remaining"], 4);
        drop(stream);
        for _ in 0..100 {
            if site.get("acme", "/api/v1/limits").await.json()["remaining"] == 5 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(site.get("acme", "/api/v1/limits").await.json()["remaining"], 5);
        world.engine.sweep_run_once().await.unwrap();
        assert_eq!((world.number("select count(*) from item").await, world.files()), (0, 0));
        running.stop.send(()).unwrap();
        running.task.await.unwrap();
    }

    async fn a_reader_that_does_not_read_is_cut_off_and_slows_nobody_down(world: &World) {
        let idle_timeout = Duration::from_millis(1_500);
        let site = Site::with(world, ServerConfig { idle_timeout, connections_max: 2, ..ServerConfig::default() }).await;
        // More than the network holds for somebody who does not read.
        let roster: Vec<_> = (0..1_000).map(|n| format!("{n}-{}", "x".repeat(100))).collect();
        let collection = json!({ "tenantId": "acme", "pipeline": "work", "review": { "enabled": false, "roster": roster } });
        for _ in 0..150 {
            assert_eq!(site.put("admin", "/api/v1/collections/acme", collection.clone()).await.status, 200);
        }
        let running = run(&site).await;
        let mut asleep = Vec::new();
        for _ in 0..2 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(4_096).unwrap();
            let mut stream = socket.connect(running.address).await.unwrap();
            let follow = format!(
                "GET /api/v1/events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 0-0\r\nAuthorization: Bearer {}\r\n\r\n",
                site.key("admin"));
            stream.write_all(follow.as_bytes()).await.unwrap();
            asleep.push(stream);
        }
        site.submit_one("acme", "a").await;
        // Both places are taken: the next one is served as soon as those who do not read are cut off.
        let mut next = TcpStream::connect(running.address).await.unwrap();
        next.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        assert!(rest(&mut next).await.starts_with("HTTP/1.1 200"));
        for _ in 0..250 {
            if world.engine.followers() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(world.engine.followers(), 0, "nobody follows the log for them any more");
        drop(asleep);
        running.stop.send(()).unwrap();
        running.task.await.unwrap();
    }

    async fn the_server_ends_streams_and_waits_and_finishes_what_is_under_way(world: &World) {
        let site = Site::new(world).await;
        let running = run(&site).await;
        let key = site.key("worker");
        let body = json!({ "pipeline": "work", "workerId": "w", "waitSeconds": 60 }).to_string();
        let mut waiting = TcpStream::connect(running.address).await.unwrap();
        let claim = format!(
            "POST /internal/v1/jobs/claim HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        waiting.write_all(claim.as_bytes()).await.unwrap();
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let follow = format!("GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", site.key("acme"));
        stream.write_all(follow.as_bytes()).await.unwrap();
        let mut idle = TcpStream::connect(running.address).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        running.stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(5), running.task).await.expect("it ends in time").unwrap();
        assert!(rest(&mut waiting).await.contains("{\"jobs\":[]}"));
        let events = rest(&mut stream).await;
        assert!(events.contains("text/event-stream") && events.contains("\nid: "), "{events}");
        assert_eq!(rest(&mut idle).await, "");
    }
}
