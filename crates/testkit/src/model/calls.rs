//! Each call to the engine beside the same call to the model.

use docket_core::field::MachineField;
use docket_core::id::JobId;
use docket_core::item::ItemDetails;
use docket_core::job::{Failure, JobStatus};
use docket_core::lease::LeaseToken;
use docket_core::{Refused, Timestamp};
use docket_engine::{
    Claim, ClaimedJob, CollectionSettings, Complete, Fail, Heartbeat, PauseTarget, Release, StepDone, Submit,
    SubmitAnswer, SubmitItem, SubmittedItem,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::intake::{Taken, external_id, payload, submitted_fields};
use super::op::{Entry, FIELDS, Pick, STEPS, Which};
use super::run::{Case, Checked, coded, same, taken};
use super::state::{Kept, Paused, State};
use super::work::{AfterFail, Code, Told};
use crate::World;
use crate::world::names;

/// What workers say of a failure.
const ERROR: &str = "boom";

/// A claimed job as far as it is compared.
#[derive(Debug, PartialEq)]
struct Given {
    job: Option<JobId>,
    item: Option<docket_core::id::ItemId>,
    item_version: u32,
    tenant: String,
    collection: String,
    external_id: Option<String>,
    token: i64,
    until: Option<Timestamp>,
    attempt: u32,
    payload: Option<Value>,
    steps: Vec<(String, Option<Value>)>,
}

fn code<T>(answer: Refused<T>) -> Result<T, Code> {
    answer.map_err(|refusal| refusal.code())
}

fn machine(fields: &[(String, Value)]) -> Vec<MachineField> {
    let field = |(name, value): &(String, Value)| MachineField {
        name: name.clone(),
        value: value.clone(),
        confidence: None,
        region: None,
    };
    fields.iter().map(field).collect()
}

/// The fields that a worker hands in: any number of them, by the bits.
fn read_fields(n: u8) -> Vec<(String, Value)> {
    let chosen = FIELDS.iter().enumerate().filter(|(bit, _)| n & (1 << bit) != 0);
    chosen.map(|(_, name)| ((*name).to_owned(), json!(n))).collect()
}

fn given(job: &ClaimedJob) -> Given {
    Given {
        job: Some(job.id),
        item: Some(job.item),
        item_version: job.item_version,
        tenant: job.tenant_id.clone(),
        collection: job.collection_id.clone(),
        external_id: job.external_id.clone(),
        token: job.token.0,
        until: Some(job.lease_expires_at),
        attempt: job.attempt,
        payload: job
            .payload
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok()),
        steps: job
            .steps
            .iter()
            .map(|step| (step.name.clone(), step.output.clone()))
            .collect(),
    }
}

impl Case<'_> {
    pub(super) async fn submit(
        &mut self,
        tenant: u8,
        pipeline: u8,
        entries: &[Entry],
        key: Option<u8>,
    ) -> Checked {
        let lane = match self.model.lane_of(tenant, pipeline) {
            Some(lane) => lane,
            None => self.add_collection(tenant, pipeline).await?,
        };
        let item = |entry: &Entry| SubmitItem {
            payload: payload(entry.content),
            details: ItemDetails {
                external_id: entry.name.map(external_id),
                fields: entry.fields.then(|| machine(&submitted_fields(entry))),
                on_conflict: entry.on_conflict(),
                ..ItemDetails::default()
            },
        };
        let call = Submit {
            collection: names::collection(&self.collection(lane)),
            items: entries.iter().map(item).collect(),
            idempotency_key: key.map(|key| format!("key-{key}")),
        };
        let owner = usize::from(tenant);
        let scope = World::scope(&self.tenant(owner));
        let answer = taken(self.world.engine.submit(&scope, call).await)?;
        if let Some(kept) = key.and_then(|key| self.model.tenants[owner].answers.get(&key)) {
            let repeated = SubmitAnswer {
                results: kept.results.clone(),
                replayed: true,
                request_differs: kept.pipeline != pipeline || kept.entries != entries,
            };
            return same("the repeated answer", &answer, &repeated);
        }
        same("whether it was replayed", &answer.replayed, &false)?;
        let expected = self.model.submit(lane, entries);
        same("the number of results", &answer.results.len(), &expected.len())?;
        for (index, (result, expected)) in answer.results.iter().zip(expected).enumerate() {
            self.adopt(result, expected)
                .map_err(|problem| format!("entry {index}: {problem}"))?;
        }
        if let (Some(key), true) = (key, answer.results.iter().any(Result::is_ok)) {
            let kept = Kept {
                pipeline,
                entries: entries.to_vec(),
                at: self.model.now,
                results: answer.results,
            };
            self.model.tenants[owner].answers.insert(key, kept);
        }
        Ok(())
    }

    /// Compares one result of a submission and remembers what the engine calls what is new.
    fn adopt(&mut self, result: &Refused<SubmittedItem>, expected: Taken) -> Checked {
        let (item, job, duplicate, versioned) = match expected {
            Taken::Refused(refusal) => return same("the result", result, &Err(refusal)),
            Taken::New { item, job } => (item, Some(job), false, false),
            Taken::Same { item } => (item, None, true, false),
            Taken::Version { item, job } => (item, Some(job), false, true),
        };
        let (known_item, known_job) = match result {
            Ok(answer) if !duplicate && !versioned => (Some(answer.id), answer.job),
            Ok(answer) => (self.model.items[item].id, answer.job.filter(|_| versioned)),
            Err(_) => (self.model.items[item].id, None),
        };
        let id = known_item.ok_or_else(|| format!("a new item was expected, not {result:?}"))?;
        let expected = SubmittedItem {
            id,
            job: known_job,
            duplicate,
            versioned,
        };
        same("the result", result, &Ok(expected))?;
        self.model.items[item].id = Some(id);
        match job {
            Some(job) => self.adopt_job(job, known_job),
            None => Ok(()),
        }
    }

    /// Remembers what the engine calls a new job; it must stand behind all others of its lane.
    fn adopt_job(&mut self, job: usize, id: Option<JobId>) -> Checked {
        let id = id.ok_or("a new job was expected")?;
        let lane = &self.model.lanes[self.model.jobs[job].lane].jobs;
        let before = lane.iter().take_while(|other| **other != job).last();
        if let Some(before) = before.and_then(|before| self.model.jobs[*before].id)
            && (before.lane() != id.lane() || before.seq() >= id.seq())
        {
            let (before, after) = (before.seq().0, id.seq().0);
            return Err(format!(
                "the job has number {after}, but the one submitted before it has {before}"
            ));
        }
        self.model.jobs[job].id = Some(id);
        Ok(())
    }

    async fn add_collection(&mut self, tenant: u8, pipeline: u8) -> Checked<usize> {
        let lane = self.model.add_lane(tenant, pipeline);
        let settings = CollectionSettings {
            id: names::collection(&self.collection(lane)),
            tenant: names::tenant(&self.tenant(usize::from(tenant))),
            pipeline: Some(names::pipeline(&self.pipeline(usize::from(pipeline)))),
            review: false,
            settings: json!({}),
        };
        let (engine, who) = (&self.world.engine, World::operator());
        taken(engine.collection_put(&who, settings).await).map(|()| lane)
    }

    fn wish(&self, pipeline: u8, worker: u8, limit: u32, lease_ms: Option<i64>) -> Claim {
        Claim {
            pipeline: names::pipeline(&self.pipeline(usize::from(pipeline))),
            worker: names::worker(&format!("w{worker}")),
            limit,
            lease_ms,
            wait_ms: 0,
        }
    }

    pub(super) async fn claim(
        &mut self,
        pipeline: u8,
        worker: u8,
        limit: u32,
        lease_ms: Option<i64>,
    ) -> Checked {
        let wish = self.wish(pipeline, worker, limit, lease_ms);
        let answer = taken(self.world.engine.claim(wish).await)?;
        let expected = self.model.claim(pipeline, Some(worker), limit, lease_ms);
        self.compare_claimed(&answer, expected)
    }

    /// Who of them gets which job is free; together they get what one claim of as many would.
    pub(super) async fn claim_together(&mut self, pipeline: u8, limits: &[u8]) -> Checked {
        let wishes = limits.iter().zip(10_u8..).map(|(limit, worker)| {
            let wish = self.wish(pipeline, worker, u32::from(*limit), None);
            self.world.engine.claim(wish)
        });
        let mut all = Vec::new();
        let mut workers = Vec::new();
        for ((answer, limit), worker) in join_all(wishes).await.into_iter().zip(limits).zip(10_u8..) {
            let jobs = taken(answer)?;
            if jobs.len() > usize::from(*limit) {
                return Err(format!("{} jobs were given, {limit} were asked for", jobs.len()));
            }
            workers.extend(jobs.iter().map(|job| (job.id, worker)));
            all.extend(jobs);
        }
        let total = limits.iter().map(|limit| u32::from(*limit)).sum();
        let expected = self.model.claim(pipeline, None, total, None);
        all.sort_by_key(|job| (job.id.lane(), job.id.seq()));
        self.compare_claimed(&all, expected)?;
        for (id, worker) in workers {
            let job = self.model.jobs.iter_mut().find(|job| job.id == Some(id));
            job.ok_or("an unknown job was claimed")?.worker = Some(worker);
        }
        Ok(())
    }

    fn compare_claimed(&self, answer: &[ClaimedJob], mut expected: Vec<usize>) -> Checked {
        let numbers = answer.iter().map(|job| (job.id.lane(), job.id.seq()));
        for lane in numbers.clone().map(|(lane, _)| lane) {
            let own: Vec<_> = numbers.clone().filter(|(other, _)| *other == lane).collect();
            if !own.is_sorted() {
                return Err(format!("the jobs of a lane come out of order: {own:?}"));
            }
        }
        let mut got: Vec<_> = answer.iter().map(given).collect();
        got.sort_by_key(|job| self.model.jobs.iter().position(|known| known.id == job.job));
        expected.sort_unstable();
        let expected: Vec<_> = expected.into_iter().map(|job| self.given(job)).collect();
        same("the claimed jobs", &got, &expected)
    }

    fn given(&self, index: usize) -> Given {
        let job = &self.model.jobs[index];
        let item = &self.model.items[job.item];
        let lane = &self.model.lanes[job.lane];
        let until = match job.state {
            State::Leased { until, .. } => Some(until),
            _ => None,
        };
        let output = |name: String| {
            let output = job.steps.get(&name).map(|(output, _)| output.clone());
            (name, output)
        };
        Given {
            job: job.id,
            item: item.id,
            item_version: job.item_version,
            tenant: self.tenant(lane.tenant),
            collection: self.collection(job.lane),
            external_id: item.name.map(external_id),
            token: job.token,
            until,
            attempt: job.retries + 1,
            payload: Some(payload(item.content)),
            steps: self.model.steps_of(index).into_iter().map(output).collect(),
        }
    }

    /// The holds that are meant, and how the engine calls each of them.
    fn holds(&self, which: &[Which]) -> Vec<((usize, i64), JobId, LeaseToken)> {
        let hold = |which: &Which| {
            let (job, token) = self.model.hold(*which)?;
            Some(((job, token), self.model.jobs[job].id?, LeaseToken(token)))
        };
        which.iter().filter_map(hold).collect()
    }

    pub(super) async fn heartbeat(&mut self, which: &[Which], lease_ms: Option<i64>) -> Checked {
        let holds = self.holds(which);
        if holds.is_empty() {
            return Ok(());
        }
        let beat = |(_, job, token): &(_, JobId, LeaseToken)| Heartbeat {
            job: *job,
            token: *token,
            lease_ms,
        };
        let answer = taken(
            self.world
                .engine
                .heartbeat(holds.iter().map(beat).collect())
                .await,
        )?;
        let answer: Vec<_> = answer.into_iter().map(code).collect();
        let expected: Vec<_> = holds
            .iter()
            .map(|(hold, ..)| self.model.heartbeat(*hold, lease_ms))
            .collect();
        same("the heartbeats", &answer, &expected)
    }

    pub(super) async fn step(&mut self, which: Which, step: u8) -> Checked {
        let Some((hold, job, token)) = self.holds(&[which]).pop() else {
            return Ok(());
        };
        let name = STEPS.get(usize::from(step)).copied().unwrap_or("dance");
        let output = json!({ "attempt": token.0 });
        let done = StepDone {
            job,
            token,
            name: name.to_owned(),
            output: output.clone(),
        };
        let answer = coded(self.world.engine.step(done).await)?;
        same("the step", &answer, &self.model.step(hold, name, output))
    }

    pub(super) async fn complete(&mut self, which: &[Which], fields: Option<u8>) -> Checked {
        let holds = self.holds(which);
        if holds.is_empty() {
            return Ok(());
        }
        let (fields, result) = (fields.map(read_fields), json!({ "fields": fields }));
        let complete = |(_, job, token): &(_, JobId, LeaseToken)| Complete {
            result: Some(result.clone()),
            fields: fields.as_deref().map(machine),
            ..Complete::new(*job, *token)
        };
        let answer = taken(
            self.world
                .engine
                .complete(holds.iter().map(complete).collect())
                .await,
        )?;
        let answer: Vec<_> = answer
            .into_iter()
            .map(|done| code(done.map(|done| (Some(done.item), done.repeated))))
            .collect();
        let holds: Vec<_> = holds.into_iter().map(|(hold, ..)| hold).collect();
        let expected = self.model.complete(&holds, &result, fields.as_deref());
        let id = |(item, repeated): (usize, bool)| (self.model.items[item].id, repeated);
        let expected: Vec<_> = expected.into_iter().map(|done| done.map(id)).collect();
        same("the completions", &answer, &expected)
    }

    pub(super) async fn fail(&mut self, which: &[Which], retryable: bool, step: Option<u8>) -> Checked {
        let holds = self.holds(which);
        if holds.is_empty() {
            return Ok(());
        }
        let step = step.map(|step| STEPS.get(usize::from(step)).copied().unwrap_or("dance"));
        let fail = |(_, job, token): &(_, JobId, LeaseToken)| Fail {
            job: *job,
            token: *token,
            failure: Failure {
                error: ERROR.to_owned(),
                step: step.map(str::to_owned),
                retryable,
            },
        };
        let answer = taken(self.world.engine.fail(holds.iter().map(fail).collect()).await)?;
        same("the number of results", &answer.len(), &holds.len())?;
        let told = Told {
            error: ERROR,
            step,
            retryable,
        };
        for (index, (answer, (hold, ..))) in answer.into_iter().zip(holds).enumerate() {
            let answer = code(answer).map(|failed| (failed.status, failed.run_at));
            let expected = match self.model.fail(hold, told) {
                Err(code) => Err(code),
                Ok(AfterFail::Failed) => Ok((JobStatus::Failed, None)),
                Ok(AfterFail::At(until)) => Ok((JobStatus::Pending, Some(until))),
                Ok(AfterFail::Within(from, to)) => {
                    // The engine draws the moment; it has to lie within the bounds, and the model follows it.
                    let drawn = answer.ok().and_then(|(_, run_at)| run_at);
                    let until = drawn.filter(|at| (from..=to).contains(at)).unwrap_or(to);
                    self.model.jobs[hold.0].state = State::Delayed { until };
                    Ok((JobStatus::Pending, Some(until)))
                }
            };
            same(&format!("failure {index}"), &answer, &expected)?;
        }
        Ok(())
    }

    pub(super) async fn release(&mut self, which: &[Which]) -> Checked {
        let holds = self.holds(which);
        if holds.is_empty() {
            return Ok(());
        }
        let release = |(_, job, token): &(_, JobId, LeaseToken)| Release {
            job: *job,
            token: *token,
        };
        let answer = taken(
            self.world
                .engine
                .release(holds.iter().map(release).collect())
                .await,
        )?;
        let answer: Vec<_> = answer.into_iter().map(code).collect();
        let expected: Vec<_> = holds.iter().map(|(hold, ..)| self.model.release(*hold)).collect();
        same("the releases", &answer, &expected)
    }

    pub(super) async fn cancel(&mut self, item: usize) -> Checked {
        let id = self.model.items[item].id.ok_or("an item without an id")?;
        let answer = coded(self.world.engine.cancel(&self.scope(item), id).await)?;
        same("the cancellation", &answer, &self.model.cancel(item))
    }

    pub(super) async fn again(&mut self, item: usize, retry: bool) -> Checked {
        let id = self.model.items[item].id.ok_or("an item without an id")?;
        let (engine, scope) = (&self.world.engine, self.scope(item));
        let (answer, expected) = if retry {
            (coded(engine.retry(&scope, id).await)?, self.model.retry(item))
        } else {
            (
                coded(engine.reprocess(&scope, id).await)?,
                self.model.reprocess(item),
            )
        };
        same(
            "whether there is a new job",
            &answer.map(drop),
            &expected.map(drop),
        )?;
        match expected {
            Ok(job) => self.adopt_job(job, answer.ok()),
            Err(_) => Ok(()),
        }
    }

    pub(super) async fn correct(&mut self, item: Pick, field: u8, value: u8) -> Checked {
        let field = usize::from(field) % FIELDS.len();
        let has_it = |item| {
            self.model
                .fields(item)
                .iter()
                .any(|(name, ..)| name == FIELDS[field])
        };
        let Some(item) = self.model.pick(item, has_it) else {
            return Ok(());
        };
        let id = self.model.items[item].id.ok_or("an item without an id")?;
        let value = json!(format!("by hand {value}"));
        let correction = vec![(FIELDS[field].to_owned(), value.clone())];
        let (engine, scope) = (&self.world.engine, self.scope(item));
        let answer = coded(engine.fields_correct(&scope, id, correction).await)?;
        same("the correction", &answer, &self.model.correct(item, field, value))
    }

    pub(super) async fn pause(&mut self, of: Option<Paused>, target: PauseTarget) -> Checked {
        let (engine, who) = (&self.world.engine, World::operator());
        let answer = coded(engine.pause(&who, target, "because").await)?;
        let expected = self.model.pause(of);
        same("the pause", &answer.map(drop), &expected.map(drop))?;
        if let (Ok(id), Ok(pause)) = (answer, expected) {
            self.model.pauses[pause].id = Some(id);
        }
        Ok(())
    }

    pub(super) async fn resume(&mut self, pause: usize) -> Checked {
        let id = self.model.pauses[pause].id.ok_or("a pause without an id")?;
        let answer = coded(self.world.engine.resume(&World::operator(), id).await)?;
        same("the resumption", &answer, &self.model.resume(pause))
    }
}
