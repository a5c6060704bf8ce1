//! An item as people and programs see it, with its fields, its jobs and its story.

use std::collections::BTreeMap;
use std::sync::Arc;

use docket_core::field::{Field, MachineField, overlay};
use docket_core::id::{CollectionKey, ItemId, JobId, LaneKey, Seq};
use docket_core::item::ItemStatus;
use docket_core::job::{JobState, JobStatus};
use docket_core::lane::HoldKind;
use docket_core::name::{CollectionId, TEXT_MAX, check_text};
use docket_core::position::Position;
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::table::item::{self, Item};
use docket_store::table::job::{self, Cause, Job};
use docket_store::table::log::{self, Entry, LogPosition};
use docket_store::table::step::{self, FinishedStep};
use docket_store::table::{collection, correction, counter, hold, lane, review};
use docket_store::{Error, Result, Tx};

use super::position::position_of;
use crate::definition::Definitions;
use crate::engine::Engine;
use crate::review::Collections;
use crate::review::entry::{ReviewEntry, entries_of};

/// The most entries of a page.
const PAGE_MAX: u64 = 200;
/// How many runs of an item are followed.
const RUNS_MAX: usize = 200;

/// An item with all that belongs to it.
#[derive(Clone, Debug)]
pub struct ItemView {
    /// The item itself.
    pub item: Item,
    /// Its fields: what machines read, with what people made of it.
    pub fields: Vec<Field>,
    /// What the latest finished job of its present version made, as JSON text.
    pub result: Option<String>,
    /// Its latest job.
    pub job: Option<JobView>,
    /// Its place, while it waits.
    pub position: Option<Position>,
    /// The review of its present version.
    pub review: Option<ReviewEntry>,
}

/// A job as people see it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct JobView {
    pub id: JobId,
    pub pipeline: String,
    pub status: JobStatus,
    pub attempt: u32,
    pub retry_count: u32,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    pub error: Option<String>,
    pub failed_step: Option<String>,
    /// The job that this one retries.
    pub retry_of: Option<JobId>,
    pub worker: Option<String>,
    pub lease_expires_at: Option<Timestamp>,
    /// When it may be started again.
    pub run_at: Option<Timestamp>,
    pub steps: Vec<StepView>,
}

/// A step of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct StepView {
    pub name: String,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

impl Engine {
    /// An item with all that belongs to it.
    pub async fn item(&self, scope: &Scope, id: ItemId) -> Result<ItemView> {
        let definitions = Arc::clone(&self.kernel.definitions);
        let params = (scope.clone(), id, definitions, self.kernel.clock.now());
        self.kernel
            .store
            .read("item", params, |tx, p| {
                Box::pin(item_view(tx, &p.0, p.1, &p.2, p.3))
            })
            .await
    }

    /// The item of an externalId.
    pub async fn item_by_external_id(
        &self,
        scope: &Scope,
        collection: &CollectionId,
        external_id: &str,
    ) -> Result<ItemId> {
        check_text("externalId", external_id, TEXT_MAX)?;
        let params = (scope.clone(), collection.clone(), external_id.to_owned());
        let find = self.kernel.store.read(
            "item_by_external_id",
            params,
            |tx, (scope, collection, external_id)| {
                Box::pin(async move {
                    let key = collection_of_tenant(tx, scope, collection).await?;
                    let mut found = item::by_external(tx, &[(key, external_id.clone())]).await?;
                    let (_, known) = found
                        .pop()
                        .ok_or_else(|| Refusal::not_found("item", external_id))?;
                    Ok(known.id)
                })
            },
        );
        find.await
    }

    /// All runs of an item, latest first.
    pub async fn jobs(&self, scope: &Scope, id: ItemId) -> Result<Vec<JobView>> {
        let params = (scope.clone(), id, Arc::clone(&self.kernel.definitions));
        let find = self
            .kernel
            .store
            .read("jobs", params, |tx, (scope, id, definitions)| {
                Box::pin(async move {
                    let found = item_of_tenant(tx, scope, *id).await?;
                    let mut views = Vec::new();
                    for run in all_runs(tx, &found).await? {
                        views.push(job_view(tx, &run, definitions).await?);
                    }
                    Ok(views)
                })
            });
        find.await
    }

    /// The log of an item after a position, oldest first.
    pub async fn timeline(
        &self,
        scope: &Scope,
        id: ItemId,
        after: LogPosition,
        limit: u64,
    ) -> Result<Vec<Entry>> {
        let params = (scope.clone(), id, after, limit.clamp(1, PAGE_MAX));
        let find = self
            .kernel
            .store
            .read("timeline", params, |tx, (scope, id, after, limit)| {
                Box::pin(async move {
                    item_of_tenant(tx, scope, *id).await?;
                    log::of_item(tx, *id, *after, *limit).await
                })
            });
        find.await
    }

    /// How many items of a collection are in each state; what runs counts as queued.
    pub async fn counts(
        &self,
        scope: &Scope,
        collection: &CollectionId,
    ) -> Result<BTreeMap<ItemStatus, i64>> {
        let params = (scope.clone(), collection.clone());
        let read = self
            .kernel
            .store
            .read("counts", params, |tx, (scope, collection)| {
                Box::pin(async move {
                    let key = collection_of_tenant(tx, scope, collection).await?;
                    counter::read(tx, key).await
                })
            });
        read.await
    }

    /// The stored file of an item.
    pub async fn content(&self, scope: &Scope, id: ItemId) -> Result<object_store::GetResult> {
        let params = (scope.clone(), id);
        let find = self
            .kernel
            .store
            .read("content", params, |tx, p| Box::pin(item_of_tenant(tx, &p.0, p.1)))
            .await?;
        let key = find
            .blob_key
            .ok_or_else(|| Refusal::not_found("file of item", &id))?;
        self.blobs.read(&key).await
    }
}

/// An item of the asking tenant; anybody else's is not there.
pub(crate) async fn item_of_tenant(tx: &mut Tx, scope: &Scope, id: ItemId) -> Result<Item> {
    let found = item::get(tx, id)
        .await?
        .filter(|item| item.tenant_id == scope.tenant.as_str());
    found.ok_or_else(|| Refusal::not_found("item", &id).into())
}

/// A collection of the asking tenant; anybody else's is not there.
pub(crate) async fn collection_of_tenant(
    tx: &mut Tx,
    scope: &Scope,
    id: &CollectionId,
) -> Result<CollectionKey> {
    let found = collection::get(tx, id.as_str()).await?;
    let own = found.filter(|collection| collection.tenant_id == scope.tenant.as_str());
    own.map(|collection| collection.key)
        .ok_or_else(|| Refusal::not_found("collection", id).into())
}

async fn item_view(
    tx: &mut Tx,
    scope: &Scope,
    id: ItemId,
    definitions: &Definitions,
    now: Timestamp,
) -> Result<ItemView> {
    let found = item_of_tenant(tx, scope, id).await?;
    let runs = runs(tx, found.job).await?;
    let fields = fields_from(tx, &found, &runs).await?;
    let latest = runs.first();
    let position = match (latest, found.status) {
        (Some(job), ItemStatus::Queued) => position_of(tx, job.lane, job.seq, now).await?,
        _ => None,
    };
    let finished = runs
        .iter()
        .find(|run| run.item_version == found.version && run.state == JobState::Completed);
    let result = finished.and_then(|run| run.result.clone());
    let job = match latest {
        Some(job) => Some(job_view(tx, job, definitions).await?),
        None => None,
    };
    let reviews = review::of_item(tx, id, found.version).await?;
    let reviews = reviews.into_iter().collect();
    let mut reviews = entries_of(tx, reviews, &mut Collections::default(), now).await?;
    Ok(ItemView {
        item: found,
        fields,
        result,
        job,
        position,
        review: reviews.pop(),
    })
}

/// The runs of an item from its latest on.
pub(crate) async fn runs(tx: &mut Tx, latest: Option<(LaneKey, Seq)>) -> Result<Vec<Job>> {
    let mut runs = Vec::new();
    let mut next = latest;
    while let (Some((lane, seq)), true) = (next, runs.len() < RUNS_MAX) {
        let Some(run) = job::get(tx, lane, seq).await? else {
            break;
        };
        next = run.prior;
        runs.push(run);
    }
    Ok(runs)
}

/// The same with those of versions that no later job leads back to.
async fn all_runs(tx: &mut Tx, item: &Item) -> Result<Vec<Job>> {
    let mut all = runs(tx, item.job).await?;
    for (version, job) in item::earlier_jobs(tx, item.id).await? {
        if all.last().map_or(item.version, |run| run.item_version) > version {
            all.extend(runs(tx, Some(job)).await?);
        }
    }
    all.truncate(RUNS_MAX);
    Ok(all)
}

/// The fields of an item: those of the latest run of its present version that handed some in, or those it came with, and what
/// people made of them.
pub(crate) async fn fields_of(tx: &mut Tx, item: &Item) -> Result<Vec<Field>> {
    let runs = runs(tx, item.job).await?;
    fields_from(tx, item, &runs).await
}

pub(crate) async fn fields_from(tx: &mut Tx, item: &Item, runs: &[Job]) -> Result<Vec<Field>> {
    let own = runs.iter().filter(|run| run.item_version == item.version);
    let text = own
        .filter_map(|run| run.fields.clone())
        .next()
        .or_else(|| item.fields.clone());
    let machine: Vec<MachineField> = match text {
        None => Vec::new(),
        Some(text) => serde_json::from_str(&text).map_err(|source| Error::Json {
            what: "fields",
            source,
        })?,
    };
    let corrections = correction::of_items(tx, &[item.id]).await?;
    Ok(overlay(
        machine,
        corrections
            .into_iter()
            .map(|(_, correction)| correction)
            .collect(),
    ))
}

async fn job_view(tx: &mut Tx, job: &Job, definitions: &Definitions) -> Result<JobView> {
    let held = hold::get(tx, job.lane, job.seq).await?;
    let leased = held.as_ref().filter(|hold| hold.kind == HoldKind::Leased);
    let delayed = held.as_ref().filter(|hold| hold.kind == HoldKind::Delayed);
    let lane = lane::get(tx, job.lane)
        .await?
        .ok_or_else(|| Refusal::not_found("lane", &job.lane.0))?;
    let (pipeline, present) = docket_store::table::pipeline::name(tx, lane.pipeline).await?;
    let version = held
        .as_ref()
        .map(|hold| hold.pipeline_version)
        .or(job.pipeline_version)
        .unwrap_or(present);
    let definition = definitions.get(tx, lane.pipeline, version).await?;
    let finished = step::of_job(tx, job.lane, job.seq).await?;
    let started_at = leased.map(|hold| hold.started_at).or(job.started_at);
    let steps = definition.steps.iter().map(|name| name.as_str());
    let steps = steps_view(steps, &finished, |name| match leased {
        Some(_) => started_at,
        None if job.failed_step.as_deref() == Some(name) => started_at,
        None => None,
    });
    let retry_of = match (job.cause, job.prior) {
        (Cause::Retried, Some((lane, seq))) => job::get(tx, lane, seq).await?.map(|prior| prior.id()),
        _ => None,
    };
    let retry_count = held.as_ref().map_or(job.retry_count, |hold| hold.retry_count);
    Ok(JobView {
        id: job.id(),
        pipeline,
        status: job.state.status(leased.is_some()),
        attempt: retry_count + 1,
        retry_count,
        created_at: job.created_at,
        started_at,
        completed_at: job.finished_at,
        error: job.error.clone(),
        failed_step: job.failed_step.clone(),
        retry_of,
        worker: leased
            .and_then(|hold| hold.worker.clone())
            .or_else(|| job.worker.clone()),
        lease_expires_at: leased.map(|hold| hold.until),
        run_at: delayed.map(|hold| hold.until),
        steps,
    })
}

/// The steps as people see them. Of those that are not done the first is under way, or is where the attempt ended: it began with the
/// attempt, of which `begun` tells the start, or with the end of the step before it.
fn steps_view<'a>(
    names: impl Iterator<Item = &'a str>,
    finished: &[FinishedStep],
    begun: impl Fn(&str) -> Option<Timestamp>,
) -> Vec<StepView> {
    let last = finished.iter().map(|step| step.completed_at).max();
    let mut is_first = true;
    names
        .map(|name| {
            let done = finished.iter().find(|step| step.name == name);
            let started_at = match done {
                Some(done) => done.started_at,
                None if std::mem::take(&mut is_first) => {
                    begun(name).map(|begun| last.map_or(begun, |last| last.max(begun)))
                }
                None => None,
            };
            StepView {
                name: name.to_owned(),
                started_at,
                completed_at: done.map(|done| done.completed_at),
            }
        })
        .collect()
}
