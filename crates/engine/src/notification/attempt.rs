//! An attempt: sends what was frozen, or asks the provider, within the time that the hold lasts. Whatever happens, it ends in an outcome
//! that claims no more than is known.

use std::sync::Arc;
use std::time::Duration;

use docket_core::Timestamp;
use docket_core::notification::{Answer, Found, Step};
use docket_core::notify::DeliveryToken;
use docket_notify::{Channel, Sent, Words};

use super::config::DeliveryPoint;
use super::prepare::thaw;
use super::take::Taken;
use crate::engine::Kernel;

/// What is left of a hold for recording the outcome.
const MARGIN_MS: i64 = 2_000;

/// What came of an attempt.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Of a send.
    Sent(Sent),
    /// Of a look-up.
    Found(docket_notify::Found),
}

impl Outcome {
    /// Its word in the history.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Sent(sent) => sent.as_str(),
            Self::Found(found) => found.as_str(),
        }
    }

    /// What the provider said.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Sent(sent) => sent.words().as_str(),
            Self::Found(found) => found.words().as_str(),
        }
    }

    /// What kind of attempt it was.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Sent(_) => "send",
            Self::Found(_) => "lookup",
        }
    }
}

fn ms(time: Option<Duration>) -> Option<i64> {
    time.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// The answer to a send, as the core takes it.
pub(crate) fn answer_of(sent: &Sent) -> Answer {
    match sent {
        Sent::Accepted { id, .. } => Answer::Accepted { receipt: id.clone() },
        Sent::NotSent { .. } => Answer::NotNow { retry_after_ms: None },
        Sent::Transient { retry_after, .. } => Answer::NotNow {
            retry_after_ms: ms(*retry_after),
        },
        Sent::Permanent { .. } => Answer::Refused,
        Sent::Unknown { retry_after, .. } => Answer::Unclear {
            retry_after_ms: ms(*retry_after),
        },
    }
}

/// The answer to a look-up, as the core takes it.
pub(crate) fn found_of(found: &docket_notify::Found) -> Found {
    match found {
        docket_notify::Found::Found { id, .. } => Found::Known { receipt: id.clone() },
        docket_notify::Found::Absent { .. } => Found::Nothing,
        docket_notify::Found::Unknown { retry_after, .. } => Found::NoAnswer {
            retry_after_ms: ms(*retry_after),
        },
    }
}

/// Does what was taken.
pub(crate) async fn attempt(kernel: &Kernel, channel: &Arc<dyn Channel>, taken: Taken) -> Outcome {
    let outbox = &kernel.config.outbox;
    let until = taken.delivery.course.due.unwrap_or_default();
    if taken.step == Step::LookUp {
        return Outcome::Found(
            look_up(channel, &taken.delivery.token, left(until, kernel.clock.now())).await,
        );
    }
    outbox.probe(DeliveryPoint::AfterIntent);
    let left = left(until, kernel.clock.now());
    let Some(left) = left else {
        // Nothing has left yet, so that much is sure.
        let words = Words::new("the hold was nearly over before it could be sent");
        return Outcome::Sent(Sent::NotSent { words });
    };
    let delivery = &taken.delivery;
    let frozen = match thaw(&delivery.recipient, &delivery.token, taken.frozen) {
        Ok(frozen) => frozen,
        Err(refusal) => {
            let words = Words::new(refusal.to_string());
            return Outcome::Sent(Sent::Permanent { gone: false, words });
        }
    };
    let sent = match tokio::time::timeout(left, channel.send(&frozen)).await {
        Ok(sent) => sent,
        Err(_) => Sent::Unknown {
            retry_after: None,
            words: Words::new("no answer came while the hold lasted"),
        },
    };
    if matches!(sent, Sent::Accepted { .. }) {
        outbox.probe(DeliveryPoint::AfterAccepted);
    }
    Outcome::Sent(sent)
}

async fn look_up(channel: &Arc<dyn Channel>, token: &str, left: Option<Duration>) -> docket_notify::Found {
    let unknown = |words: &str| docket_notify::Found::Unknown {
        retry_after: None,
        words: Words::new(words),
    };
    let Some(left) = left else {
        return unknown("the hold was nearly over before the provider could be asked");
    };
    let Ok(token) = DeliveryToken::new(token) else {
        return unknown("the token is none");
    };
    let asked = tokio::time::timeout(left, channel.lookup(&token)).await;
    asked.unwrap_or_else(|_| unknown("no answer came while the hold lasted"))
}

/// How long the hold lasts for sending; none where that is too short to begin.
fn left(until: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = until.since(now);
    // A short hold, as tests have it, gives half of itself.
    let left = left - MARGIN_MS.min(left / 2);
    u64::try_from(left)
        .ok()
        .filter(|ms| *ms > 0)
        .map(Duration::from_millis)
}
