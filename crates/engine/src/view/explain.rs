//! Why is it not running? (rule P14)

use docket_core::Timestamp;
use docket_core::clock::duration_in_words;
use docket_core::id::{ItemId, JobId, LaneKey, PipelineKey, Seq};
use docket_core::item::ItemStatus;
use docket_core::lane::HoldKind;
use docket_core::position::Position;
use docket_core::scope::Scope;
use docket_store::table::lane::{self, Lane};
use docket_store::table::pause::{Pause, PauseScope};
use docket_store::table::{hold, job, pause, worker};
use docket_store::{Result, Tx};

use super::item::item_of_tenant;
use super::position::position_of;
use crate::engine::Engine;

/// How many holders of the lane are named.
const HOLDERS_SHOWN: u64 = 20;
/// A pipeline that no worker has asked for this long has none.
const WORKER_SILENT_MS: i64 = 90_000;

/// Why an item is not running.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What the item is.
    pub status: ItemStatus,
    /// Each reason as a sentence, the weightiest first; for people.
    pub reasons: Vec<String>,
    /// Its place.
    pub position: Option<Position>,
    /// The jobs that hold its lane, where that is full.
    pub holders: Vec<Holder>,
    /// The pauses that cover it.
    pub pauses: Vec<Pause>,
    /// When its next attempt may start, where it waits for one.
    pub run_at: Option<Timestamp>,
    /// When a worker last asked for jobs of its pipeline; none for never.
    pub worker_seen_at: Option<Timestamp>,
}

/// A job that holds a place in the lane.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Holder {
    pub job: JobId,
    pub worker: Option<String>,
    pub since: Timestamp,
    pub lease_expires_at: Timestamp,
}

impl Engine {
    /// Says why an item is not running.
    pub async fn explain(&self, scope: &Scope, id: ItemId) -> Result<Explanation> {
        let params = (scope.clone(), id, self.kernel.clock.now());
        self.kernel
            .store
            .read("explain", params, |tx, p| Box::pin(explain(tx, &p.0, p.1, p.2)))
            .await
    }
}

async fn explain(tx: &mut Tx, scope: &Scope, id: ItemId, now: Timestamp) -> Result<Explanation> {
    let found = item_of_tenant(tx, scope, id).await?;
    let mut explanation = Explanation {
        status: found.status,
        reasons: Vec::new(),
        position: None,
        holders: Vec::new(),
        pauses: Vec::new(),
        run_at: None,
        worker_seen_at: None,
    };
    let Some((lane_key, seq)) = found.job.filter(|_| found.status == ItemStatus::Queued) else {
        explanation.reasons.push(settled_reason(tx, &found).await?);
        return Ok(explanation);
    };
    let Some(row) = lane::get(tx, lane_key).await? else {
        return Ok(explanation);
    };
    add_pauses(tx, &mut explanation, row.pipeline, lane_key).await?;
    add_wait(tx, &mut explanation, lane_key, seq, now).await?;
    if row.counts.active >= row.counts.limit {
        add_holders(tx, &mut explanation, &row, lane_key, now).await?;
    }
    let reasons = &mut explanation.reasons;
    if row.strict && row.counts.waiting > 0 && explanation.run_at.is_none() {
        reasons.push(
            "The pipeline is strict, and another job of the lane waits for its next attempt".to_owned(),
        );
    }
    explanation.position = position_of(tx, lane_key, seq, now).await?;
    if let Some(position) = explanation.position.filter(|position| position.ahead > 0) {
        reasons.push(match position.ahead {
            1 => "1 job of the lane is before it".to_owned(),
            ahead => format!("{ahead} jobs of the lane are before it"),
        });
    }
    explanation.worker_seen_at = worker::latest(tx, row.pipeline).await?;
    match explanation.worker_seen_at {
        None => reasons.push("No worker has ever asked for jobs of its pipeline".to_owned()),
        Some(seen) if now.since(seen) >= WORKER_SILENT_MS => {
            let silence = duration_in_words(now.since(seen) / 60_000 * 60_000);
            reasons.push(format!(
                "No worker has asked for jobs of its pipeline for {silence}"
            ));
        }
        Some(_) => {}
    }
    if reasons.is_empty() {
        reasons.push("Nothing holds it: it starts when a worker asks and it is its lane's turn".to_owned());
    }
    Ok(explanation)
}

async fn add_pauses(
    tx: &mut Tx,
    explanation: &mut Explanation,
    pipeline: PipelineKey,
    lane_key: LaneKey,
) -> Result<()> {
    explanation.pauses = pause::that_hold(tx, pipeline, lane_key).await?;
    for pause in &explanation.pauses {
        let what = match pause.scope {
            PauseScope::All => "Everything",
            PauseScope::Pipeline(_) => "The pipeline",
            PauseScope::Lane(_) => "The lane",
            PauseScope::Collection(_) => "The collection",
            PauseScope::Channel(_) => "The channel",
        };
        explanation
            .reasons
            .push(format!("{what} is paused by {}: {}", pause.actor, pause.reason));
    }
    Ok(())
}

async fn add_wait(
    tx: &mut Tx,
    explanation: &mut Explanation,
    lane_key: LaneKey,
    seq: Seq,
    now: Timestamp,
) -> Result<()> {
    let held = hold::get(tx, lane_key, seq).await?;
    if let Some(held) = held.filter(|hold| hold.kind == HoldKind::Delayed) {
        explanation.run_at = Some(held.until);
        // In whole seconds, rounded up: a wait of half a second is not none.
        let wait = duration_in_words((held.until.since(now).max(0) + 999) / 1000 * 1000);
        let failures = held.retry_count;
        explanation.reasons.push(format!(
            "It waits {wait} for its next attempt after {failures} that failed"
        ));
    }
    Ok(())
}

async fn add_holders(
    tx: &mut Tx,
    explanation: &mut Explanation,
    row: &Lane,
    lane_key: LaneKey,
    now: Timestamp,
) -> Result<()> {
    for held in hold::leased_of_lane(tx, lane_key, HOLDERS_SHOWN).await? {
        let created = job::get(tx, lane_key, held.seq)
            .await?
            .map_or(now, |job| job.created_at);
        explanation.holders.push(Holder {
            job: JobId::new(created, lane_key, held.seq),
            worker: held.worker,
            since: held.started_at,
            lease_expires_at: held.until,
        });
    }
    let (active, limit) = (row.counts.active, row.counts.limit);
    explanation
        .reasons
        .push(format!("The lane is full: {active} of {limit} jobs run"));
    Ok(())
}

async fn settled_reason(tx: &mut Tx, item: &docket_store::table::item::Item) -> Result<String> {
    let error = match item.job {
        Some((lane, seq)) => job::get(tx, lane, seq).await?.and_then(|job| job.error),
        None => None,
    };
    Ok(match (item.status, error) {
        (ItemStatus::Processing, _) => "It is running".to_owned(),
        (ItemStatus::Failed, Some(error)) => format!("It has failed: {error}"),
        (status, _) => format!("It is {status}"),
    })
}
