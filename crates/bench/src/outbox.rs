//! The outbox: how many messages a second leave with every guarantee on, and how soon after the commit the first one does. They are
//! signed requests over HTTP to a receiver in this process that takes everything at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use docket_core::clock::SystemClock;
use docket_core::id::DeliveryId;
use docket_core::scope::{Notifying, Operator};
use docket_engine::{DeliveryFilter, Engine, NewNotification};
use docket_notify::webhook::{WebhookChannel, WebhookConfig};
use docket_notify::{Channel, Secret};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::Args;
use crate::measure::{Latencies, Run, measure};
use crate::report::Report;
use crate::site::Site;

/// So many addresses of this machine stand for hosts.
const HOSTS: u64 = 64;
const TO_DRAIN: u64 = 20_000;
const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// A receiver of webhooks.
#[derive(Debug)]
pub(crate) struct Sink {
    port: u16,
    taken: AtomicU64,
    bell: Notify,
}

impl Sink {
    /// Starts to listen, on every address of this machine.
    pub(crate) async fn start() -> Result<Arc<Self>> {
        let listener = TcpListener::bind("0.0.0.0:0").await?;
        let sink = Arc::new(Self {
            port: listener.local_addr()?.port(),
            taken: AtomicU64::new(0),
            bell: Notify::new(),
        });
        tokio::spawn(Arc::clone(&sink).receive(listener));
        Ok(sink)
    }

    /// The channel that sends to it.
    pub(crate) fn channel() -> Result<Arc<dyn Channel>> {
        let mut config = WebhookConfig::new(Secret::new(SECRET));
        config.allow_private = true;
        Ok(Arc::new(WebhookChannel::new(config, Arc::new(SystemClock))?))
    }

    async fn receive(self: Arc<Self>, listener: TcpListener) {
        while let Ok((connection, _)) = listener.accept().await {
            let sink = Arc::clone(&self);
            tokio::spawn(async move { sink.take(connection).await.ok() });
        }
    }

    /// Reads one request and takes it.
    async fn take(&self, mut connection: TcpStream) -> std::io::Result<()> {
        let mut request = Vec::with_capacity(4_096);
        while !is_whole(&request) {
            if connection.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        self.taken.fetch_add(1, Ordering::SeqCst);
        self.bell.notify_one();
        connection
            .write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            .await
    }

    fn to_hosts(&self, name: &str, from: u64, count: u64) -> NewNotification {
        let recipient = |n: u64| format!("webhook:http://127.0.0.{}:{}/{n}", n % HOSTS + 1, self.port);
        NewNotification {
            idempotency_key: name.to_owned(),
            changelist_id: name.to_owned(),
            review_version: 1,
            recipients: (from..from + count).map(recipient).collect(),
            subject: "Reviewed".to_owned(),
            body: "x".repeat(500),
            ..NewNotification::default()
        }
    }
}

/// Whether the request has its head and as much body as it says.
fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|part| part == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    request.len() - end - 4 >= length.unwrap_or(0)
}

/// The figures of one database.
pub(crate) async fn figures(
    args: &Args,
    mut site: Site,
    database: &str,
    report: &mut Report,
    baselines: &[&str],
) -> Result<()> {
    let who = Notifying::deployment(&Operator::system());
    let (engine, sink) = (site.engine.clone(), Arc::clone(&site.sink));
    let label = format!("{database}: outbox, intent + send + mark");
    if args.wants(&label) {
        for n in 0..TO_DRAIN / 1_000 {
            let new = sink.to_hosts(&format!("drain-{n}"), n * 1_000, 1_000);
            engine.notification_create(&who, &new).await?;
        }
        site.start_background().await?;
        let (began, wal) = (Instant::now(), site.wal().await?);
        let task = drain(engine.clone(), Arc::clone(&sink));
        let measured = measure(&label, Duration::from_secs(120), |run| vec![task(run)]).await?;
        ensure!(measured.done == TO_DRAIN, "only {} were sent", measured.done);
        println!("{label}: {TO_DRAIN} in {:.1} s", began.elapsed().as_secs_f64());
        let wal = wal.zip(site.wal().await?).map(|(before, after)| after - before);
        report.add(&label, &measured, wal, baselines);
    } else {
        site.start_background().await?;
    }
    let label = format!("{database}: outbox, commit → send, idle");
    if args.wants(&label) {
        let measured = measure(&label, args.window(), |run| vec![idle(engine, sink, who, run)]).await?;
        report.add(&label, &measured, None, &[]);
    }
    site.close().await
}

/// Waits until everything was sent and marked.
fn drain(
    engine: Engine,
    sink: Arc<Sink>,
) -> impl FnOnce(Run) -> futures_util::future::BoxFuture<'static, Result<Latencies>> {
    move |run| {
        Box::pin(async move {
            let mut seen = 0;
            while run.goes_on() && seen < TO_DRAIN {
                let taken = sink.taken.load(Ordering::SeqCst);
                run.add(usize::try_from(taken - seen)?);
                seen = taken;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let who = Notifying::deployment(&Operator::system());
            let sending = DeliveryFilter {
                state: Some(docket_core::notification::DeliveryState::Sending),
                channel: None,
            };
            loop {
                let page = engine
                    .deliveries(&who, sending.clone(), DeliveryId::last(), 1)
                    .await?;
                if page.items.is_empty() {
                    return Latencies::new();
                }
            }
        })
    }
}

/// Makes one notification after the other, and measures from its commit to its send.
async fn idle(engine: Engine, sink: Arc<Sink>, who: Notifying, run: Run) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let mut n = 0_u64;
    while run.goes_on() {
        let expected = sink.taken.load(Ordering::SeqCst) + 1;
        n += 1;
        let new = sink.to_hosts(&format!("idle-{n}"), n, 1);
        engine.notification_create(&who, &new).await?;
        let committed = Instant::now();
        while sink.taken.load(Ordering::SeqCst) < expected {
            let rung = tokio::time::timeout(Duration::from_secs(10), sink.bell.notified()).await;
            rung.context("a message was not sent")?;
        }
        latencies.add(committed.elapsed());
        run.add(1);
    }
    Ok(latencies)
}
