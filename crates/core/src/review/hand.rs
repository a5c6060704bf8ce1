//! In whose hands a review is (rules V5 to V7, V12, V13, V17).

use super::{Outcome, ReviewPolicy, ReviewState};
use crate::clock::Timestamp;
use crate::lease::LeaseToken;
use crate::name::ReviewerId;
use crate::refusal::{Refusal, Refused};

/// A review as far as hands matter: where it is, and how it got there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    /// Its state.
    pub state: ReviewState,
    /// Rises with every hold.
    pub token: LeaseToken,
    /// How often it came back unfinished.
    pub retry_count: u32,
    /// Who holds it, or held it when it was decided or given up.
    pub assigned_to: Option<String>,
    /// Since when.
    pub assigned_at: Option<Timestamp>,
    /// When the holder began to look at it; none while it was only assigned.
    pub opened_at: Option<Timestamp>,
    /// When the lease ends.
    pub until: Option<Timestamp>,
    /// How long it is, from each sign of life.
    pub lease_ms: Option<i64>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Timestamp>,
    /// How long the holder looked at it.
    pub active_ms: Option<i64>,
}

impl Hand {
    /// A review that nobody has held yet.
    pub const fn new() -> Self {
        Self {
            state: ReviewState::Pending,
            token: LeaseToken(0),
            retry_count: 0,
            assigned_to: None,
            assigned_at: None,
            opened_at: None,
            until: None,
            lease_ms: None,
            decided_by: None,
            decided_at: None,
            active_ms: None,
        }
    }

    /// Whether this reviewer holds the review now, with this token where one is shown. A lease that has run out is lost, whether or
    /// not anybody has noticed yet: an expired holder never wins.
    pub fn check_held(
        &self,
        reviewer: &ReviewerId,
        token: Option<LeaseToken>,
        now: Timestamp,
    ) -> Refused<()> {
        let holds = self.is_held_by(reviewer)
            && token.is_none_or(|token| token == self.token)
            && self.until.is_some_and(|until| until > now);
        if holds { Ok(()) } else { Err(Refusal::LeaseLost) }
    }

    /// Whether it is in this reviewer's hands, be the lease over or not.
    pub fn is_held_by(&self, reviewer: &ReviewerId) -> bool {
        self.state == ReviewState::InReview && self.assigned_to.as_deref() == Some(reviewer.as_str())
    }

    /// Puts it into a reviewer's hands: one who took it looks at it from now on, one whom it was assigned to does not yet.
    pub fn take(&mut self, reviewer: &str, now: Timestamp, lease_ms: i64, is_opened: bool) {
        self.state = ReviewState::InReview;
        self.token = LeaseToken(self.token.0 + 1);
        self.assigned_to = Some(reviewer.to_owned());
        self.assigned_at = Some(now);
        self.opened_at = is_opened.then_some(now);
        self.renew(now, lease_ms);
    }

    /// The holder gives a sign of life.
    pub fn renew(&mut self, now: Timestamp, lease_ms: i64) {
        (self.until, self.lease_ms) = (Some(now.plus_ms(lease_ms)), Some(lease_ms));
    }

    /// The holder of an assigned review begins to look at it.
    pub fn open(&mut self, now: Timestamp, lease_ms: i64) {
        self.opened_at = self.opened_at.or(Some(now));
        self.renew(now, lease_ms);
    }

    /// Back to the others: nobody holds it.
    pub fn put_back(&mut self) {
        self.state = ReviewState::Pending;
        self.forget_holder();
    }

    /// The lease ran out. One that nobody looked at does not fail by that.
    pub fn run_out(&mut self, policy: &ReviewPolicy) {
        self.retry_count += 1;
        match policy.after_return(self.retry_count) {
            ReviewState::Failed if self.opened_at.is_some() => {
                self.state = ReviewState::Failed;
                (self.until, self.lease_ms) = (None, None);
            }
            _ => self.put_back(),
        }
    }

    /// The holder decides.
    pub fn decide(&mut self, outcome: Outcome, now: Timestamp) {
        self.state = outcome.state();
        self.decided_by.clone_from(&self.assigned_to);
        self.decided_at = Some(now);
        let since = self.opened_at.or(self.assigned_at).unwrap_or(now);
        self.active_ms = Some(now.since(since).max(0));
        self.until = None;
    }

    /// The decision is taken back: in the same hands as before, and looked at since as long as before.
    pub fn undo(&mut self, now: Timestamp, lease_ms: i64) {
        let opened_at = self.active_ms.map(|active_ms| now.plus_ms(-active_ms));
        let reviewer = self.decided_by.take().unwrap_or_default();
        self.take(&reviewer, now, lease_ms, true);
        self.opened_at = opened_at.or(Some(now));
        (self.decided_at, self.active_ms) = (None, None);
    }

    /// It is not needed any more.
    pub fn cancel(&mut self) {
        self.state = ReviewState::Cancelled;
        self.forget_holder();
    }

    fn forget_holder(&mut self) {
        (self.assigned_to, self.assigned_at, self.opened_at) = (None, None, None);
        (self.until, self.lease_ms) = (None, None);
    }
}

impl Default for Hand {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_present_holder_decides() {
        let (ann, now) = (ReviewerId::new("ann").unwrap(), Timestamp::from_ms(1_000));
        let held = |state, to: &str, until| Hand {
            state,
            token: LeaseToken(3),
            assigned_to: Some(to.to_owned()),
            until: Some(Timestamp::from_ms(until)),
            ..Hand::new()
        };
        for (held, token, ok) in [
            (held(ReviewState::InReview, "ann", 1_001), Some(3), true),
            (held(ReviewState::InReview, "ann", 1_001), None, true),
            (held(ReviewState::InReview, "ann", 1_001), Some(2), false),
            (held(ReviewState::InReview, "ann", 1_000), Some(3), false),
            (held(ReviewState::InReview, "bob", 1_001), None, false),
            (held(ReviewState::Pending, "ann", 1_001), None, false),
            (held(ReviewState::Failed, "ann", 1_001), Some(3), false),
        ] {
            let found = held.check_held(&ann, token.map(LeaseToken), now);
            assert_eq!(found.is_ok(), ok, "{held:?}");
        }
    }

    #[test]
    fn a_token_rises_with_every_hold_and_never_falls() {
        let (mut hand, at, policy) = (Hand::new(), Timestamp::from_ms, ReviewPolicy::default());
        hand.take("ann", at(1_000), 500, true);
        hand.run_out(&policy);
        assert_eq!(
            (hand.state, hand.token, hand.retry_count),
            (ReviewState::Pending, LeaseToken(1), 1)
        );
        hand.take("bob", at(2_000), 500, false);
        assert_eq!((hand.token, hand.opened_at), (LeaseToken(2), None));
        hand.open(at(2_100), 500);
        hand.decide(Outcome::Approved, at(2_400));
        assert_eq!(
            (hand.decided_by.as_deref(), hand.active_ms),
            (Some("bob"), Some(300))
        );
        hand.undo(at(3_000), 500);
        assert_eq!((hand.state, hand.token), (ReviewState::InReview, LeaseToken(3)));
        assert_eq!(
            (hand.decided_by.as_deref(), hand.assigned_to.as_deref()),
            (None, Some("bob"))
        );
        hand.decide(Outcome::Approved, at(3_100));
        assert_eq!(hand.active_ms, Some(400), "the time before the undo counts");
        hand.cancel();
        assert_eq!((hand.state, hand.token), (ReviewState::Cancelled, LeaseToken(3)));
    }

    #[test]
    fn only_what_somebody_looked_at_fails_by_running_out() {
        let policy = ReviewPolicy {
            max_retries: Some(0),
            ..ReviewPolicy::default()
        };
        for (is_opened, state) in [(true, ReviewState::Failed), (false, ReviewState::Pending)] {
            let mut hand = Hand::new();
            hand.take("ann", Timestamp::from_ms(0), 500, is_opened);
            hand.run_out(&policy);
            assert_eq!((hand.state, hand.retry_count), (state, 1));
        }
    }
}
