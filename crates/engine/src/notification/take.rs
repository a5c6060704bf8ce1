//! Take: what is due becomes somebody's to do, and every send is committed as an intent before it begins (rules N4 and N5). Many in one
//! transaction.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use docket_core::Timestamp;
use docket_core::log::Action;
use docket_core::notification::{Ability, DeliveryState as State, Step};
use docket_core::notify::ChannelKind;
use docket_notify::Channel;
use docket_store::table::delivery::{self, Delivery, FrozenRow};
use docket_store::table::delivery_attempt::{self, DeliveryAttempt};
use docket_store::table::delivery_take::{self, DueDelivery};
use docket_store::table::log::NewEntry;
use docket_store::table::pause::{self, PauseScope};
use docket_store::table::record::record;
use docket_store::{Result, Tx};
use serde_json::json;

use super::alert::{Alert, alert_in};
use super::config::ability;
use super::entry;
use crate::engine::Kernel;

/// Whose word it is in the log.
pub(crate) const DISPATCHER: &str = "docket";
/// What is told of a send whose outcome nobody recorded.
const NO_RECORD: &str = "the server that sent it ended, or lost its hold, before an outcome was recorded";

/// While a host has no room, or a channel is closed, so many of the oldest deliveries are looked at before it goes on host by host.
const LOOK_AT: u64 = 1_024;
/// And so many hosts; the next time those after them.
const HOSTS: u64 = 1_024;

/// What a server can take now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// The channels it has, and how many more messages each may send.
    pub(crate) channels: HashMap<String, (Arc<dyn Channel>, usize)>,
    /// How many messages are on their way to each destination.
    pub(crate) in_flight: HashMap<String, usize>,
    /// How many deliveries are looked at, at most.
    pub(crate) limit: u64,
    /// The destination that was looked at last, where not all could be.
    pub(crate) after: String,
}

/// A delivery that is this server's to send, or to ask about.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) delivery: Delivery,
    pub(crate) frozen: FrozenRow,
    pub(crate) step: Step,
    /// Since when it was due.
    pub(crate) due: Timestamp,
}

/// What was taken.
#[derive(Debug, Default)]
pub(crate) struct TakenBatch {
    /// Up to when deliveries were due.
    pub(crate) until: Timestamp,
    /// What this server has to do.
    pub(crate) work: Vec<Taken>,
    /// How many deliveries were due and looked at.
    pub(crate) found: usize,
    /// How many of them had to wait for room.
    pub(crate) left: usize,
    /// How many ended up with a person.
    pub(crate) held: usize,
    /// How many of them because nobody could tell whether they were sent.
    pub(crate) held_by_policy: usize,
    /// How many are sent although they may have been sent before, by policy.
    pub(crate) sent_anyway: usize,
    /// How many sends had no recorded outcome.
    pub(crate) in_doubt: usize,
    /// How many failed unsent.
    pub(crate) failed: usize,
    /// The destination that was looked at last, where not all could be.
    pub(crate) after: String,
}

/// Takes what is due and there is room for.
pub(crate) async fn take_batch(
    tx: &mut Tx,
    kernel: &Kernel,
    room: &Room,
    now: Timestamp,
) -> Result<TakenBatch> {
    let channels = open_channels(tx, room).await?;
    if channels.is_empty() {
        return Ok(TakenBatch {
            until: now,
            ..TakenBatch::default()
        });
    }
    let busy: Vec<String> = room
        .in_flight
        .iter()
        .filter(|(destination, n)| is_full(kernel, destination, **n))
        .map(|(destination, _)| destination.clone())
        .collect();
    let (due, after) = find(tx, kernel, room, &channels, &busy, now).await?;
    let mut taking = Taking {
        room: room.clone(),
        ..Taking::default()
    };
    (taking.batch.found, taking.batch.until, taking.batch.after) = (due.len(), now, after);
    for due in due {
        if let Some(words) = unwanted(&due) {
            taking.refuse(due.delivery, &words, now);
            continue;
        }
        match taking.has_room(kernel, &due.delivery) {
            Some(channel) => {
                let ability = ability(channel.as_ref(), &due.delivery);
                taking.take(kernel, due, &ability, now);
            }
            None => taking.batch.left += 1,
        }
    }
    delivery::put(tx, &taking.put.iter().collect::<Vec<_>>()).await?;
    delivery_attempt::insert(tx, &taking.attempts).await?;
    record(tx, &taking.log, &[], now).await?;
    for delivery in &taking.put {
        match delivery.course.state {
            State::Held => alert_in(tx, kernel, delivery, Alert::Held, now).await?,
            State::Failed => alert_in(tx, kernel, delivery, Alert::Failed, now).await?,
            _ => {}
        }
    }
    Ok(taking.batch)
}

/// What is due and may have room, and the destination that was looked at last, where there are more. The oldest come first; where what has no
/// room is a long backlog, the other hosts have their turn by their names.
async fn find(
    tx: &mut Tx,
    kernel: &Kernel,
    room: &Room,
    channels: &[String],
    busy: &[String],
    now: Timestamp,
) -> Result<(Vec<DueDelivery>, String)> {
    // Something that is due may have to be passed over.
    let passes_over = !busy.is_empty() || channels.len() < ChannelKind::ALL.len();
    let horizon = match passes_over {
        true => delivery_take::horizon(tx, now, LOOK_AT).await?,
        false => None,
    };
    let mut due = delivery_take::take(tx, channels, busy, room.limit, horizon.unwrap_or(now)).await?;
    let is_whole = |due: &[DueDelivery]| due.len() as u64 >= room.limit;
    if horizon.is_none() || is_whole(&due) {
        return Ok((due, String::new()));
    }
    let seen: HashSet<String> = due.iter().map(|due| due.delivery.destination.clone()).collect();
    let hosts = delivery_take::hosts(tx, &room.after, HOSTS, now).await?;
    let last = hosts.last().filter(|_| hosts.len() as u64 == HOSTS);
    let last = last.map_or_else(String::new, |(host, _)| host.clone());
    for (host, is_due) in hosts {
        let channel = channel_of(&host);
        let has_room = channels.iter().any(|open| open == channel) && !busy.contains(&host);
        if !is_due || !has_room || seen.contains(&host) {
            continue;
        }
        let used = room.in_flight.get(&host).copied().unwrap_or(0);
        let free = kernel.config.outbox.room_of(channel).saturating_sub(used) as u64;
        let limit = free.min(room.limit - due.len() as u64);
        due.extend(delivery_take::take_of_host(tx, &host, limit, now).await?);
        if is_whole(&due) {
            return Ok((due, host));
        }
    }
    Ok((due, last))
}

/// The channel of a destination.
pub(crate) fn channel_of(destination: &str) -> &str {
    destination.split(':').next().unwrap_or_default()
}

/// The channels that this server has, that have room, and that nobody has paused.
async fn open_channels(tx: &mut Tx, room: &Room) -> Result<Vec<String>> {
    let paused = pause::of_channels(tx).await?;
    let is_paused = |channel: &str| {
        paused.iter().any(|pause| match pause.scope {
            PauseScope::All => true,
            PauseScope::Channel(kind) => kind.as_str() == channel,
            _ => false,
        })
    };
    let open = room
        .channels
        .iter()
        .filter(|(channel, (_, room))| *room > 0 && !is_paused(channel));
    Ok(open.map(|(channel, _)| channel.clone()).collect())
}

/// Why a delivery is not sent although it is due: its recipient wants nothing more, and no person has said that it is to be sent all the
/// same. What may have been sent already is asked about first.
fn unwanted(due: &DueDelivery) -> Option<String> {
    let delivery = &due.delivery;
    if !delivery.course.is_untouched() || !delivery.nonce.is_empty() {
        return None;
    }
    let said = due.stopped.as_ref()?;
    Some(format!(
        "the recipient wants nothing more (\"{said}\"); a resend tries it again, and lifts this when it is taken"
    ))
}

fn is_full(kernel: &Kernel, destination: &str, n: usize) -> bool {
    n >= kernel.config.outbox.room_of(channel_of(destination))
}

/// What a transaction takes, and has to write.
#[derive(Default)]
struct Taking {
    room: Room,
    batch: TakenBatch,
    put: Vec<Delivery>,
    log: Vec<NewEntry>,
    attempts: Vec<DeliveryAttempt>,
}

impl Taking {
    /// The delivery's channel, where one more message may be on its way there.
    fn has_room(&self, kernel: &Kernel, delivery: &Delivery) -> Option<Arc<dyn Channel>> {
        let (channel, left) = self.room.channels.get(&delivery.channel)?;
        let on_its_way = self
            .room
            .in_flight
            .get(&delivery.destination)
            .copied()
            .unwrap_or(0);
        (*left > 0 && !is_full(kernel, &delivery.destination, on_its_way)).then(|| Arc::clone(channel))
    }

    /// Fails a delivery unsent.
    fn refuse(&mut self, mut delivery: Delivery, words: &str, now: Timestamp) {
        delivery.course.unwanted(words, now);
        self.batch.failed += 1;
        let details = json!({ "attempt": delivery.course.attempts, "words": words });
        self.log
            .push(entry(Action::DeliveryFailed, DISPATCHER, &delivery, details));
        self.put.push(delivery);
    }

    /// Takes the next step with a delivery.
    fn take(&mut self, kernel: &Kernel, due: DueDelivery, ability: &Ability, now: Timestamp) {
        let DueDelivery {
            mut delivery, frozen, ..
        } = due;
        let due = delivery.course.due.unwrap_or(now);
        if delivery.course.run_out() {
            self.batch.in_doubt += 1;
            self.attempts.push(lost_attempt(&delivery));
            let details = json!({ "words": NO_RECORD, "attempt": delivery.course.attempts });
            self.log
                .push(entry(Action::DeliveryUnknown, DISPATCHER, &delivery, details));
        }
        let step = delivery.course.step(ability, now);
        delivery.course.take(step, now, kernel.config.outbox.lease_ms);
        match step {
            Step::Send => self.log.push(sending_entry(&delivery)),
            Step::SendAnyway => {
                self.batch.sent_anyway += 1;
                self.log.push(sending_entry(&delivery));
            }
            Step::Hold => {
                self.batch.held += 1;
                self.batch.held_by_policy += usize::from(delivery.course.notified_at.is_none());
                self.log.push(held_entry(&delivery));
            }
            Step::Skip | Step::LookUp | Step::Wait(_) => {}
        }
        if matches!(step, Step::Send | Step::SendAnyway | Step::LookUp) {
            *self
                .room
                .in_flight
                .entry(delivery.destination.clone())
                .or_default() += 1;
            if let Some((_, left)) = self.room.channels.get_mut(&delivery.channel) {
                *left -= 1;
            }
            self.batch.work.push(Taken {
                delivery: delivery.clone(),
                frozen,
                step,
                due,
            });
        }
        self.put.push(delivery);
    }
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

fn held_entry(delivery: &Delivery) -> NewEntry {
    let details = json!({
        "token": delivery.token, "attempt": delivery.course.attempts,
        "why": "it may have been sent, and the channel can neither tell nor take it once only",
    });
    entry(Action::DeliveryHeld, DISPATCHER, delivery, details)
}
