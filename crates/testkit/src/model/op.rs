//! The operations of the state-machine test. They name things by small numbers, taken modulo what there is, so that a list of
//! operations stays meaningful when some of them are taken out; the debug text of a list is Rust that can be pasted into a
//! test.

use docket_core::backoff::Backoff;
use docket_core::name::StepName;
use docket_core::pipeline::{OnStale, Pipeline};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// How many tenants a case has.
pub const TENANTS: u8 = 4;
/// How many pipelines a case has.
pub const PIPELINES: u8 = 2;
/// The steps that a pipeline may have.
pub const STEPS: [&str; 3] = ["read", "extract", "check"];
/// The fields that items may have.
pub const FIELDS: [&str; 3] = ["total", "vendor", "note"];

/// One thing that somebody does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub enum Op {
    Submit {
        tenant: u8,
        pipeline: u8,
        entries: Vec<Entry>,
        key: Option<u8>,
    },
    Claim {
        pipeline: u8,
        worker: u8,
        limit: u8,
        lease_s: Option<u8>,
    },
    /// Several workers at once; their calls may ride together.
    ClaimTogether {
        pipeline: u8,
        limits: Vec<u8>,
    },
    Heartbeat {
        holds: Vec<Which>,
        lease_s: Option<u8>,
    },
    Step {
        hold: Which,
        step: u8,
    },
    Complete {
        holds: Vec<Which>,
        fields: Option<u8>,
    },
    Fail {
        holds: Vec<Which>,
        retryable: bool,
        step: Option<u8>,
    },
    Release {
        holds: Vec<Which>,
    },
    Reap {
        older_than_s: Option<u16>,
    },
    Cancel {
        item: Pick,
    },
    Retry {
        item: Pick,
    },
    Reprocess {
        item: Pick,
    },
    Correct {
        item: Pick,
        field: u8,
        value: u8,
    },
    PauseAll,
    PausePipeline {
        pipeline: u8,
    },
    PauseLane {
        tenant: u8,
        pipeline: u8,
    },
    /// Even numbers lift a pause that stands, odd ones any that ever was.
    Resume {
        pause: u8,
    },
    /// None for no limit of submissions.
    Limits {
        tenant: u8,
        jobs: u8,
        uploads: Option<u8>,
    },
    Define {
        pipeline: u8,
        definition: Definition,
    },
    Pass {
        ms: i64,
    },
    Fold,
    Retain,
}

/// One item of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Entry {
    /// The externalId; none for an item that its content identifies.
    pub name: Option<u8>,
    pub content: u8,
    pub new_version: bool,
    /// Whether it comes with fields.
    pub fields: bool,
}

/// Which hold of a job somebody speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// One that is alive.
    Live(u8),
    /// Any that ever was, alive or not.
    Past(u8),
    /// One that is alive, with a token that nobody was given yet.
    Forged(u8),
}

/// Which item somebody means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// One for which it can be done, if there is one.
    Fit(u8),
    /// Any that ever was.
    Any(u8),
}

/// What a pipeline is changed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Which of [`STEPS`] it has, by bits.
    pub steps: u8,
    /// Whether a job that waits holds up its lane.
    pub strict: bool,
    /// Whether what is stale fails.
    pub stale_fails: bool,
    /// How often a job is tried.
    pub attempts: u8,
}

impl Definition {
    /// What the pipelines of a case begin with.
    pub const FIRST: Self = Self {
        steps: 0b011,
        strict: false,
        stale_fails: false,
        attempts: 3,
    };

    /// The definition in full.
    pub fn pipeline(&self) -> Pipeline {
        let chosen = STEPS
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.steps & (1 << bit) != 0);
        Pipeline {
            steps: chosen.map(|(_, name)| StepName::new(*name).unwrap()).collect(),
            lease_ms: 60_000,
            on_stale: if self.stale_fails {
                OnStale::Fail
            } else {
                OnStale::Requeue
            },
            max_attempts: u32::from(self.attempts.max(1)),
            backoff: Backoff {
                base_ms: 1_000,
                max_ms: 5_000,
            },
            strict: self.strict,
            // Reviews have a model of their own, `desk_model`.
            review: false,
        }
    }
}

fn entry() -> impl Strategy<Value = Entry> {
    let name = prop_oneof![1 => Just(None), 3 => (0_u8..5).prop_map(Some)];
    (name, 0_u8..4, any::<bool>(), prop::bool::weighted(0.3)).prop_map(
        |(name, content, new_version, fields)| Entry {
            name,
            content,
            new_version,
            fields,
        },
    )
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![
        7 => (0_u8..8).prop_map(Which::Live),
        2 => any::<u8>().prop_map(Which::Past),
        1 => (0_u8..8).prop_map(Which::Forged),
    ]
}

fn holds() -> impl Strategy<Value = Vec<Which>> {
    prop_oneof![2 => vec(which(), 1..2), 1 => vec(which(), 2..5)]
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![3 => any::<u8>().prop_map(Pick::Fit), 1 => any::<u8>().prop_map(Pick::Any)]
}

fn submit() -> impl Strategy<Value = Op> {
    let key = prop_oneof![5 => Just(None), 1 => (0_u8..2).prop_map(Some)];
    (0..TENANTS, 0..PIPELINES, vec(entry(), 1..4), key).prop_map(|(tenant, pipeline, entries, key)| {
        Op::Submit {
            tenant,
            pipeline,
            entries,
            key,
        }
    })
}

fn claim() -> impl Strategy<Value = Op> {
    let lease_s = option::weighted(0.3, 1_u8..90);
    (0..PIPELINES, 0_u8..3, 1_u8..8, lease_s).prop_map(|(pipeline, worker, limit, lease_s)| Op::Claim {
        pipeline,
        worker,
        limit,
        lease_s,
    })
}

fn hold_ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (holds(), option::weighted(0.3, 1_u8..200))
            .prop_map(|(holds, lease_s)| Op::Heartbeat { holds, lease_s }),
        3 => (which(), 0_u8..4).prop_map(|(hold, step)| Op::Step { hold, step }),
        4 => (holds(), option::weighted(0.7, 0_u8..8))
            .prop_map(|(holds, fields)| Op::Complete { holds, fields }),
        4 => (holds(), prop::bool::weighted(0.7), option::weighted(0.3, 0_u8..4))
            .prop_map(|(holds, retryable, step)| Op::Fail { holds, retryable, step }),
        2 => holds().prop_map(|holds| Op::Release { holds }),
    ]
}

fn item_ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => pick().prop_map(|item| Op::Cancel { item }),
        3 => pick().prop_map(|item| Op::Retry { item }),
        2 => pick().prop_map(|item| Op::Reprocess { item }),
        3 => (pick(), 0_u8..3, 0_u8..5).prop_map(|(item, field, value)| Op::Correct { item, field, value }),
    ]
}

fn operator_ops() -> impl Strategy<Value = Op> {
    let definition = (0_u8..8, any::<bool>(), any::<bool>(), 1_u8..5);
    let definition = definition.prop_map(|(steps, strict, stale_fails, attempts)| Definition {
        steps,
        strict,
        stale_fails,
        attempts,
    });
    prop_oneof![
        1 => Just(Op::PauseAll),
        1 => (0..PIPELINES).prop_map(|pipeline| Op::PausePipeline { pipeline }),
        2 => (0..TENANTS, 0..PIPELINES).prop_map(|(tenant, pipeline)| Op::PauseLane { tenant, pipeline }),
        10 => any::<u8>().prop_map(|pause| Op::Resume { pause }),
        3 => (0..TENANTS, 1_u8..6, option::of(1_u8..20))
            .prop_map(|(tenant, jobs, uploads)| Op::Limits { tenant, jobs, uploads }),
        3 => (0..PIPELINES, definition).prop_map(|(pipeline, definition)| Op::Define { pipeline, definition }),
    ]
}

fn time_ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1_i64..3_000).prop_map(|ms| Op::Pass { ms }),
        3 => (3_000_i64..90_000).prop_map(|ms| Op::Pass { ms }),
        2 => (1_i64..30).prop_map(|minutes| Op::Pass { ms: minutes * 60_000 }),
        1 => (1_i64..8).prop_map(|hours| Op::Pass { ms: hours * 3_600_000 }),
        4 => Just(Op::Reap { older_than_s: None }),
        1 => (0_u16..120).prop_map(|s| Op::Reap { older_than_s: Some(s) }),
        1 => Just(Op::Fold),
        1 => Just(Op::Retain),
    ]
}

/// Any operation.
pub fn op() -> impl Strategy<Value = Op> {
    let together = (0..PIPELINES, vec(1_u8..4, 2..5))
        .prop_map(|(pipeline, limits)| Op::ClaimTogether { pipeline, limits });
    prop_oneof![
        4 => submit(),
        7 => claim(),
        1 => together,
        11 => hold_ops(),
        6 => item_ops(),
        3 => operator_ops(),
        6 => time_ops(),
    ]
}
