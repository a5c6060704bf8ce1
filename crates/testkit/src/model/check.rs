//! What is compared besides the answers: everything that can be looked at.

use std::collections::BTreeMap;

use docket_core::Timestamp;
use docket_core::id::JobId;
use docket_core::item::ItemStatus;
use docket_core::job::JobStatus;
use docket_engine::{ItemFilter, ItemView, JobView, LogPosition};
use futures_util::future::join_all;
use serde_json::Value;

use super::intake::{external_id, payload};
use super::run::{Case, Checked, coded, same, taken};
use super::state::State;
use crate::World;
use crate::world::names;

/// An item as people see it, as far as it is compared.
#[derive(Debug, PartialEq)]
struct Seen {
    status: ItemStatus,
    version: i64,
    external_id: Option<String>,
    payload: Option<Value>,
    result: Option<Value>,
    /// Name, value, and whether a person set it.
    fields: Vec<(String, Value, bool)>,
    ahead: Option<u64>,
    job: SeenJob,
}

/// A job as people see it, as far as it is compared.
#[derive(Debug, PartialEq)]
struct SeenJob {
    id: Option<JobId>,
    pipeline: String,
    status: JobStatus,
    retry_count: u32,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    error: Option<String>,
    failed_step: Option<String>,
    retry_of: Option<JobId>,
    worker: Option<String>,
    lease_expires_at: Option<Timestamp>,
    run_at: Option<Timestamp>,
    steps: Vec<(String, Option<Timestamp>)>,
}

fn json_of(text: Option<&String>) -> Option<Value> {
    text.and_then(|text| serde_json::from_str(text).ok())
}

fn seen_job(job: &JobView) -> SeenJob {
    SeenJob {
        id: Some(job.id),
        pipeline: job.pipeline.clone(),
        status: job.status,
        retry_count: job.retry_count,
        created_at: job.created_at,
        started_at: job.started_at,
        completed_at: job.completed_at,
        error: job.error.clone(),
        failed_step: job.failed_step.clone(),
        retry_of: job.retry_of,
        worker: job.worker.clone(),
        lease_expires_at: job.lease_expires_at,
        run_at: job.run_at,
        steps: job
            .steps
            .iter()
            .map(|step| (step.name.clone(), step.completed_at))
            .collect(),
    }
}

fn seen(view: &ItemView) -> Checked<Seen> {
    let field = |field: &docket_core::field::Field| (field.name.clone(), field.value.clone(), field.locked);
    Ok(Seen {
        status: view.item.status,
        version: view.item.version,
        external_id: view.item.external_id.clone(),
        payload: json_of(view.item.payload.as_ref()),
        result: json_of(view.result.as_ref()),
        fields: view.fields.iter().map(field).collect(),
        ahead: view.position.map(|position| position.ahead),
        job: view.job.as_ref().map(seen_job).ok_or("the item has no job")?,
    })
}

impl Case<'_> {
    /// Compares what can be looked at; at the end also what only says the same in another way.
    pub(super) async fn check(&self, at_the_end: bool) -> Checked {
        let items = (0..self.model.items.len()).map(|item| self.check_item(item, at_the_end));
        let items = join_all(items).await;
        for (item, checked) in items.into_iter().enumerate() {
            checked.map_err(|problem| format!("item {item}: {problem}"))?;
        }
        for tenant in 0..self.model.tenants.len() {
            let scope = World::scope(&self.tenant(tenant));
            let allowance = taken(self.world.engine.limits(&scope).await)?;
            same(
                &format!("what tenant {tenant} may submit"),
                &allowance,
                &self.model.allowance(tenant),
            )?;
        }
        for lane in 0..self.model.lanes.len() {
            self.check_counts(lane).await?;
        }
        for (n, versions) in self.model.pipelines.iter().enumerate() {
            let name = names::pipeline(&self.pipeline(n));
            let present = taken(self.world.engine.pipeline(&name).await)?;
            same("the pipeline", &Some(&present), &versions.last())?;
        }
        let pauses = taken(self.world.engine.pauses().await)?.len();
        let standing = self.model.pauses.iter().filter(|pause| !pause.lifted).count();
        same("the number of pauses", &pauses, &standing)?;
        self.doctor().await
    }

    /// The doctor must find nothing.
    pub(super) async fn doctor(&self) -> Checked {
        let found = taken(self.world.engine.doctor().await)?;
        if found.is_empty() {
            return Ok(());
        }
        Err(format!("the doctor found:\n{}", found.join("\n")))
    }

    async fn check_counts(&self, lane: usize) -> Checked {
        let collection = names::collection(&self.collection(lane));
        let scope = World::scope(&self.tenant(self.model.lanes[lane].tenant));
        let counts = taken(self.world.engine.counts(&scope, &collection).await)?;
        let mut expected = BTreeMap::new();
        for item in 0..self.model.items.len() {
            if self.model.items[item].lane == lane && !self.model.items[item].gone {
                *expected
                    .entry(self.model.status(item).counted_as())
                    .or_insert(0_i64) += 1;
            }
        }
        same(&format!("the counts of lane {lane}"), &counts, &expected)?;
        let filter = ItemFilter {
            collection: Some(collection),
            status: None,
            external_id: None,
            before: None,
            limit: 200,
        };
        let page = taken(self.world.engine.items(&scope, filter).await)?;
        let listed: BTreeMap<_, _> = page
            .items
            .iter()
            .map(|item| (Some(item.id), item.status))
            .collect();
        let there = (0..self.model.items.len()).filter(|item| {
            let row = &self.model.items[*item];
            row.lane == lane && !row.gone
        });
        let expected = there.map(|item| (self.model.items[item].id, self.model.status(item)));
        same(&format!("the items of lane {lane}"), &listed, &expected.collect())
    }

    async fn check_item(&self, item: usize, at_the_end: bool) -> Checked {
        let (engine, scope, row) = (&self.world.engine, self.scope(item), &self.model.items[item]);
        let id = row.id.ok_or("it has no id")?;
        let view = coded(engine.item(&scope, id).await)?;
        if row.gone {
            return same("whether it is there", &view.map(drop), &Err("not_found"));
        }
        let view = view.map_err(|code| format!("the engine refused: {code}"))?;
        let ahead = self.model.ahead(row.job);
        let expected = Seen {
            status: self.model.status(item),
            version: i64::from(row.version),
            external_id: row.name.map(external_id),
            payload: Some(payload(row.content)),
            result: row.result.clone(),
            fields: self.model.fields(item),
            ahead,
            job: self.seen_job(row.job),
        };
        same("what is seen of it", &seen(&view)?, &expected)?;
        if !at_the_end {
            return Ok(());
        }
        let runs = taken(engine.jobs(&scope, id).await)?;
        let own = (0..self.model.jobs.len())
            .rev()
            .filter(|job| self.model.jobs[*job].item == item);
        let expected: Vec<_> = own.map(|job| self.seen_job(job)).collect();
        same("its runs", &runs.iter().map(seen_job).collect(), &expected)?;
        let place = coded(engine.position(&scope, id).await)?.map(|place| place.ahead);
        same("its place", &place, &ahead.ok_or("conflict"))?;
        let entries = taken(engine.timeline(&scope, id, LogPosition::default(), 200).await)?;
        let story: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
        same("its story", &story, &row.story)
    }

    fn seen_job(&self, index: usize) -> SeenJob {
        let job = &self.model.jobs[index];
        let (lease_expires_at, run_at) = match job.state {
            State::Leased { until, .. } => (Some(until), None),
            State::Delayed { until } => (None, Some(until)),
            _ => (None, None),
        };
        let done = |name: String| {
            let at = job.steps.get(&name).map(|(_, at)| *at);
            (name, at)
        };
        SeenJob {
            id: job.id,
            pipeline: self.pipeline(self.model.lanes[job.lane].pipeline),
            status: job.state.status(),
            retry_count: job.retries,
            created_at: job.created_at,
            started_at: job.started_at,
            completed_at: job.ended_at,
            error: job.error.clone(),
            failed_step: job.failed_step.clone(),
            retry_of: job.retry_of.and_then(|prior| self.model.jobs[prior].id),
            worker: job.worker.map(|worker| format!("w{worker}")),
            lease_expires_at,
            run_at,
            steps: self.model.steps_of(index).into_iter().map(done).collect(),
        }
    }
}
