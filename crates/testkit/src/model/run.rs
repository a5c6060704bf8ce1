//! One case: operation by operation on the engine and on the model, answer by answer.

use std::collections::BTreeMap;

use docket_core::clock::Clock as _;
use docket_core::item::ItemStatus;
use docket_core::scope::Scope;
use docket_core::tenant::{TenantSettings, UploadLimit};
use docket_engine::{Error, PauseTarget};

use super::Mutation;
use super::op::{Op, PIPELINES, TENANTS};
use super::search::StateMachine;
use super::state::{KEEP_FINISHED_MS, Model, Paused};
use super::work::Code;
use crate::world::names;
use crate::{Database, World, WorldConfig};

/// What differs, in words.
pub type Checked<T = ()> = Result<T, String>;

/// Where engine and model differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// After so many operations.
    pub after: usize,
    /// What differs.
    pub problem: String,
}

/// An engine on a database that many cases share, each with names of its own.
#[derive(Debug)]
pub struct Arena {
    pub(super) world: World,
    cases: u64,
    /// How often each action was written to the log.
    actions: BTreeMap<&'static str, usize>,
}

impl StateMachine for Arena {
    type Op = Op;
    type Mutation = Mutation;
    const TEST: &'static str = "model";
    const REPRODUCTIONS: &'static str = "reproductions.rs";

    fn op() -> impl proptest::strategy::Strategy<Value = Op> {
        super::op::op()
    }

    async fn open(database: Database) -> Self {
        let settings = WorldConfig {
            // One statement of a kind at a time: who comes first is served first.
            runners: 1,
            keep_finished_ms: Some(KEEP_FINISHED_MS),
            ..WorldConfig::default()
        };
        Self {
            world: World::with(database, &settings).await,
            cases: 0,
            actions: BTreeMap::new(),
        }
    }

    fn actions(&self) -> &BTreeMap<&'static str, usize> {
        &self.actions
    }

    async fn run(
        &mut self,
        ops: &[Op],
        check_every: usize,
        mutation: Option<Mutation>,
    ) -> Result<(), Difference> {
        self.cases += 1;
        let model = Model::new(self.world.clock.now(), mutation);
        let mut case = Case {
            world: &self.world,
            prefix: format!("c{}", self.cases),
            model,
        };
        let at = |after: usize| {
            move |problem: String| {
                let op = after.checked_sub(1).map(|index| &ops[index]);
                let problem = format!("operation {after} of {}, {op:?}:\n{problem}", ops.len());
                Difference { after, problem }
            }
        };
        case.begin().await.map_err(at(0))?;
        for (op, after) in ops.iter().zip(1..) {
            case.apply(op).await.map_err(at(after))?;
            if after % check_every == 0 || after == ops.len() {
                case.check(after == ops.len()).await.map_err(at(after))?;
            }
        }
        case.finish().await.map_err(at(ops.len()))?;
        for action in case.model.items.iter().flat_map(|item| &item.story) {
            *self.actions.entry(action).or_default() += 1;
        }
        Ok(())
    }
}

/// A case under way.
pub(super) struct Case<'a> {
    pub(super) world: &'a World,
    prefix: String,
    pub(super) model: Model,
}

/// Whether two answers are the same; what differs, if not.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, engine: &T, model: &T) -> Checked {
    if engine == model {
        return Ok(());
    }
    Err(format!("{what}\n  engine: {engine:?}\n  model:  {model:?}"))
}

/// The refusal's code in place of the refusal; anything else that went wrong is a difference.
pub(crate) fn coded<T>(answer: Result<T, Error>) -> Checked<Result<T, Code>> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Refused(refusal)) => Ok(Err(refusal.code())),
        Err(error) => Err(format!("the engine failed: {:#}", anyhow::Error::new(error))),
    }
}

pub(crate) fn taken<T>(answer: Result<T, Error>) -> Checked<T> {
    coded(answer)?.map_err(|code| format!("the engine refused: {code}"))
}

impl Case<'_> {
    pub(super) fn tenant(&self, n: usize) -> String {
        format!("{}-t{n}", self.prefix)
    }

    pub(super) fn pipeline(&self, n: usize) -> String {
        format!("{}-p{n}", self.prefix)
    }

    pub(super) fn collection(&self, lane: usize) -> String {
        let lane = &self.model.lanes[lane];
        format!("{}-t{}-p{}", self.prefix, lane.tenant, lane.pipeline)
    }

    pub(super) fn scope(&self, item: usize) -> Scope {
        World::scope(&self.tenant(self.model.lanes[self.model.items[item].lane].tenant))
    }

    async fn begin(&mut self) -> Checked {
        for n in 0..usize::from(PIPELINES) {
            let definition = self.model.pipelines[n][0].clone();
            self.world.pipeline(&self.pipeline(n), definition).await;
        }
        for n in 0..usize::from(TENANTS) {
            self.put_tenant(n).await?;
        }
        Ok(())
    }

    async fn put_tenant(&self, n: usize) -> Checked {
        let settings = TenantSettings {
            id: names::tenant(&self.tenant(n)),
            tier: "free".to_owned(),
            uploads: Some(self.model.tenants[n].uploads),
            concurrent_jobs: Some(self.model.tenants[n].jobs),
        };
        let (engine, who) = (&self.world.engine, World::operator());
        taken(engine.tenant_put(&who, settings).await)
    }

    /// Leaves nothing alive behind, so that the next case meets nothing of this one.
    async fn finish(&mut self) -> Checked {
        for index in 0..self.model.pauses.len() {
            if !self.model.pauses[index].lifted {
                self.resume(index).await?;
            }
        }
        for item in 0..self.model.items.len() {
            let alive = matches!(
                self.model.status(item),
                ItemStatus::Queued | ItemStatus::Processing
            );
            if alive && !self.model.items[item].gone {
                self.cancel(item).await?;
            }
        }
        self.doctor().await
    }

    async fn apply(&mut self, op: &Op) -> Checked {
        let engine = &self.world.engine;
        match op {
            Op::Submit {
                tenant,
                pipeline,
                entries,
                key,
            } => self.submit(*tenant, *pipeline, entries, *key).await,
            Op::Claim {
                pipeline,
                worker,
                limit,
                lease_s,
            } => {
                self.claim(*pipeline, *worker, u32::from(*limit), lease_s.map(ms))
                    .await
            }
            Op::ClaimTogether { pipeline, limits } => self.claim_together(*pipeline, limits).await,
            Op::Heartbeat { holds, lease_s } => self.heartbeat(holds, lease_s.map(ms)).await,
            Op::Step { hold, step } => self.step(*hold, *step).await,
            Op::Complete { holds, fields } => self.complete(holds, *fields).await,
            Op::Fail {
                holds,
                retryable,
                step,
            } => self.fail(holds, *retryable, *step).await,
            Op::Release { holds } => self.release(holds).await,
            Op::Reap { older_than_s } => {
                let older_than_ms = older_than_s.map(|s| i64::from(s) * 1000);
                let answer = taken(engine.reap(older_than_ms).await)?;
                same("what was reaped", &answer, &self.model.reap(older_than_ms))
            }
            Op::Pass { ms } => {
                self.world.pass_ms(*ms);
                self.model.now = self.world.clock.now();
                Ok(())
            }
            Op::Fold => taken(engine.fold_run_once().await).map(drop),
            Op::Retain => {
                while taken(engine.retain().await)?.items > 0 {}
                self.model.retain();
                Ok(())
            }
            other => self.apply_settings(other).await,
        }
    }

    async fn apply_settings(&mut self, op: &Op) -> Checked {
        let model = &self.model;
        let running = |item| matches!(model.status(item), ItemStatus::Queued | ItemStatus::Processing);
        match op {
            Op::Cancel { item } => match model.pick(*item, running) {
                Some(item) => self.cancel(item).await,
                None => Ok(()),
            },
            Op::Retry { item } => match model.pick(*item, |item| model.status(item) == ItemStatus::Failed) {
                Some(item) => self.again(item, true).await,
                None => Ok(()),
            },
            Op::Reprocess { item } => match model.pick(*item, |item| !running(item)) {
                Some(item) => self.again(item, false).await,
                None => Ok(()),
            },
            Op::Correct { item, field, value } => self.correct(*item, *field, *value).await,
            Op::PauseAll => self.pause(Some(Paused::All), PauseTarget::All).await,
            Op::PausePipeline { pipeline } => {
                let n = usize::from(*pipeline);
                let target = PauseTarget::Pipeline(names::pipeline(&self.pipeline(n)));
                self.pause(Some(Paused::Pipeline(n)), target).await
            }
            Op::PauseLane { tenant, pipeline } => {
                let lane = self.model.lane_of(*tenant, *pipeline);
                let owner = names::tenant(&self.tenant(usize::from(*tenant)));
                let name = names::pipeline(&self.pipeline(usize::from(*pipeline)));
                self.pause(lane.map(Paused::Lane), PauseTarget::Lane(owner, name))
                    .await
            }
            Op::Resume { pause } => match model.pause_meant(*pause) {
                Some(pause) => self.resume(pause).await,
                None => Ok(()),
            },
            Op::Limits {
                tenant,
                jobs,
                uploads,
            } => {
                let uploads = uploads.map_or(UploadLimit::Unlimited, |n| UploadLimit::PerHour(u32::from(n)));
                self.model.limits(*tenant, u32::from(*jobs), uploads);
                self.put_tenant(usize::from(*tenant)).await
            }
            Op::Define { pipeline, definition } => {
                let version = self.model.define(*pipeline, definition.pipeline());
                let name = names::pipeline(&self.pipeline(usize::from(*pipeline)));
                let who = World::operator();
                let put = self.world.engine.pipeline_put(&who, name, definition.pipeline());
                same("the version", &taken(put.await)?, &(version as i64))
            }
            other => Err(format!("{other:?} is not handled")),
        }
    }
}

fn ms(seconds: u8) -> i64 {
    i64::from(seconds) * 1000
}
