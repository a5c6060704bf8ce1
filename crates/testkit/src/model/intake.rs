//! Intake by the book: the window, repeated submissions, versions (rules I2, I4, I5 and I6).

use docket_core::Timestamp;
use docket_core::limit::{Allowance, WINDOW_MS};
use docket_core::tenant::UploadLimit;
use docket_core::{Refusal, Refused};
use serde_json::{Value, json};

use super::Mutation;
use super::op::Entry;
use super::state::{Item, Job, Lane, Model, State};

/// What becomes of one entry of a submission.
#[derive(Clone, Debug)]
pub(super) enum Taken {
    New { item: usize, job: usize },
    Same { item: usize },
    Version { item: usize, job: usize },
    Refused(Refusal),
}

/// The externalId of a number.
pub(super) fn external_id(name: u8) -> String {
    format!("doc-{name}")
}

/// The payload of a number.
pub(super) fn payload(content: u8) -> Value {
    json!({ "content": content })
}

/// The fields that an item with this content may come with.
pub(super) fn submitted_fields(entry: &Entry) -> Vec<(String, Value)> {
    if entry.fields {
        vec![("total".to_owned(), json!(entry.content))]
    } else {
        Vec::new()
    }
}

impl Model {
    /// Makes the lane of a tenant in a pipeline.
    pub(super) fn add_lane(&mut self, tenant: u8, pipeline: u8) -> usize {
        self.lanes.push(Lane {
            tenant: usize::from(tenant),
            pipeline: usize::from(pipeline),
            jobs: Vec::new(),
            served: None,
        });
        self.lanes.len() - 1
    }

    /// The submissions of a tenant that count now, oldest first.
    fn in_window(&self, tenant: usize) -> Vec<Timestamp> {
        let length = if self.mutated(Mutation::ShortWindow) {
            WINDOW_MS / 2
        } else {
            WINDOW_MS
        };
        let young = |at: &&Timestamp| self.now.since(**at) < length;
        self.tenants[tenant].taken.iter().filter(young).copied().collect()
    }

    /// What a tenant may still submit.
    pub(super) fn allowance(&self, tenant: usize) -> Allowance {
        let UploadLimit::PerHour(limit) = self.tenants[tenant].uploads else {
            return Allowance {
                limit: None,
                remaining: u64::MAX,
                wait_ms: 0,
            };
        };
        let taken = self.in_window(tenant);
        let remaining = (limit as usize).saturating_sub(taken.len());
        // So many have to leave the window before there is a place.
        let too_many = (taken.len() + 1).saturating_sub(limit as usize);
        let wait_ms = match too_many {
            0 => 0,
            n => taken[n - 1].plus_ms(WINDOW_MS).since(self.now),
        };
        Allowance {
            limit: Some(u64::from(limit)),
            remaining: remaining as u64,
            wait_ms,
        }
    }

    /// Submits entries to the lane, one after the other.
    pub(super) fn submit(&mut self, lane: usize, entries: &[Entry]) -> Vec<Taken> {
        entries
            .iter()
            .map(|entry| match self.submit_one(lane, entry) {
                Ok(taken) => taken,
                Err(refusal) => Taken::Refused(refusal),
            })
            .collect()
    }

    fn submit_one(&mut self, lane: usize, entry: &Entry) -> Refused<Taken> {
        let known = self.items.iter().position(|item| {
            let same = match (item.name, entry.name) {
                (Some(has), Some(name)) => has == name,
                // Without an id the content identifies.
                (None, None) => item.content == entry.content,
                _ => false,
            };
            same && item.lane == lane && !item.gone
        });
        match known {
            Some(item) if self.items[item].content == entry.content => return Ok(Taken::Same { item }),
            Some(_) if !entry.new_version => {
                return Err(Refusal::ExternalIdConflict {
                    external_id: entry.name.map(external_id).unwrap_or_default(),
                });
            }
            _ => {}
        }
        let tenant = self.lanes[lane].tenant;
        let allowance = self.allowance(tenant);
        if allowance.remaining == 0 {
            return Err(Refusal::RateLimited {
                limit: allowance.limit.unwrap_or(0),
                wait_ms: allowance.wait_ms,
            });
        }
        if allowance.limit.is_some() {
            let now = self.now;
            self.tenants[tenant].taken.push(now);
        }
        Ok(match known {
            Some(item) => self.next_version(item, entry),
            None => self.new_item(lane, entry),
        })
    }

    fn new_item(&mut self, lane: usize, entry: &Entry) -> Taken {
        let item = self.items.len();
        self.items.push(Item {
            id: None,
            lane,
            name: entry.name,
            content: entry.content,
            version: 1,
            job: 0,
            machine: submitted_fields(entry),
            result: None,
            corrected: Default::default(),
            story: vec!["item.submitted"],
            gone: false,
        });
        let job = self.add_job(item, None);
        Taken::New { item, job }
    }

    fn next_version(&mut self, item: usize, entry: &Entry) -> Taken {
        self.cancel_job(self.items[item].job);
        let row = &mut self.items[item];
        row.version += 1;
        row.content = entry.content;
        row.result = None;
        row.story.push("item.versioned");
        row.says(submitted_fields(entry));
        let job = self.add_job(item, None);
        Taken::Version { item, job }
    }

    /// One more run of an item, at the end of its lane.
    pub(super) fn add_job(&mut self, item: usize, retry_of: Option<usize>) -> usize {
        let job = self.jobs.len();
        let lane = self.items[item].lane;
        self.jobs.push(Job {
            id: None,
            item,
            lane,
            item_version: self.items[item].version,
            state: State::Ready,
            token: 0,
            retries: 0,
            by: None,
            created_at: self.now,
            started_at: None,
            ended_at: None,
            worker: None,
            error: None,
            failed_step: None,
            failure_told: false,
            retry_of,
            steps: retry_of.map_or_else(Default::default, |prior| self.jobs[prior].steps.clone()),
        });
        self.lanes[lane].jobs.push(job);
        self.items[item].job = job;
        if self.mutated(Mutation::CorrectionsForgotten) {
            self.items[item].corrected.clear();
        }
        job
    }
}
