//! One case: operation by operation on the engine and on the model, answer by answer.

use std::collections::BTreeMap;

use docket_core::clock::Clock as _;
use docket_core::item::ItemStatus;
use docket_core::name::ReviewerId;
use docket_core::pipeline::Pipeline;
use docket_core::review::ReviewState;
use docket_core::scope::Reviewing;
use docket_engine::{CollectionSettings, PauseTarget, ReviewerSettings};
use serde_json::{Value, json};

use super::Mutation;
use super::op::{COLLECTIONS, LEAD, Op, REVIEWERS, STRATEGIES, WEIGHTS};
use super::state::Model;
use crate::desk::{lead, reviewer};
use crate::model::run::{Checked, Difference, coded, same, taken};
use crate::model::search::StateMachine;
use crate::world::names;
use crate::{Database, World, WorldConfig};

/// An engine on a database that many cases share, each with names of its own.
#[derive(Debug)]
pub struct Arena {
    world: World,
    cases: u64,
    actions: BTreeMap<&'static str, usize>,
}

impl StateMachine for Arena {
    type Op = Op;
    type Mutation = Mutation;
    const TEST: &'static str = "reviews_model";
    const REPRODUCTIONS: &'static str = "reproductions_review.rs";

    fn op() -> impl proptest::strategy::Strategy<Value = Op> {
        super::op::op()
    }

    async fn open(database: Database) -> Self {
        let settings = WorldConfig {
            runners: 1,
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
        let mut case = Case {
            world: &self.world,
            prefix: format!("d{}", self.cases),
            model: Model::new(self.world.clock.now(), mutation),
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

impl Case<'_> {
    pub(super) fn tenant(&self) -> String {
        format!("{}-t", self.prefix)
    }

    pub(super) fn collection(&self, n: usize) -> String {
        format!("{}-c{n}", self.prefix)
    }

    pub(super) fn pipeline(&self, n: usize) -> String {
        format!("{}-p{n}", self.prefix)
    }

    pub(super) fn name(&self, who: usize) -> String {
        format!("{}-r{who}", self.prefix)
    }

    pub(super) fn who(&self, who: usize) -> Reviewing {
        match who {
            LEAD => lead(&self.tenant(), &self.name(who)),
            _ => reviewer(&self.tenant(), &self.name(who)),
        }
    }

    async fn begin(&mut self) -> Checked {
        self.world.tenant(&self.tenant(), 1_000).await;
        for n in 0..COLLECTIONS {
            if Model::has_pipeline(n) {
                let definition = Pipeline {
                    review: true,
                    ..Pipeline::default()
                };
                self.world.pipeline(&self.pipeline(n), definition).await;
            }
            self.put_policy(n).await?;
        }
        for who in 0..REVIEWERS {
            self.put_reviewer(who).await?;
        }
        Ok(())
    }

    async fn put_reviewer(&self, who: usize) -> Checked {
        let row = &self.model.reviewers[who];
        let settings = ReviewerSettings {
            id: ReviewerId::new(self.name(who)).unwrap(),
            name: self.name(who),
            tenant: Some(names::tenant(&self.tenant())),
            available: row.available,
            capacity: row.capacity.map(u64::from),
        };
        let operator = World::operator();
        taken(self.world.engine.reviewer_put(&operator, settings).await).map(drop)
    }

    fn policy(&self, n: usize) -> Value {
        let policy = self.model.collections[n].policy;
        let [confidence, deadline, complexity, value] = WEIGHTS[usize::from(policy.weights)];
        let roster = policy.roster.map(|bits| {
            let chosen = (0..REVIEWERS).filter(|who| bits & (1 << who) != 0);
            chosen.map(|who| self.name(who)).collect::<Vec<_>>()
        });
        json!({
            "slaHours": policy.sla_hours, "leaseSeconds": policy.lease_s, "undoSeconds": policy.undo_s,
            "strategy": STRATEGIES[usize::from(policy.strategy)].as_str(),
            "assignment": if policy.auto { "auto" } else { "pull" }, "roster": roster, "maxRetries": policy.max_retries,
            "weights": { "confidence": confidence, "deadline": deadline, "complexity": complexity, "value": value },
        })
    }

    async fn put_policy(&self, n: usize) -> Checked {
        let settings = CollectionSettings {
            id: names::collection(&self.collection(n)),
            tenant: names::tenant(&self.tenant()),
            pipeline: Model::has_pipeline(n).then(|| names::pipeline(&self.pipeline(n))),
            review: true,
            settings: json!({ "review": self.policy(n) }),
        };
        let operator = World::operator();
        taken(self.world.engine.collection_put(&operator, settings).await)
    }

    /// Leaves nothing alive behind, so that the next case meets nothing of this one.
    async fn finish(&mut self) -> Checked {
        for item in 0..self.model.items.len() {
            if matches!(self.model.status(item), ItemStatus::Queued | ItemStatus::InReview) {
                self.cancel(item).await?;
            }
        }
        self.doctor().await
    }

    async fn apply(&mut self, op: &Op) -> Checked {
        let in_review = |review: &super::state::Review| review.state == ReviewState::InReview;
        match op {
            Op::Submit { collection, entries } => self.submit(usize::from(*collection), entries).await,
            Op::Enter { collection, entry } => self.enter(usize::from(*collection), entry).await,
            Op::Process {
                collection,
                limit,
                said,
                lines,
                amount,
            } => {
                self.process(usize::from(*collection), *limit, *said, (*lines, *amount))
                    .await
            }
            Op::Pop {
                who,
                collection,
                limit,
                strategy,
                lock_timeout_s,
            } => {
                self.pop(
                    usize::from(*who),
                    usize::from(*collection),
                    *limit,
                    *strategy,
                    *lock_timeout_s,
                )
                .await
            }
            Op::Claim { by, review } => match self.model.pick(*review, |review| review.decided.is_none()) {
                Some(review) => self.claim(self.model.speaker(*by, review), review).await,
                None => Ok(()),
            },
            Op::Heartbeat { by, reviews } => match self.picked(*by, reviews, in_review) {
                Some((who, reviews)) => self.heartbeat(who, &reviews).await,
                None => Ok(()),
            },
            Op::Release { by, reviews, skip } => match self.picked(*by, reviews, in_review) {
                Some((who, reviews)) => self.release(who, &reviews, *skip).await,
                None => Ok(()),
            },
            Op::Reassign { review, to } => {
                match self.model.pick(*review, |review| review.decided.is_none()) {
                    Some(review) => self.reassign(review, usize::from(*to)).await,
                    None => Ok(()),
                }
            }
            Op::Commit { by, decisions } => self.commit(*by, decisions).await,
            Op::Undo { by, review } => match self.model.pick(*review, |review| review.decided.is_some()) {
                Some(review) => self.undo(self.model.speaker(*by, review), review).await,
                None => Ok(()),
            },
            Op::HandOn { from } => self.hand_on(usize::from(*from)).await,
            Op::Assign => self.assign().await,
            Op::Reap { older_than_s } => self.reap(older_than_s.map(|s| i64::from(s) * 1_000)).await,
            other => self.apply_settings(other).await,
        }
    }

    async fn apply_settings(&mut self, op: &Op) -> Checked {
        let (engine, operator) = (&self.world.engine, World::operator());
        let nth_item =
            |n: u8| (!self.model.items.is_empty()).then(|| usize::from(n) % self.model.items.len());
        match op {
            Op::Pause { collection } => {
                let n = usize::from(*collection);
                let target = PauseTarget::Collection(names::collection(&self.collection(n)));
                let id = taken(engine.pause(&operator, target, "because").await)?;
                self.model.collections[n].pauses.push(id);
                Ok(())
            }
            Op::Resume { collection } => {
                match self.model.collections[usize::from(*collection)].pauses.pop() {
                    Some(id) => taken(engine.resume(&operator, id).await),
                    None => Ok(()),
                }
            }
            Op::Reprocess { item } => match nth_item(*item) {
                Some(item) => {
                    let id = self.model.items[item].id.ok_or("an item without an id")?;
                    let answer = coded(engine.reprocess(&World::scope(&self.tenant()), id).await)?;
                    same(
                        "the re-processing",
                        &answer.map(drop),
                        &self.model.reprocess(item),
                    )
                }
                None => Ok(()),
            },
            Op::Cancel { item } => match nth_item(*item) {
                Some(item) => self.cancel(item).await,
                None => Ok(()),
            },
            Op::Unlock { item, field } => match nth_item(*item) {
                Some(item) => self.unlock(item, *field).await,
                None => Ok(()),
            },
            Op::Reviewer {
                who,
                available,
                capacity,
            } => {
                let row = &mut self.model.reviewers[usize::from(*who)];
                (row.available, row.capacity) = (*available, *capacity);
                self.put_reviewer(usize::from(*who)).await
            }
            Op::Policy { collection, policy } => {
                self.model.change_policy(usize::from(*collection), *policy);
                self.put_policy(usize::from(*collection)).await
            }
            Op::Rekey => {
                while taken(engine.rekey_run_once().await)?.is_some_and(|wait| wait.is_zero()) {}
                self.model.rekey();
                Ok(())
            }
            Op::Pass { ms } => {
                self.world.pass_ms(*ms);
                self.model.now = self.world.clock.now();
                Ok(())
            }
            other => Err(format!("{other:?} is not handled")),
        }
    }
}
