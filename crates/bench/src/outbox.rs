//! The outbox: how many messages a second leave with every guarantee on, and how soon after the commit the first one does. The provider
//! takes everything at once, so that what is measured is Docket.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use docket_core::Refused;
use docket_core::id::DeliveryId;
use docket_core::notify::{ChannelKind, DeliveryToken, Message, OnUnknown, Recipient};
use docket_core::scope::{Notifying, Operator};
use docket_engine::{DeliveryFilter, Engine, NewNotification};
use docket_notify::{Abilities, Channel, Found, Frozen, Lookup, Sent, Words};
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::Args;
use crate::measure::{Latencies, Run, measure};
use crate::report::Report;
use crate::site::Site;

const HOSTS: u64 = 64;
const TO_DRAIN: u64 = 20_000;

/// A provider that takes everything.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    taken: AtomicU64,
    bell: Notify,
}

impl Channel for Sink {
    fn kind(&self) -> ChannelKind {
        ChannelKind::Webhook
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            idempotent_for: None,
            lookup: Some(Lookup { lag: Duration::ZERO }),
            on_unknown: OnUnknown::Hold,
        }
    }

    fn render(&self, message: &Message, recipient: &Recipient, token: &DeliveryToken) -> Refused<Frozen> {
        Ok(Frozen {
            token: token.clone(),
            recipient: recipient.clone(),
            headers: Vec::new(),
            body: message.body().as_bytes().to_vec(),
        })
    }

    fn send<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Sent> {
        Box::pin(async move {
            self.taken.fetch_add(1, Ordering::SeqCst);
            self.bell.notify_one();
            Sent::Accepted {
                id: frozen.token.to_string(),
                words: Words::new("200 taken"),
            }
        })
    }

    fn lookup<'a>(&'a self, _: &'a DeliveryToken) -> BoxFuture<'a, Found> {
        Box::pin(async {
            Found::Absent {
                words: Words::new("404"),
            }
        })
    }
}

fn to_hosts(name: &str, from: u64, count: u64) -> NewNotification {
    let recipient = |n: u64| format!("webhook:https://h{}.example/{n}", n % HOSTS);
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
            let new = to_hosts(&format!("drain-{n}"), n * 1_000, 1_000);
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
        let new = to_hosts(&format!("idle-{n}"), n, 1);
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
