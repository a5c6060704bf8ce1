//! Commit: reviewers decide (rules V9 and V10). The hold is checked inside the transaction that decides, and everything that follows
//! from a decision is written with it.

use std::collections::HashMap;
use std::sync::Arc;

use docket_core::id::{ItemId, ReviewId};
use docket_core::item::ItemStatus;
use docket_core::lease::LeaseToken;
use docket_core::log::Action;
use docket_core::review::{FieldCorrection, Outcome, REVIEWS_MAX, check_decision};
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::table::counter::Counted;
use docket_store::table::log::NewEntry;
use docket_store::table::record::{Move, record};
use docket_store::table::review::{self, Review};
use docket_store::table::{item, together};
use docket_store::{Error, Hint, Result, Tx, Weight};
use serde_json::json;

use super::decision::{Decided, Recorded, correct};
use super::{Collections, Reviewed, not_there};
use crate::engine::{Engine, Kernel};
use crate::notification::create::Creations;
use crate::notification::follow::{Told, follow};

/// What a reviewer decides about one review.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The review.
    pub id: ReviewId,
    /// The item as the caller knows it: its externalId, or its id. Checked where it is given.
    pub generation_id: Option<String>,
    /// The token of the hold; none for whatever hold the reviewer has.
    pub token: Option<LeaseToken>,
    /// What is decided.
    pub outcome: Outcome,
    /// Why.
    pub reason: Option<String>,
    /// The right values.
    pub corrections: Vec<FieldCorrection>,
}

#[derive(Clone, Debug)]
pub(crate) struct CommitCall {
    who: Reviewing,
    pub(crate) decisions: Vec<Refused<Decision>>,
}

impl CommitCall {
    /// What it brings into a batch.
    pub(crate) fn weight(&self) -> Weight {
        let bytes = |decision: &Decision| {
            let values = decision.corrections.iter().map(|c| c.value.to_string().len());
            decision.reason.as_ref().map_or(0, String::len) + values.sum::<usize>()
        };
        Weight {
            entries: self.decisions.len(),
            bytes: self.decisions.iter().flatten().map(bytes).sum(),
        }
    }
}

pub(crate) type CommitResult = Vec<Refused<Decided>>;

impl Engine {
    /// Decides on reviews, each by itself: one that is refused touches no other. Those that could not even be read are handed through.
    pub async fn review_commit(
        &self,
        who: &Reviewing,
        decisions: Vec<Refused<Decision>>,
    ) -> Result<CommitResult> {
        if decisions.is_empty() || decisions.len() > REVIEWS_MAX {
            let problem = format!("needs from 1 to {REVIEWS_MAX} entries, has {}", decisions.len());
            return Err(Refusal::invalid("decisions", problem).into());
        }
        let mut seen = HashMap::with_capacity(decisions.len());
        let checked = decisions.into_iter().enumerate().map(|(index, decision)| {
            let path = format!("decisions[{index}]");
            let decision = decision.map_err(|refusal| refusal.under(&path))?;
            if let Some(first) = seen.insert(decision.id, index) {
                let problem = format!("names the same review as decisions[{first}]");
                return Err(Refusal::invalid(path, problem));
            }
            check_decision(
                decision.outcome,
                decision.reason.as_deref(),
                &decision.corrections,
            )
            .map_err(|refusal| refusal.under(&path))?;
            Ok(decision)
        });
        let call = CommitCall {
            who: who.clone(),
            decisions: checked.collect(),
        };
        self.batches.review_commit.call(call).await
    }
}

/// Runs a batch of calls in one transaction.
pub(crate) async fn commit_calls(kernel: &Arc<Kernel>, calls: Vec<CommitCall>) -> Result<Vec<CommitResult>> {
    let params = (Arc::clone(kernel), calls, kernel.clock.now());
    let (results, is_told) = kernel
        .store
        .run_batch("review_commit", params, |tx, p| {
            Box::pin(commit_batch(tx, &p.0, &p.1, p.2))
        })
        .await?;
    if is_told {
        kernel.store.hints().send(Hint::Delivery);
    }
    results.iter().for_each(|results| crate::meter::decided(results));
    Ok(results)
}

/// What a transaction has to write at its end.
#[derive(Default)]
struct Writes {
    changed: HashMap<ReviewId, Review>,
    log: Vec<NewEntry>,
    moves: Vec<Move>,
    told: Creations,
}

/// The results of each call, and whether anybody is to be told.
async fn commit_batch(
    tx: &mut Tx,
    kernel: &Kernel,
    calls: &[CommitCall],
    now: Timestamp,
) -> Result<(Vec<CommitResult>, bool)> {
    let mut writes = Writes::default();
    let mut ids: Vec<ReviewId> = calls
        .iter()
        .flat_map(|call| call.decisions.iter().flatten().map(|decision| decision.id))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let (locked, owners) = together::locked_reviews_and_collections(tx, &ids).await?;
    let owners: Vec<Reviewed> = owners.into_iter().map(Reviewed::of).collect::<Result<_>>()?;
    let mut collections = Collections::knowing(owners);
    let mut found: HashMap<ReviewId, Review> = locked.into_iter().map(|review| (review.id, review)).collect();
    let mut results = Vec::with_capacity(calls.len());
    for call in calls {
        let mut answers = Vec::with_capacity(call.decisions.len());
        for (index, decision) in call.decisions.iter().enumerate() {
            let answer = match decision {
                Err(refusal) => Err(refusal.clone()),
                Ok(decision) => {
                    let decided = decide(
                        tx,
                        kernel,
                        &call.who,
                        decision,
                        &mut found,
                        &mut collections,
                        &mut writes,
                        now,
                    );
                    match decided.await {
                        Ok(decided) => Ok(decided),
                        Err(Error::Refused(refusal)) => Err(refusal.under(&format!("decisions[{index}]"))),
                        Err(error) => return Err(error),
                    }
                }
            };
            answers.push(answer);
        }
        results.push(answers);
    }
    let changed: Vec<Review> = writes.changed.into_values().collect();
    review::put(tx, &changed).await?;
    record(tx, &writes.log, &writes.moves, now).await?;
    let is_told = !writes.told.is_empty();
    writes.told.write(tx, now).await?;
    Ok((results, is_told))
}

#[expect(clippy::too_many_arguments, reason = "what one decision of a batch needs")]
async fn decide(
    tx: &mut Tx,
    kernel: &Kernel,
    who: &Reviewing,
    decision: &Decision,
    found: &mut HashMap<ReviewId, Review>,
    collections: &mut Collections,
    writes: &mut Writes,
    now: Timestamp,
) -> Result<Decided> {
    let id = decision.id;
    let review = found.get_mut(&id).ok_or_else(|| not_there(&id))?;
    let owner = collections.of(tx, review).await?;
    if !who.reaches(&owner.collection.tenant_id) {
        return Err(not_there(&id).into());
    }
    if let Some(named) = &decision.generation_id {
        check_generation(tx, review.item, named).await?;
    }
    if review.hand.state.is_decided() {
        return repeated(owner, review, who, decision).map_err(Into::into);
    }
    review.hand.check_held(who.reviewer(), decision.token, now)?;
    let (by, actor) = (who.reviewer(), who.actor().as_str());
    let mut corrected = Vec::new();
    if decision.outcome == Outcome::Corrected {
        corrected = correct(tx, owner, review, &decision.corrections, by, now).await?;
        writes
            .log
            .extend(corrected.iter().map(|change| change.entry(owner, review, actor)));
    }
    let before = review.hand.state;
    review.hand.decide(decision.outcome, now);
    let recorded = Recorded {
        reason: decision.reason.clone(),
        corrections: corrected,
    };
    let told = Told {
        owner,
        review,
        outcome: decision.outcome,
        reason: decision.reason.as_deref(),
        corrections: recorded.corrections.iter().map(|change| json!(change)).collect(),
        actor,
        now,
    };
    follow(tx, kernel, &told, &mut writes.told).await?;
    review.decision = Some(recorded.to_text()?);
    writes.log.push(decided_entry(owner, review, actor, decision));
    writes.moves.push(owner.moved(Some(before), review.hand.state));
    writes.moves.push(Move {
        collection: owner.collection.key,
        from: Some(Counted::Item(ItemStatus::InReview)),
        to: Some(Counted::Item(ItemStatus::reviewed(true, Some(review.hand.state)))),
    });
    writes.changed.insert(id, review.clone());
    Ok(Decided::of(owner, review, decision.outcome, false))
}

fn decided_entry(owner: &Reviewed, review: &Review, actor: &str, decision: &Decision) -> NewEntry {
    let action = match decision.outcome {
        Outcome::Approved => Action::ReviewApproved,
        Outcome::Corrected => Action::ReviewCorrected,
        Outcome::Rejected => Action::ReviewRejected,
    };
    let details = json!({
        "reason": decision.reason, "activeMs": review.hand.active_ms, "confidence": review.inputs.confidence,
        "leaseToken": review.hand.token.0, "corrections": decision.corrections.len(),
    });
    owner.entry(action, actor, review, details)
}

/// A decision that was said before, by the same reviewer and in the same hold, stands; any other comes too late.
fn repeated(owner: &Reviewed, review: &Review, who: &Reviewing, decision: &Decision) -> Refused<Decided> {
    let hand = &review.hand;
    let is_same = hand.decided_by.as_deref() == Some(who.reviewer().as_str())
        && hand.state == decision.outcome.state()
        && decision.token.is_none_or(|token| token == hand.token)
        && Recorded::of(review).is_some_and(|recorded| recorded.says(decision));
    match is_same {
        true => Ok(Decided::of(owner, review, decision.outcome, true)),
        false => Err(Refusal::AlreadyDecided { state: hand.state }),
    }
}

async fn check_generation(tx: &mut Tx, id: ItemId, named: &str) -> Result<()> {
    let found = item::get(tx, id).await?;
    let known = found
        .and_then(|item| item.external_id)
        .unwrap_or_else(|| id.to_string());
    if known == named || id.to_string() == named {
        return Ok(());
    }
    let problem = format!("'{named}' is not what this review is about; that is '{known}'");
    Err(Refusal::invalid("generationId", problem).into())
}
