//! What the model remembers.

use std::collections::BTreeMap;

use docket_core::id::{ItemId, JobId, PauseId};
use docket_core::item::{ItemStatus, OnConflict};
use docket_core::job::JobStatus;
use docket_core::pipeline::Pipeline;
use docket_core::tenant::UploadLimit;
use docket_core::{Refused, Timestamp};
use docket_engine::SubmittedItem;
use serde_json::Value;

use super::Mutation;
use super::op::{Definition, Entry, PIPELINES, Pick, TENANTS, Which};

/// How long finished items are kept in these tests.
pub const KEEP_FINISHED_MS: i64 = 6 * 3_600_000;
/// How long answers are kept for repeated calls.
pub const KEEP_ANSWERS_MS: i64 = 86_400_000;

/// All that the model knows of a case.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Model {
    pub now: Timestamp,
    pub tenants: Vec<Tenant>,
    /// All versions of each pipeline, the present one last.
    pub pipelines: Vec<Vec<Pipeline>>,
    /// In the order in which they were made.
    pub lanes: Vec<Lane>,
    pub items: Vec<Item>,
    pub jobs: Vec<Job>,
    /// Every hold that was ever given out: the job and its token.
    pub grants: Vec<(usize, i64)>,
    /// Every pause that was ever set; lifted ones stay, to be lifted again.
    pub pauses: Vec<Pause>,
    /// How often a lane was served.
    pub turns: u64,
    pub mutation: Option<Mutation>,
}

/// A tenant.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Tenant {
    pub uploads: UploadLimit,
    pub jobs: u32,
    /// When each submission that counted against a limit was taken.
    pub taken: Vec<Timestamp>,
    /// The answers that are kept.
    pub answers: BTreeMap<u8, Kept>,
}

/// An answer that is kept for an idempotency key.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Kept {
    pub pipeline: u8,
    pub entries: Vec<Entry>,
    pub at: Timestamp,
    pub results: Vec<Refused<SubmittedItem>>,
}

/// A lane.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Lane {
    pub tenant: usize,
    pub pipeline: usize,
    /// Its jobs in the order of their submission.
    pub jobs: Vec<usize>,
    /// The turn at which it was last served.
    pub served: Option<u64>,
}

/// An item.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Item {
    /// As the engine calls it.
    pub id: Option<ItemId>,
    pub lane: usize,
    pub name: Option<u8>,
    pub content: u8,
    pub version: u32,
    /// The run that tells its status.
    pub job: usize,
    /// What machines say of this version, and its result.
    pub machine: Vec<(String, Value)>,
    pub result: Option<Value>,
    /// What people say.
    pub corrected: BTreeMap<String, (Value, Timestamp)>,
    /// The actions of its log.
    pub story: Vec<&'static str>,
    /// Whether it was forgotten.
    pub gone: bool,
}

impl Item {
    /// A machine says this of it: what a person has corrected stays.
    pub fn says(&mut self, fields: Vec<(String, Value)>) {
        let kept = fields
            .iter()
            .filter(|(name, _)| self.corrected.contains_key(name));
        self.story.extend(kept.map(|_| "field.kept_locked"));
        self.machine = fields;
    }
}

/// A job.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Job {
    /// As the engine calls it.
    pub id: Option<JobId>,
    pub item: usize,
    pub lane: usize,
    pub item_version: u32,
    pub state: State,
    pub token: i64,
    /// Attempts behind it.
    pub retries: u32,
    /// The version of its pipeline by which its latest attempt runs.
    pub by: Option<usize>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub worker: Option<u8>,
    pub error: Option<String>,
    pub failed_step: Option<String>,
    /// Whether its worker said that it failed, with the token it has now.
    pub failure_told: bool,
    pub retry_of: Option<usize>,
    /// Finished steps: what came out and when.
    pub steps: BTreeMap<String, (Value, Timestamp)>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub enum State {
    Ready,
    Delayed { until: Timestamp },
    Leased { until: Timestamp, lease_ms: i64 },
    Completed,
    Failed,
    Cancelled,
}

/// A pause.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Pause {
    pub id: Option<PauseId>,
    pub of: Paused,
    pub lifted: bool,
}

/// What a pause stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub enum Paused {
    All,
    Pipeline(usize),
    Lane(usize),
}

impl State {
    /// The state as people see it.
    pub const fn status(self) -> JobStatus {
        match self {
            Self::Ready | Self::Delayed { .. } => JobStatus::Pending,
            Self::Leased { .. } => JobStatus::Processing,
            Self::Completed => JobStatus::Completed,
            Self::Failed => JobStatus::Failed,
            Self::Cancelled => JobStatus::Cancelled,
        }
    }

    /// Whether it waits, for a worker or for its next attempt.
    pub const fn pending(self) -> bool {
        matches!(self, Self::Ready | Self::Delayed { .. })
    }

    /// Whether it runs.
    pub const fn leased(self) -> bool {
        matches!(self, Self::Leased { .. })
    }
}

impl Entry {
    /// What its submitter wants should the externalId be taken.
    pub const fn on_conflict(self) -> OnConflict {
        if self.new_version {
            OnConflict::NewVersion
        } else {
            OnConflict::Refuse
        }
    }
}

impl Model {
    /// A case before anything has happened: two tenants without a limit of submissions, two with one.
    pub fn new(now: Timestamp, mutation: Option<Mutation>) -> Self {
        let tenant = |n: u8| Tenant {
            uploads: if n < 2 {
                UploadLimit::Unlimited
            } else {
                UploadLimit::PerHour(u32::from(n) * 4)
            },
            jobs: u32::from(n) + 1,
            taken: Vec::new(),
            answers: BTreeMap::new(),
        };
        Self {
            now,
            tenants: (0..TENANTS).map(tenant).collect(),
            pipelines: vec![vec![Definition::FIRST.pipeline()]; usize::from(PIPELINES)],
            lanes: Vec::new(),
            items: Vec::new(),
            jobs: Vec::new(),
            grants: Vec::new(),
            pauses: Vec::new(),
            turns: 0,
            mutation,
        }
    }

    /// Whether this rule is made wrong.
    pub fn mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// What an item is: its latest job tells.
    pub fn status(&self, item: usize) -> ItemStatus {
        match self.jobs[self.items[item].job].state {
            State::Ready | State::Delayed { .. } => ItemStatus::Queued,
            State::Leased { .. } => ItemStatus::Processing,
            State::Completed => ItemStatus::Completed,
            State::Failed => ItemStatus::Failed,
            State::Cancelled => ItemStatus::Cancelled,
        }
    }

    /// The lane of a tenant in a pipeline, if it has one.
    pub fn lane_of(&self, tenant: u8, pipeline: u8) -> Option<usize> {
        let (tenant, pipeline) = (usize::from(tenant), usize::from(pipeline));
        self.lanes
            .iter()
            .position(|lane| lane.tenant == tenant && lane.pipeline == pipeline)
    }

    /// The job and token that somebody speaks for; none while there is nothing to speak for.
    pub fn hold(&self, which: Which) -> Option<(usize, i64)> {
        let alive = |n: u8| {
            let live: Vec<_> = (0..self.jobs.len())
                .filter(|job| self.jobs[*job].state.leased())
                .collect();
            let job = live.get(usize::from(n) % live.len().max(1))?;
            Some((*job, self.jobs[*job].token))
        };
        match which {
            Which::Live(n) => alive(n),
            Which::Past(n) => self
                .grants
                .get(usize::from(n) % self.grants.len().max(1))
                .copied(),
            Which::Forged(n) => alive(n).map(|(job, token)| (job, token + 1)),
        }
    }

    /// The item that somebody means; none while there are none.
    pub fn pick(&self, pick: Pick, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let any = |n: u8| (!self.items.is_empty()).then(|| usize::from(n) % self.items.len());
        match pick {
            Pick::Any(n) => any(n),
            Pick::Fit(n) => {
                let fitting: Vec<_> = (0..self.items.len())
                    .filter(|item| !self.items[*item].gone && fits(*item))
                    .collect();
                let chosen = fitting.get(usize::from(n) % fitting.len().max(1)).copied();
                chosen.or_else(|| any(n))
            }
        }
    }
}
