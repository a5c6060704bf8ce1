//! Steps: a finished step's output is kept at once (rule P8).

use std::sync::Arc;

use docket_core::content::check_json;
use docket_core::id::JobId;
use docket_core::item::JSON_MAX;
use docket_core::lane::HoldKind;
use docket_core::lease::LeaseToken;
use docket_core::log::Action;
use docket_core::{Refusal, Timestamp};
use docket_store::table::log::NewEntry;
use docket_store::table::{collection, hold, job, log, step};
use docket_store::{Result, Tx};
use serde_json::{Value, json};

use crate::definition::Definitions;
use crate::engine::Engine;

/// A step that a worker has finished.
#[derive(Clone, Debug)]
pub struct StepDone {
    /// The job.
    pub job: JobId,
    /// The token that its holder was given.
    pub token: LeaseToken,
    /// The step.
    pub name: String,
    /// What came out.
    pub output: Value,
}

struct Put {
    done: StepDone,
    output: String,
    definitions: Arc<Definitions>,
    now: Timestamp,
}

impl Engine {
    /// Keeps a step's output; the next attempt, should there be one, begins after it.
    pub async fn step(&self, done: StepDone) -> Result<()> {
        let output = check_json("output", &done.output, JSON_MAX)?;
        let definitions = Arc::clone(&self.kernel.definitions);
        let params = Put {
            done,
            output,
            definitions,
            now: self.kernel.clock.now(),
        };
        self.kernel
            .store
            .run("step", params, |tx, p| Box::pin(step_put(tx, p)))
            .await
    }
}

async fn step_put(tx: &mut Tx, p: &Put) -> Result<()> {
    let (lane, seq) = (p.done.job.lane(), p.done.job.seq());
    let held = hold::lock(tx, lane, seq).await?;
    let held = held.filter(|hold| hold.token == p.done.token && hold.kind == HoldKind::Leased);
    let held = held.ok_or(Refusal::LeaseLost)?;
    let definition = p
        .definitions
        .get(tx, held.pipeline, held.pipeline_version)
        .await?;
    let name = &p.done.name;
    if definition.step_number(name).is_none() {
        return Err(Refusal::invalid("step", format!("the pipeline has no step '{name}'")).into());
    }
    step::put(tx, lane, seq, name, &p.output, held.started_at, p.now).await?;
    let row = job::get(tx, lane, seq)
        .await?
        .ok_or_else(|| Refusal::not_found("job", &p.done.job))?;
    let owner = collection::by_key(tx, row.collection).await?;
    let tenant_id = owner.map(|collection| collection.tenant_id).unwrap_or_default();
    let actor = format!("worker:{}", held.worker.unwrap_or_default());
    let entry = NewEntry::new(Action::JobStepCompleted, actor)
        .of_item(&tenant_id, row.item)
        .of_job(row.id());
    log::append(
        tx,
        &entry.with(&json!({ "step": name, "attempt": held.retry_count + 1 })),
        p.now,
    )
    .await
}
