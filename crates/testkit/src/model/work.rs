//! Processing by the book: what a worker's words and the passing of time do to a job (rules P5 to P9, P12, V10, V11).

use docket_core::Timestamp;
use docket_core::item::ItemStatus;
use docket_core::job::stale_message;
use docket_core::pipeline::{OnStale, Pipeline};
use docket_engine::Reaped;
use serde_json::Value;

use super::op::FIELDS;
use super::state::{KEEP_ANSWERS_MS, KEEP_FINISHED_MS, Model, State};

/// The code of a refusal.
pub(super) type Code = &'static str;

/// What becomes of a job that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AfterFail {
    /// It is given up.
    Failed,
    /// It is tried again, between these moments; the engine draws which.
    Within(Timestamp, Timestamp),
    /// It is tried again at this moment, as was said before.
    At(Timestamp),
}

/// A failure as a worker tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) error: &'a str,
    pub(super) step: Option<&'a str>,
    pub(super) retryable: bool,
}

impl Model {
    /// The definition by which a job's latest attempt runs.
    fn definition(&self, job: usize) -> &Pipeline {
        let versions = &self.pipelines[self.lanes[self.jobs[job].lane].pipeline];
        &versions[self.jobs[job].by.unwrap_or(versions.len() - 1)]
    }

    /// The names of the steps by which a job is shown.
    pub(super) fn steps_of(&self, job: usize) -> Vec<String> {
        let steps = &self.definition(job).steps;
        steps.iter().map(|step| step.as_str().to_owned()).collect()
    }

    fn holds(&self, (job, token): (usize, i64)) -> Result<(), Code> {
        let row = &self.jobs[job];
        if row.state.leased() && row.token == token {
            Ok(())
        } else {
            Err("lease_lost")
        }
    }

    fn tell(&mut self, job: usize, action: &'static str) {
        let item = self.jobs[job].item;
        self.items[item].story.push(action);
    }

    fn end(&mut self, job: usize, state: State) {
        self.jobs[job].state = state;
        self.jobs[job].ended_at = Some(self.now);
    }

    /// A sign of life; the new end of the lease.
    pub(super) fn heartbeat(&mut self, hold: (usize, i64), lease_ms: Option<i64>) -> Result<Timestamp, Code> {
        self.holds(hold)?;
        let now = self.now;
        let state = &mut self.jobs[hold.0].state;
        let State::Leased { until, lease_ms: own } = state else {
            return Err("lease_lost");
        };
        *own = lease_ms.unwrap_or(*own);
        *until = now.plus_ms(*own);
        Ok(*until)
    }

    /// A finished step.
    pub(super) fn step(&mut self, hold: (usize, i64), name: &str, output: Value) -> Result<(), Code> {
        self.holds(hold)?;
        if self.definition(hold.0).step_number(name).is_none() {
            return Err("validation_failed");
        }
        let now = self.now;
        self.jobs[hold.0].steps.insert(name.to_owned(), (output, now));
        self.tell(hold.0, "job.step_completed");
        Ok(())
    }

    /// Jobs that are done; for each its item, and whether that was said before. Naming a job twice is refused.
    pub(super) fn complete(
        &mut self,
        holds: &[(usize, i64)],
        result: &Value,
        fields: Option<&[(String, Value)]>,
    ) -> Vec<Result<(usize, bool), Code>> {
        let one = |(index, hold): (usize, &(usize, i64))| {
            if holds[..index].iter().any(|(job, _)| *job == hold.0) {
                return Err("validation_failed");
            }
            self.complete_one(*hold, result, fields)
        };
        holds.iter().enumerate().map(one).collect()
    }

    fn complete_one(
        &mut self,
        (job, token): (usize, i64),
        result: &Value,
        fields: Option<&[(String, Value)]>,
    ) -> Result<(usize, bool), Code> {
        let item = self.jobs[job].item;
        let done = matches!(self.jobs[job].state, State::Completed);
        if done && self.jobs[job].token == token && !self.items[item].gone {
            return Ok((item, true));
        }
        self.holds((job, token))?;
        self.end(job, State::Completed);
        self.jobs[job].error = None;
        self.jobs[job].failed_step = None;
        self.tell(job, "job.completed");
        let row = &mut self.items[item];
        row.result = Some(result.clone());
        if let Some(fields) = fields {
            row.says(fields.to_vec());
        }
        Ok((item, false))
    }

    /// An attempt that failed.
    pub(super) fn fail(&mut self, (job, token): (usize, i64), told: Told) -> Result<AfterFail, Code> {
        let definition = self.definition(job).clone();
        let message = match told.step.map(|step| definition.step_number(step)) {
            None => Ok(told.error.to_owned()),
            Some(Some(number)) => Ok(format!("Step {number} failed: {}", told.error)),
            Some(None) => Err("validation_failed"),
        };
        let row = &self.jobs[job];
        if row.token == token && row.failure_told && !self.items[row.item].gone {
            // Said before by the same holder.
            match row.state {
                State::Delayed { until } => return Ok(AfterFail::At(until)),
                State::Failed if row.error == message.clone().ok() => return Ok(AfterFail::Failed),
                _ => {}
            }
        }
        self.holds((job, token))?;
        let message = message?;
        self.tell(job, "job.failed");
        let now = self.now;
        let row = &mut self.jobs[job];
        row.error = Some(message);
        row.failed_step = told.step.map(str::to_owned);
        row.failure_told = true;
        if !told.retryable || row.retries + 1 >= definition.max_attempts {
            self.end(job, State::Failed);
            return Ok(AfterFail::Failed);
        }
        row.retries += 1;
        let (base, most) = (definition.backoff.base_ms, definition.backoff.max_ms);
        let full = (base << (row.retries - 1)).min(most);
        let (from, to) = (now.plus_ms(full / 2), now.plus_ms(full));
        row.state = State::Delayed { until: to };
        Ok(AfterFail::Within(from, to))
    }

    /// A job that its worker hands back.
    pub(super) fn release(&mut self, hold: (usize, i64)) -> Result<(), Code> {
        self.holds(hold)?;
        self.jobs[hold.0].state = State::Ready;
        self.tell(hold.0, "job.released");
        Ok(())
    }

    /// Leases that ran out or fell silent, and waits that are over.
    pub(super) fn reap(&mut self, older_than_ms: Option<i64>) -> Reaped {
        let mut reaped = Reaped::default();
        for job in 0..self.jobs.len() {
            match self.jobs[job].state {
                State::Delayed { until } if until <= self.now => {
                    self.jobs[job].state = State::Ready;
                    reaped.resumed += 1;
                }
                State::Leased { until, lease_ms } => {
                    let silent_ms = self.now.since(until.plus_ms(-lease_ms));
                    if until <= self.now || older_than_ms.is_some_and(|ms| silent_ms >= ms) {
                        self.stale(job, lease_ms, silent_ms, &mut reaped);
                    }
                }
                _ => {}
            }
        }
        reaped
    }

    fn stale(&mut self, job: usize, lease_ms: i64, silent_ms: i64, reaped: &mut Reaped) {
        self.tell(job, "job.stale");
        let definition = self.definition(job);
        let again =
            definition.on_stale == OnStale::Requeue && self.jobs[job].retries + 1 < definition.max_attempts;
        self.jobs[job].error = Some(stale_message(lease_ms, silent_ms));
        self.jobs[job].failed_step = None;
        if again {
            self.jobs[job].retries += 1;
            self.jobs[job].state = State::Ready;
            reaped.requeued += 1;
        } else {
            self.end(job, State::Failed);
            reaped.failed += 1;
        }
    }

    /// Takes a job back if it is alive.
    pub(super) fn cancel_job(&mut self, job: usize) {
        if self.jobs[job].state.pending() || self.jobs[job].state.leased() {
            self.end(job, State::Cancelled);
            self.tell(job, "job.cancelled");
        }
    }

    fn there(&self, item: usize) -> Result<ItemStatus, Code> {
        if self.items[item].gone {
            return Err("not_found");
        }
        Ok(self.status(item))
    }

    /// Takes an item back.
    pub(super) fn cancel(&mut self, item: usize) -> Result<(), Code> {
        if !matches!(self.there(item)?, ItemStatus::Queued | ItemStatus::Processing) {
            return Err("conflict");
        }
        self.cancel_job(self.items[item].job);
        self.items[item].story.push("item.cancelled");
        Ok(())
    }

    /// A new run of a failed item, with what its last one has finished.
    pub(super) fn retry(&mut self, item: usize) -> Result<usize, Code> {
        if self.there(item)? != ItemStatus::Failed {
            return Err("not_failed");
        }
        self.items[item].story.push("job.retried");
        Ok(self.add_job(item, Some(self.items[item].job)))
    }

    /// A new run of an item, from the start.
    pub(super) fn reprocess(&mut self, item: usize) -> Result<usize, Code> {
        if matches!(self.there(item)?, ItemStatus::Queued | ItemStatus::Processing) {
            return Err("conflict");
        }
        self.items[item].story.push("item.reprocessed");
        Ok(self.add_job(item, None))
    }

    /// The fields of an item: the machine's in their order, people's values over them; then people's alone, by name.
    pub(super) fn fields(&self, item: usize) -> Vec<(String, Value, bool)> {
        let row = &self.items[item];
        let said = row
            .machine
            .iter()
            .map(|(name, value)| match row.corrected.get(name) {
                Some((right, _)) => (name.clone(), right.clone(), true),
                None => (name.clone(), value.clone(), false),
            });
        let unsaid = row
            .corrected
            .iter()
            .filter(|(name, _)| !row.machine.iter().any(|(said, _)| said == *name));
        said.chain(unsaid.map(|(name, (right, _))| (name.clone(), right.clone(), true)))
            .collect()
    }

    /// Sets and locks a field.
    pub(super) fn correct(&mut self, item: usize, field: usize, value: Value) -> Result<(), Code> {
        self.there(item)?;
        let name = FIELDS[field];
        if !self.fields(item).iter().any(|(known, _, _)| known == name) {
            return Err("validation_failed");
        }
        let now = self.now;
        self.items[item].corrected.insert(name.to_owned(), (value, now));
        self.items[item].story.push("field.corrected");
        Ok(())
    }

    /// Forgets what is kept no longer.
    pub(super) fn retain(&mut self) {
        for item in 0..self.items.len() {
            let job = &self.jobs[self.items[item].job];
            let old = job
                .ended_at
                .is_some_and(|at| self.now.since(at) >= KEEP_FINISHED_MS);
            self.items[item].gone |= old;
        }
        for tenant in &mut self.tenants {
            tenant
                .answers
                .retain(|_, kept| self.now.since(kept.at) < KEEP_ANSWERS_MS);
        }
    }
}
