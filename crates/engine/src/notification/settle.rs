//! Settle: records what came of attempts, many in one transaction. Who lost the hold in the meantime records nothing (rule P5, for deliveries).

use std::collections::HashMap;
use std::sync::Arc;

use docket_core::id::DeliveryId;
use docket_core::lease::LeaseToken;
use docket_core::log::Action;
use docket_core::notification::{Ability, DeliveryState as State};
use docket_core::{Refusal, Refused, Timestamp};
use docket_notify::{Found, Sent};
use docket_store::table::delivery::{self, Delivery};
use docket_store::table::delivery_attempt::{self, DeliveryAttempt};
use docket_store::table::log::NewEntry;
use docket_store::table::record::record;
use docket_store::table::stopped_recipient;
use docket_store::{Result, Tx};
use serde_json::json;

use super::alert::{Alert, alert_in};
use super::attempt::{Outcome, answer_of, found_of};
use super::config::{DeliveryPoint, ability};
use super::entry;
use super::take::DISPATCHER;
use crate::engine::Kernel;

/// An attempt that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) id: DeliveryId,
    pub(crate) lease: LeaseToken,
    pub(crate) outcome: Outcome,
}

/// Runs a batch of calls in one transaction: the state of each delivery then, or that the hold was lost.
pub(crate) async fn settle_calls(kernel: &Arc<Kernel>, calls: Vec<Ended>) -> Result<Vec<Refused<State>>> {
    kernel.config.outbox.probe(DeliveryPoint::BeforeMark);
    let params = (Arc::clone(kernel), calls, kernel.clock.now());
    let results = kernel
        .store
        .run_hot("delivery_settle", params, |tx, p| {
            Box::pin(settle_batch(tx, &p.0, &p.1, p.2))
        })
        .await?;
    crate::meter::settled(&results);
    Ok(results)
}

async fn settle_batch(
    tx: &mut Tx,
    kernel: &Kernel,
    calls: &[Ended],
    now: Timestamp,
) -> Result<Vec<Refused<State>>> {
    let mut ids: Vec<DeliveryId> = calls.iter().map(|ended| ended.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut found: HashMap<DeliveryId, Delivery> = HashMap::with_capacity(ids.len());
    for delivery in delivery::lock(tx, &ids).await? {
        found.insert(delivery.id, delivery);
    }
    let (mut log, mut attempts, mut results) = (Vec::new(), Vec::new(), Vec::with_capacity(calls.len()));
    let mut changed = Vec::with_capacity(calls.len());
    for ended in calls {
        let held = found
            .get_mut(&ended.id)
            .filter(|delivery| is_held(delivery, ended));
        let Some(delivery) = held else {
            results.push(Err(Refusal::LeaseLost));
            continue;
        };
        attempts.push(attempt_of(delivery, ended, now));
        let before = delivery.clone();
        turn(kernel, delivery, &ended.outcome, now);
        log.extend(entry_of(&before, delivery, &ended.outcome));
        if let Some(alert) = alert_of(&before, delivery) {
            alert_in(tx, kernel, delivery, alert, now).await?;
        }
        heed(tx, delivery, &ended.outcome, now, &mut log).await?;
        results.push(Ok(delivery.course.state));
        changed.push(ended.id);
    }
    let changed: Vec<&Delivery> = changed.iter().filter_map(|id| found.get(id)).collect();
    delivery::put(tx, &changed).await?;
    delivery_attempt::insert(tx, &attempts).await?;
    record(tx, &log, &[], now).await?;
    Ok(results)
}

/// Whether whoever tells this still holds the delivery: nobody else has taken it up since, and it is still what they took.
fn is_held(delivery: &Delivery, ended: &Ended) -> bool {
    let course = &delivery.course;
    let is_in_hand = match ended.outcome {
        Outcome::Sent(_) => course.state == State::Sending,
        Outcome::Found(_) => matches!(course.state, State::Unknown | State::Reconciling),
    };
    course.lease == ended.lease && is_in_hand
}

fn attempt_of(delivery: &Delivery, ended: &Ended, now: Timestamp) -> DeliveryAttempt {
    DeliveryAttempt {
        delivery: delivery.id,
        number: ended.lease.0,
        kind: ended.outcome.kind().to_owned(),
        token: delivery.token.clone(),
        began_at: delivery.course.began_at.unwrap_or(now),
        ended_at: Some(now),
        outcome: ended.outcome.as_str().to_owned(),
        words: ended.outcome.words().to_owned(),
    }
}

fn turn(kernel: &Kernel, delivery: &mut Delivery, outcome: &Outcome, now: Timestamp) {
    let (policy, random) = (&kernel.config.outbox.retry, kernel.random.as_ref());
    match outcome {
        Outcome::Sent(sent) => {
            let channel = kernel.config.outbox.channel(&delivery.channel);
            let ability = channel.map_or(Ability::NONE, |channel| ability(channel.as_ref(), delivery));
            delivery
                .course
                .answered(answer_of(sent), &ability, policy, random, now);
        }
        Outcome::Found(found) => delivery.course.looked_up(found_of(found), policy, random, now),
    }
    if delivery.course.state != State::Sent {
        delivery.course.problem = Some(outcome.words().to_owned());
    }
}

/// A recipient that wants nothing more is stopped; one that a person tried again, and that took it, no longer is.
async fn heed(
    tx: &mut Tx,
    delivery: &Delivery,
    outcome: &Outcome,
    now: Timestamp,
    log: &mut Vec<NewEntry>,
) -> Result<()> {
    let (owner, recipient) = (&delivery.owner, &delivery.recipient);
    let changed = match outcome {
        Outcome::Sent(Sent::Permanent { gone: true, words }) => {
            let is_new = stopped_recipient::insert(tx, owner, recipient, words.as_str(), now).await?;
            is_new.then_some(Action::RecipientStopped)
        }
        Outcome::Sent(Sent::Accepted { .. }) if !delivery.nonce.is_empty() => {
            let was_stopped = stopped_recipient::delete(tx, owner, recipient).await?;
            was_stopped.then_some(Action::RecipientResumed)
        }
        _ => None,
    };
    let details = json!({ "words": outcome.words() });
    log.extend(changed.map(|action| entry(action, DISPATCHER, delivery, details)));
    Ok(())
}

/// What the log says of it.
fn entry_of(before: &Delivery, after: &Delivery, outcome: &Outcome) -> Option<NewEntry> {
    let (action, reconciled) = match (outcome, after.course.state) {
        (Outcome::Sent(Sent::Accepted { .. }), _) => (Action::DeliverySent, None),
        (Outcome::Found(Found::Found { .. }), _) => (Action::DeliveryReconciled, Some("confirmed")),
        (Outcome::Found(Found::Absent { .. }), State::Failed) => (Action::DeliveryFailed, Some("cleared")),
        (Outcome::Found(Found::Absent { .. }), _) => (Action::DeliveryReconciled, Some("cleared")),
        (_, State::Failed) => (Action::DeliveryFailed, None),
        (_, State::Held) => (Action::DeliveryHeld, None),
        (Outcome::Sent(_), State::Unknown) => (Action::DeliveryUnknown, None),
        (Outcome::Sent(_), _) => (Action::DeliveryRetried, None),
        // Another look-up follows; the history has it.
        (Outcome::Found(_), _) => return None,
    };
    let course = &after.course;
    let details = json!({
        "attempt": course.attempts, "words": outcome.words(), "receipt": course.receipt, "outcome": reconciled,
        "was": before.course.state.as_str(), "nextAttemptAtMs": course.due.map(Timestamp::ms),
    });
    Some(entry(action, DISPATCHER, after, details))
}

/// What a person should hear of.
fn alert_of(before: &Delivery, after: &Delivery) -> Option<Alert> {
    match after.course.state {
        State::Held => Some(Alert::Held),
        State::Failed => Some(Alert::Failed),
        // It was marked, and the provider knows nothing of it (rule N7).
        State::Pending
            if before.course.state == State::Reconciling && before.course.notified_at.is_some() =>
        {
            Some(Alert::NotThere)
        }
        _ => None,
    }
}
