//! Take: what is due becomes somebody's to do, and every send is committed as an intent before it begins (rules N4 and N5). Many in one
//! transaction.

use std::collections::HashMap;

use docket_core::Timestamp;
use docket_core::log::Action;
use docket_core::notification::{Ability, Step};
use docket_store::table::delivery::{self, Delivery, FrozenRow};
use docket_store::table::delivery_attempt::{self, DeliveryAttempt};
use docket_store::table::log::NewEntry;
use docket_store::table::pause::{self, PauseScope};
use docket_store::table::record::record;
use docket_store::{Result, Tx};
use serde_json::json;

use super::alert::{Alert, alert_in};
use super::entry;
use crate::engine::Kernel;

/// Whose word it is in the log.
pub(crate) const DISPATCHER: &str = "docket";
/// What is told of a send whose outcome nobody recorded.
const NO_RECORD: &str = "the server that sent it ended, or lost its hold, before an outcome was recorded";

/// What a server can take now.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// The channels it has, with what each can promise and how many more messages it may send.
    pub(crate) channels: HashMap<String, (Ability, usize)>,
    /// How many messages are on their way to each destination.
    pub(crate) in_flight: HashMap<String, usize>,
    /// How many deliveries are looked at, at most.
    pub(crate) limit: u64,
}

/// A delivery that is this server's to send, or to ask about.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) delivery: Delivery,
    pub(crate) frozen: FrozenRow,
    pub(crate) step: Step,
}

/// What was taken.
#[derive(Debug, Default)]
pub(crate) struct TakenBatch {
    /// What this server has to do.
    pub(crate) work: Vec<Taken>,
    /// How many deliveries were due and looked at.
    pub(crate) found: usize,
    /// How many of them had to wait for room.
    pub(crate) left: usize,
    /// How many ended up with a person.
    pub(crate) held: usize,
    /// How many sends had no recorded outcome.
    pub(crate) in_doubt: usize,
}

/// Takes what is due and there is room for.
pub(crate) async fn take_batch(
    tx: &mut Tx,
    kernel: &Kernel,
    room: &Room,
    now: Timestamp,
) -> Result<TakenBatch> {
    let outbox = &kernel.config.outbox;
    let paused = pause::of_channels(tx).await?;
    let is_paused = |channel: &str| {
        paused.iter().any(|pause| match pause.scope {
            PauseScope::All => true,
            PauseScope::Channel(kind) => kind.as_str() == channel,
            _ => false,
        })
    };
    let open = |(channel, (_, room)): &(&String, &(Ability, usize))| *room > 0 && !is_paused(channel);
    let channels: Vec<String> = room
        .channels
        .iter()
        .filter(open)
        .map(|(name, _)| name.clone())
        .collect();
    if channels.is_empty() {
        return Ok(TakenBatch::default());
    }
    let channel_of = |destination: &str| destination.split(':').next().unwrap_or_default().to_owned();
    let is_full = |destination: &str, n: usize| n >= outbox.room_of(&channel_of(destination));
    let mut in_flight = room.in_flight.clone();
    let busy: Vec<String> = in_flight
        .iter()
        .filter(|(destination, n)| is_full(destination, **n))
        .map(|(destination, _)| destination.clone())
        .collect();
    let due = delivery::take(tx, &channels, &busy, room.limit, now).await?;
    let mut rooms = room.channels.clone();
    let mut batch = TakenBatch {
        found: due.len(),
        ..TakenBatch::default()
    };
    let (mut put, mut log, mut attempts) = (Vec::new(), Vec::new(), Vec::new());
    for (mut delivery, frozen) in due {
        let on_its_way = in_flight.entry(delivery.destination.clone()).or_default();
        let Some((ability, left)) = rooms.get_mut(&delivery.channel).filter(|(_, left)| *left > 0) else {
            batch.left += 1;
            continue;
        };
        if is_full(&delivery.destination, *on_its_way) {
            batch.left += 1;
            continue;
        }
        if delivery.course.run_out() {
            batch.in_doubt += 1;
            attempts.push(lost_attempt(&delivery));
            let details = json!({ "words": NO_RECORD, "attempt": delivery.course.attempts });
            log.push(entry(Action::DeliveryUnknown, DISPATCHER, &delivery, details));
        }
        let step = delivery.course.step(ability, now);
        delivery.course.take(step, now, outbox.lease_ms);
        match step {
            Step::Send => log.push(sending_entry(&delivery)),
            Step::Hold => {
                batch.held += 1;
                log.push(held_entry(&delivery));
                alert_in(tx, kernel, &delivery, Alert::Held, now).await?;
            }
            Step::Skip | Step::LookUp | Step::Wait(_) => {}
        }
        if matches!(step, Step::Send | Step::LookUp) {
            (*on_its_way, *left) = (*on_its_way + 1, *left - 1);
            let delivery = delivery.clone();
            batch.work.push(Taken {
                delivery,
                frozen,
                step,
            });
        }
        put.push(delivery);
    }
    delivery::put(tx, &put.iter().collect::<Vec<_>>()).await?;
    delivery_attempt::insert(tx, &attempts).await?;
    record(tx, &log, &[], now).await?;
    Ok(batch)
}

fn lost_attempt(delivery: &Delivery) -> DeliveryAttempt {
    let course = &delivery.course;
    DeliveryAttempt {
        delivery: delivery.id,
        number: course.lease.0,
        kind: "send".to_owned(),
        token: delivery.token.clone(),
        began_at: course.began_at.unwrap_or(delivery.created_at),
        ended_at: None,
        outcome: "unknown".to_owned(),
        words: NO_RECORD.to_owned(),
    }
}

fn sending_entry(delivery: &Delivery) -> NewEntry {
    let course = &delivery.course;
    let details = json!({
        "token": delivery.token, "attempt": course.attempts, "mayRepeat": course.doubtful,
    });
    entry(Action::DeliverySending, DISPATCHER, delivery, details)
}

pub(crate) fn held_entry(delivery: &Delivery) -> NewEntry {
    let details = json!({
        "token": delivery.token, "attempt": delivery.course.attempts,
        "why": "it may have been sent, and the channel can neither tell nor take it once only",
    });
    entry(Action::DeliveryHeld, DISPATCHER, delivery, details)
}
