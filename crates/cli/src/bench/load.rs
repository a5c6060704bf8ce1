//! The load: clients that submit, then clients that claim and complete until nothing is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use docket_client::Client;
use docket_client::wire::item::{OnConflict, SubmitItem};
use docket_client::wire::job::{Claim, ClaimedJob, Complete};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tokio::task::JoinSet;

use super::meter::{Meter, now};

pub(super) use super::meter::Phase;

/// How long a worker waits for work before it believes that there is none left.
const WAIT_SECONDS: f64 = 1.0;

/// What is to be done.
pub(super) struct Load {
    pub(super) client: Client,
    pub(super) pipeline: &'static str,
    pub(super) collections: Vec<String>,
    pub(super) jobs: u64,
    pub(super) batch: u16,
    pub(super) connections: u16,
    pub(super) payload: String,
    pub(super) run: String,
}

/// What came of it.
pub(super) struct Measured {
    pub(super) whole: bool,
    pub(super) phases: Vec<Phase>,
}

/// One kind of clients at work, shared by them.
struct Shift {
    load: Load,
    /// Items that somebody has taken on to submit.
    taken: AtomicU64,
    /// A signal came.
    ended: AtomicBool,
    bar: ProgressBar,
}

impl Load {
    /// Submits everything, then works on it until nothing is left.
    pub(super) async fn run(self) -> Result<Measured> {
        let bar = ProgressBar::with_draw_target(Some(self.jobs), ProgressDrawTarget::stderr()).with_style(
            ProgressStyle::with_template("{msg:16} {bar:30} {pos}/{len} {per_sec}")?,
        );
        let clients = self.connections;
        let shift = Arc::new(Shift {
            load: self,
            taken: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            bar,
        });
        let signal = tokio::spawn(heed_signal(Arc::clone(&shift)));
        let phases = shift.phases(clients).await;
        signal.abort();
        shift.bar.finish_and_clear();
        Ok(Measured {
            phases: phases?,
            whole: !shift.ended.load(Ordering::Relaxed),
        })
    }
}

/// After the first signal nothing new is begun, and what was measured is shown; the second ends the program, as is usual.
async fn heed_signal(shift: Arc<Shift>) {
    if tokio::signal::ctrl_c().await.is_ok() {
        shift.ended.store(true, Ordering::Relaxed);
    }
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(130);
    }
}

impl Shift {
    async fn phases(self: &Arc<Self>, clients: u16) -> Result<Vec<Phase>> {
        self.bar.set_message("submitting");
        let began = now();
        let mut producers = JoinSet::new();
        for client in 0..clients {
            let shift = Arc::clone(self);
            producers.spawn(async move { Ok([shift.produce(client).await?]) });
        }
        let [submits] = joined(producers).await.context("submitting failed")?;
        let submit = submits.phase("submit", began);

        self.bar.reset();
        self.bar.set_message("claim + complete");
        let began = now();
        let mut workers = JoinSet::new();
        for client in 0..clients {
            let shift = Arc::clone(self);
            workers.spawn(async move { shift.work(client).await });
        }
        let [claims, completes] = joined(workers).await.context("working failed")?;
        Ok(vec![
            submit,
            claims.phase("claim", began),
            completes.phase("complete", began),
        ])
    }

    fn goes_on(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    /// Submits batches until all that is wanted has been taken on by somebody.
    async fn produce(&self, client: u16) -> Result<Meter> {
        let load = &self.load;
        let mut meter = Meter::new()?;
        let mut turn = usize::from(client);
        while self.goes_on() {
            let first = self.taken.fetch_add(load.batch.into(), Ordering::Relaxed);
            let last = load.jobs.min(first + u64::from(load.batch));
            if first >= last {
                break;
            }
            let items: Vec<_> = (first..last).map(|n| load.item(n)).collect();
            let count = items.len();
            let collection = &load.collections[turn % load.collections.len()];
            turn += 1;
            let began = now();
            for result in load.client.items_submit(collection, items, None).await? {
                result.context("an item was refused")?;
            }
            meter.add(began, count);
            self.bar.inc(count as u64);
        }
        Ok(meter)
    }

    /// Claims and completes batches until there is nothing to claim.
    async fn work(&self, client: u16) -> Result<[Meter; 2]> {
        let load = &self.load;
        let claim = Claim {
            pipeline: load.pipeline.to_owned(),
            worker_id: format!("{}-{client}", load.pipeline),
            limit: load.batch.into(),
            lease_seconds: None,
            wait_seconds: Some(WAIT_SECONDS),
        };
        let (mut claims, mut completes) = (Meter::new()?, Meter::new()?);
        while self.goes_on() {
            let began = now();
            let jobs = load.client.claim(&claim).await?;
            if jobs.is_empty() {
                break;
            }
            claims.add(began, jobs.len());
            let done = jobs.iter().map(completed).collect();
            let began = now();
            for result in load.client.complete(done).await? {
                result.context("a job that was just claimed could not be completed")?;
            }
            completes.add(began, jobs.len());
            self.bar.inc(jobs.len() as u64);
        }
        Ok([claims, completes])
    }
}

impl Load {
    /// An item that is like no other: the same content twice would be a duplicate.
    fn item(&self, n: u64) -> SubmitItem {
        let id = format!("{}-{n}", self.run);
        SubmitItem {
            payload: json!({ "item": id, "text": self.payload }),
            external_id: Some(id),
            metadata: None,
            fields: None,
            display_payload: None,
            confidence: None,
            line_item_count: None,
            total_amount: None,
            deadline: None,
            on_conflict: OnConflict::default(),
        }
    }
}

fn completed(job: &ClaimedJob) -> Complete {
    Complete {
        job_id: job.job_id.uuid(),
        lease_token: job.lease_token,
        result: Some(json!({ "ok": true })),
        fields: None,
        display_payload: None,
        line_item_count: None,
        total_amount: None,
    }
}

/// What all clients have measured together; the first that fails ends the others.
async fn joined<const N: usize>(mut clients: JoinSet<Result<[Meter; N]>>) -> Result<[Meter; N]> {
    let mut sums = Vec::new();
    for _ in 0..N {
        sums.push(Meter::new()?);
    }
    while let Some(client) = clients.join_next().await {
        for (sum, meter) in sums.iter_mut().zip(client.context("a client broke down")??) {
            sum.join(&meter)?;
        }
    }
    sums.try_into()
        .map_err(|_| anyhow::anyhow!("as many sums as there are kinds of calls"))
}
