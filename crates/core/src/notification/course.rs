//! The course of a delivery: what is done before a try (rules N4 to N6), what follows from an answer (N8), and what a person may do.

use super::DeliveryState as State;
use crate::backoff::Backoff;
use crate::clock::Timestamp;
use crate::lease::LeaseToken;
use crate::notify::OnUnknown;
use crate::random::Random;
use crate::refusal::{Refusal, Refused};

/// How many more tries what is in doubt has, after what is not would be failed.
const LAST_QUESTIONS: u32 = 5;

/// What a channel can promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ability {
    /// The provider can be asked for a token, this long after a send.
    pub lookup_lag_ms: Option<i64>,
    /// The provider takes a token once only, for this long.
    pub dedupe_ms: Option<i64>,
    /// What to do where it can do neither.
    pub on_unknown: OnUnknown,
}

impl Ability {
    /// A channel that can promise nothing.
    pub const NONE: Self = Self {
        lookup_lag_ms: None,
        dedupe_ms: None,
        on_unknown: OnUnknown::Hold,
    };
}

/// How often and when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The waits between tries.
    pub backoff: Backoff,
    /// So many failures, and a person has to look at it.
    pub failures_max: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            backoff: Backoff {
                base_ms: 1_000,
                max_ms: 3_600_000,
            },
            failures_max: 20,
        }
    }
}

impl RetryPolicy {
    fn wait_ms(&self, failures: u32, asked_for: Option<i64>, random: &dyn Random) -> i64 {
        self.backoff
            .wait_ms(failures, random)
            .max(asked_for.unwrap_or(0).clamp(0, crate::backoff::BACKOFF_MAX_MS))
    }
}

/// What to do with a delivery that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it is told, or not ours to move.
    Skip,
    /// Commit the intent and send.
    Send,
    /// The same, although it may have been sent and nobody can tell: the policy says so.
    SendAnyway,
    /// Ask the provider what it knows of the token.
    LookUp,
    /// Not before this moment.
    Wait(Timestamp),
    /// A person has to say.
    Hold,
}

/// What came of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The provider has taken it.
    Accepted {
        /// Its id of the message.
        receipt: String,
    },
    /// The provider will never take it.
    Refused,
    /// It surely did not get through, and may another time.
    NotNow {
        /// Not before so long.
        retry_after_ms: Option<i64>,
    },
    /// It may have got through.
    Unclear {
        /// Ask not before so long.
        retry_after_ms: Option<i64>,
    },
}

/// What came of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The provider knows the token.
    Known {
        /// Its id of the message.
        receipt: String,
    },
    /// The provider knows nothing of it.
    Nothing,
    /// The provider did not say.
    NoAnswer {
        /// Not before so long.
        retry_after_ms: Option<i64>,
    },
}

/// What changes of a delivery while it is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// Where it stands.
    pub state: State,
    /// Rises with every hold.
    pub lease: LeaseToken,
    /// When something is to be done: the next try, or the end of the lease; none where nothing happens by itself.
    pub due: Option<Timestamp>,
    /// Sends begun, ever.
    pub attempts: u32,
    /// Tries in a row that led to nothing.
    pub failures: u32,
    /// When the present or last hold began.
    pub began_at: Option<Timestamp>,
    /// The first intent under the present token.
    pub first_intent_at: Option<Timestamp>,
    /// The latest.
    pub intent_at: Option<Timestamp>,
    /// The last moment at which a send under the present token can have arrived.
    pub landed_by: Option<Timestamp>,
    /// A send under the present token may have got through.
    pub doubtful: bool,
    /// The provider's id of the message; `notificationId` on the wire.
    pub receipt: Option<String>,
    /// When the provider took it.
    pub notified_at: Option<Timestamp>,
    /// When the provider's own answer said so; a row that was marked in another way has none (rule N7).
    pub evidence_at: Option<Timestamp>,
    /// When the recipient was first told, under an earlier token than the present one. What becomes of a resend takes nothing back.
    pub told_before: Option<Timestamp>,
    /// When it came to its end; none while it has not.
    pub ended_at: Option<Timestamp>,
    /// What went wrong last.
    pub problem: Option<String>,
}

impl Course {
    /// A delivery whose first try is due at this moment.
    pub const fn new(due: Timestamp) -> Self {
        Self {
            state: State::Pending,
            lease: LeaseToken(0),
            due: Some(due),
            attempts: 0,
            failures: 0,
            began_at: None,
            first_intent_at: None,
            intent_at: None,
            landed_by: None,
            doubtful: false,
            receipt: None,
            notified_at: None,
            evidence_at: None,
            told_before: None,
            ended_at: None,
            problem: None,
        }
    }

    /// When the recipient was first told; none where nobody can say that they were.
    pub fn told_at(&self) -> Option<Timestamp> {
        self.told_before.or(self.notified_at)
    }

    /// Whether the recipient was told and nobody has doubts about it (rule N9).
    pub fn is_told(&self) -> bool {
        self.told_before.is_some() || (self.state == State::Sent && self.notified_at.is_some())
    }

    /// Whether there is any trace of a send.
    pub const fn has_trace(&self) -> bool {
        self.doubtful || self.receipt.is_some() || matches!(self.state, State::Sending)
    }

    /// Whether nothing was ever tried under the present token, as far as anybody knows.
    pub fn is_untouched(&self) -> bool {
        self.state == State::Pending && self.notified_at.is_none() && !self.has_trace()
    }

    /// When it came to its end; none where anything of it waits for its time, for a provider or for a person. What counts as sent without
    /// evidence is yet to be looked into.
    pub fn end(&self) -> Option<Timestamp> {
        match self.state {
            State::Sent if self.evidence_at.is_none() => None,
            // It waits until somebody sends it again or calls it off (rule N8).
            State::Failed => None,
            state if state.is_final() => self.ended_at,
            _ => None,
        }
    }

    /// What to do with it now that it is due (rule N5).
    pub fn step(&self, ability: &Ability, now: Timestamp) -> Step {
        match self.state {
            State::Sent | State::Held | State::Failed | State::Cancelled => Step::Skip,
            State::Pending if self.notified_at.is_some() => Step::Skip,
            State::Pending if self.is_untouched() => Step::Send,
            State::Pending | State::Sending | State::Unknown | State::Reconciling => {
                self.step_in_doubt(ability, now)
            }
        }
    }

    fn step_in_doubt(&self, ability: &Ability, now: Timestamp) -> Step {
        if let Some(lag_ms) = ability.lookup_lag_ms {
            let known_from = self.landed_by.map(|at| at.plus_ms(lag_ms));
            return match known_from {
                Some(at) if now < at => Step::Wait(at),
                _ => Step::LookUp,
            };
        }
        let is_deduped = ability.dedupe_ms.is_some_and(|window_ms| {
            self.first_intent_at
                .is_some_and(|first| now.since(first) < window_ms)
        });
        match ability.on_unknown {
            _ if is_deduped => Step::Send,
            // Somebody wants to know, which is no wish to send.
            _ if self.state == State::Reconciling => Step::Hold,
            OnUnknown::Resend => Step::SendAnyway,
            OnUnknown::Hold => Step::Hold,
        }
    }

    /// Its holder's lease ran out: whatever was sent is in doubt. Whether a send was under way.
    pub fn run_out(&mut self) -> bool {
        let was_sending = self.state == State::Sending;
        if was_sending {
            (self.state, self.doubtful) = (State::Unknown, true);
            self.failures = self.failures.saturating_add(1);
        }
        was_sending
    }

    /// Takes the step; one that begins a hold gives it a new token and an end.
    pub fn take(&mut self, step: Step, now: Timestamp, lease_ms: i64) {
        match step {
            Step::Skip => self.due = None,
            Step::Wait(until) => self.due = Some(until),
            Step::Hold => (self.state, self.due) = (State::Held, None),
            Step::Send | Step::SendAnyway => {
                self.hold(now, lease_ms);
                self.state = State::Sending;
                self.attempts = self.attempts.saturating_add(1);
                self.intent_at = Some(now);
                // No send outlasts its hold.
                self.landed_by = self.due;
                self.first_intent_at.get_or_insert(now);
                self.forget_mark();
            }
            Step::LookUp => {
                self.hold(now, lease_ms);
                if self.state != State::Reconciling {
                    self.state = State::Unknown;
                }
            }
        }
    }

    fn hold(&mut self, now: Timestamp, lease_ms: i64) {
        self.lease = LeaseToken(self.lease.0.saturating_add(1));
        self.due = Some(now.plus_ms(lease_ms));
        (self.began_at, self.ended_at) = (Some(now), None);
    }

    fn come_to_end(&mut self, state: State, now: Timestamp) {
        (self.state, self.due, self.ended_at) = (state, None, Some(now));
    }

    fn forget_mark(&mut self) {
        (self.receipt, self.notified_at, self.evidence_at) = (None, None, None);
    }

    fn mark(&mut self, receipt: String, now: Timestamp) {
        self.come_to_end(State::Sent, now);
        self.receipt = Some(receipt);
        // A row that was marked before keeps its moment: that is when they were told.
        self.notified_at.get_or_insert(now);
        self.evidence_at = Some(now);
        (self.doubtful, self.failures, self.problem) = (false, 0, None);
    }

    /// What follows from the answer to a send.
    pub fn answered(
        &mut self,
        answer: Answer,
        ability: &Ability,
        policy: &RetryPolicy,
        random: &dyn Random,
        now: Timestamp,
    ) {
        self.landed_by = Some(now);
        match answer {
            Answer::Accepted { receipt } => self.mark(receipt, now),
            // This try was refused, and an earlier one may have got through: the provider is asked, or a person.
            Answer::Refused if self.doubtful && ability.lookup_lag_ms.is_some() => {
                (self.state, self.due) = (State::Unknown, Some(now));
            }
            Answer::Refused if self.doubtful => (self.state, self.due) = (State::Held, None),
            Answer::Refused => self.come_to_end(State::Failed, now),
            Answer::NotNow { retry_after_ms } => {
                self.try_again(State::Pending, retry_after_ms, policy, random, now);
            }
            Answer::Unclear { retry_after_ms } => {
                self.doubtful = true;
                self.try_again(State::Unknown, retry_after_ms, policy, random, now);
            }
        }
    }

    /// What follows from the answer to a look-up.
    pub fn looked_up(&mut self, found: Found, policy: &RetryPolicy, random: &dyn Random, now: Timestamp) {
        match found {
            Found::Known { receipt } => self.mark(receipt, now),
            Found::Nothing => {
                self.doubtful = false;
                self.forget_mark();
                match self.failures >= policy.failures_max {
                    true => self.come_to_end(State::Failed, now),
                    false => (self.state, self.due) = (State::Pending, Some(now)),
                }
            }
            Found::NoAnswer { retry_after_ms } => {
                let state = self.state;
                self.try_again(state, retry_after_ms, policy, random, now);
            }
        }
    }

    /// Another try after a wait, or the end of tries.
    fn try_again(
        &mut self,
        state: State,
        asked_for: Option<i64>,
        policy: &RetryPolicy,
        random: &dyn Random,
        now: Timestamp,
    ) {
        self.failures = self.failures.saturating_add(1);
        let wait_ms = policy.wait_ms(self.failures, asked_for, random);
        self.due = Some(now.plus_ms(wait_ms));
        // What is in doubt stays in doubt: the provider is asked before the next send.
        self.state = match state {
            State::Pending if self.doubtful => State::Unknown,
            state => state,
        };
        match self.state {
            // Some more questions, and then a person has to say (rule N8).
            State::Unknown | State::Reconciling if self.failures >= policy.failures_max + LAST_QUESTIONS => {
                (self.state, self.due) = (State::Held, None);
            }
            State::Unknown | State::Reconciling => {}
            // Nothing of it is in doubt.
            _ if self.failures >= policy.failures_max => self.come_to_end(State::Failed, now),
            _ => {}
        }
    }

    /// It is not sent: its recipient has said that it wants nothing more.
    pub fn unwanted(&mut self, words: &str, now: Timestamp) {
        self.come_to_end(State::Failed, now);
        self.problem = Some(words.to_owned());
    }

    /// It counts as sent, or nobody knows, and the provider is to be asked (rule N7).
    pub fn reconcile(&mut self, now: Timestamp) -> Refused<()> {
        match self.state {
            State::Sent | State::Unknown | State::Held => {
                (self.state, self.due, self.ended_at) = (State::Reconciling, Some(now), None);
                // Whoever looks at it now has looked in vain.
                self.lease = LeaseToken(self.lease.0.saturating_add(1));
                Ok(())
            }
            State::Reconciling => Ok(()),
            other => Err(conflict(format!(
                "this delivery is {other}; there is nothing to ask its provider"
            ))),
        }
    }

    /// A person wants it sent once more, under another token.
    pub fn resend(&mut self, now: Timestamp) -> Refused<()> {
        match self.state {
            State::Sent | State::Unknown | State::Held | State::Failed | State::Cancelled => {
                let fence = LeaseToken(self.lease.0.saturating_add(1));
                // A mark counts where the provider's own answer made it.
                let marked = self.evidence_at.and(self.notified_at);
                *self = Self {
                    lease: fence,
                    attempts: self.attempts,
                    told_before: self.told_before.or(marked),
                    ..Self::new(now)
                };
                Ok(())
            }
            State::Pending => Err(conflict(
                "this delivery is pending; it is sent by itself".to_owned(),
            )),
            State::Sending | State::Reconciling => Err(conflict(format!(
                "this delivery is {}; wait until that has ended",
                self.state
            ))),
        }
    }

    /// A person does not want it sent any more.
    pub fn cancel(&mut self, now: Timestamp) -> Refused<()> {
        match self.state {
            State::Pending | State::Unknown | State::Held | State::Failed => {
                self.lease = LeaseToken(self.lease.0.saturating_add(1));
                self.come_to_end(State::Cancelled, now);
                Ok(())
            }
            State::Cancelled => Ok(()),
            State::Sending | State::Sent | State::Reconciling => Err(conflict(format!(
                "this delivery is {}; it cannot be taken back",
                self.state
            ))),
        }
    }
}

fn conflict(problem: String) -> Refusal {
    Refusal::Conflict { problem }
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
