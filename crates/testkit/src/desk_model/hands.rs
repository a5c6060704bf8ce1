//! In whose hands reviews are, by the book (rules V5 to V8, V12 to V14).

use docket_core::Timestamp;
use docket_core::review::ReviewState;
use docket_engine::EmptyReason;

use super::Mutation;
use super::op::{LEAD, REVIEWERS};
use super::state::{Code, Model};

/// Why there is nothing to give.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nothing {
    pub(super) reason: EmptyReason,
    pub(super) pending: u64,
    pub(super) in_review: u64,
    pub(super) next_lease_ends_at: Option<Timestamp>,
}

impl Model {
    pub(super) fn of_state(&self, collection: usize, state: ReviewState) -> Vec<usize> {
        let all = 0..self.reviews.len();
        all.filter(|review| self.reviews[*review].state == state && self.collection_of(*review) == collection)
            .collect()
    }

    fn take(&mut self, review: usize, who: usize, opened: bool) {
        let (now, lease_ms) = (self.now, i64::from(self.policy(review).lease_s) * 1_000);
        let review = &mut self.reviews[review];
        review.state = ReviewState::InReview;
        review.token += 1;
        (review.holder, review.opened) = (Some(who), opened);
        (review.heard, review.lease_ms) = (now, lease_ms);
    }

    fn renew(&mut self, review: usize) {
        let (now, lease_ms) = (self.now, i64::from(self.policy(review).lease_s) * 1_000);
        let review = &mut self.reviews[review];
        review.opened = true;
        (review.heard, review.lease_ms) = (now, lease_ms);
    }

    fn put_back(&mut self, review: usize) {
        let review = &mut self.reviews[review];
        review.state = ReviewState::Pending;
        (review.holder, review.opened) = (None, false);
    }

    /// Whether the review is in these hands now, the lease not over.
    pub(super) fn holds(&self, review: usize, who: usize) -> bool {
        let review = &self.reviews[review];
        review.state == ReviewState::InReview && review.holder == Some(who) && review.until() > self.now
    }

    fn has_room(&self, who: usize) -> bool {
        let capacity = self.reviewers.get(who).and_then(|reviewer| reviewer.capacity);
        capacity.is_none_or(|capacity| self.in_hand(who) < usize::from(capacity))
            || self.mutated(Mutation::CapacityIgnored)
    }

    /// Gives pending reviews of one collection to those who hold the fewest; who was served longest ago goes first among equals.
    pub(super) fn assign(&mut self, reviews: Vec<usize>, except: Option<usize>) {
        let Some(collection) = reviews.first().map(|review| self.collection_of(*review)) else {
            return;
        };
        let strategy = self.collections[collection].policy.strategy;
        let except = except.filter(|_| !self.mutated(Mutation::BackToTheSame));
        let there: Vec<_> = (0..REVIEWERS)
            .filter(|who| self.reviewers[*who].available && self.admits(collection, *who))
            .collect();
        for review in self.sorted(reviews, strategy) {
            let may = |who: &usize| {
                Some(*who) != except
                    && self.has_room(*who)
                    && (!self.reviews[review].skipped_by.contains(who)
                        || self.mutated(Mutation::SkipForgotten))
            };
            let turn = |who: usize| match self.mutated(Mutation::TiesNotInTurn) {
                true => 0,
                false => self.reviewers[who].turn,
            };
            let next = there
                .iter()
                .copied()
                .filter(may)
                .min_by_key(|who| (self.in_hand(*who), turn(*who)));
            let Some(next) = next else { continue };
            let latest = there.iter().map(|who| self.reviewers[*who].turn).max();
            self.reviewers[next].turn = latest.unwrap_or(0) + 1;
            self.take(review, next, false);
            self.tell(review, "review.assigned");
        }
    }

    /// Gives a review to another than who had it. Where there is nobody it waits; for them as well, where it may return.
    fn hand_over(&mut self, review: usize, from: Option<usize>, may_return: bool) {
        self.assign(vec![review], from);
        if self.reviews[review].state == ReviewState::Pending {
            self.reviews[review].given_back_by = from.filter(|_| !may_return);
        }
    }

    /// Gives what waits to those who are free: collection by collection, and again those in which something could be given.
    pub(super) fn assign_waiting(&mut self, collections: &[usize]) {
        let mut order = collections.to_vec();
        while !order.is_empty() {
            order.retain(|collection| self.give_waiting(*collection));
        }
    }

    fn give_waiting(&mut self, collection: usize) -> bool {
        let policy = self.collections[collection].policy;
        if !policy.auto || !self.collections[collection].pauses.is_empty() {
            return false;
        }
        let free: Vec<_> = (0..REVIEWERS)
            .filter(|who| self.reviewers[*who].available && self.admits(collection, *who))
            .filter(|who| self.has_room(*who))
            .collect();
        let room = free.iter().fold(0, |room: usize, who| {
            let capacity = self.reviewers[*who].capacity.map_or(usize::MAX, usize::from);
            room.saturating_add(capacity.saturating_sub(self.in_hand(*who)))
        });
        let mut waiting = self.of_state(collection, ReviewState::Pending);
        waiting.retain(|review| {
            let review = &self.reviews[*review];
            let may = |who: &usize| review.given_back_by != Some(*who) && !review.skipped_by.contains(who);
            free.iter().any(may)
        });
        let mut waiting = self.sorted(waiting, policy.strategy);
        waiting.truncate(room);
        for review in &waiting {
            self.assign(vec![*review], self.reviews[*review].given_back_by);
        }
        let given = |review: &usize| self.reviews[*review].state == ReviewState::InReview;
        waiting.iter().any(given)
    }

    /// The lease ran out.
    fn run_out(&mut self, review: usize) {
        let policy = self.policy(review);
        let counted = u32::from(!self.mutated(Mutation::RetryNotCounted));
        let row = &mut self.reviews[review];
        row.retries += counted;
        let too_often = policy
            .max_retries
            .is_some_and(|most| row.retries > u32::from(most));
        if too_often && row.opened {
            row.state = ReviewState::Failed;
        } else {
            self.put_back(review);
        }
    }

    /// Takes reviews of one collection, whose leases are over, out of their hands; the most urgent finds somebody first.
    fn return_all(&mut self, stale: Vec<usize>) -> (u64, u64) {
        let Some(policy) = stale.first().map(|review| self.policy(*review)) else {
            return (0, 0);
        };
        let stale = self.sorted(stale, policy.strategy);
        let holders: Vec<_> = stale.iter().map(|review| self.reviews[*review].holder).collect();
        for review in &stale {
            self.run_out(*review);
            self.tell(*review, "review.reaped");
        }
        let failed = stale
            .iter()
            .filter(|review| self.reviews[**review].state == ReviewState::Failed);
        let failed = failed.count();
        for (review, holder) in stale.iter().zip(holders) {
            if policy.auto && self.reviews[*review].state == ReviewState::Pending {
                self.hand_over(*review, holder, false);
            }
        }
        ((stale.len() - failed) as u64, failed as u64)
    }

    fn silent(&self, collection: usize, silent_ms: Option<i64>) -> Vec<usize> {
        let is_silent = |review: &usize| {
            let review = &self.reviews[*review];
            review.until() <= self.now || silent_ms.is_some_and(|ms| review.heard <= self.now.plus_ms(-ms))
        };
        let held = self.of_state(collection, ReviewState::InReview);
        held.into_iter().filter(is_silent).collect()
    }

    /// Puts back what has run out, or was not heard of for so long: one collection after the other.
    pub(super) fn reap(&mut self, collections: &[usize], silent_ms: Option<i64>) -> (u64, u64) {
        let mut total = (0, 0);
        // All that is stale is stale at one moment: what is given out again meanwhile is not.
        let stale: Vec<_> = collections
            .iter()
            .map(|collection| self.silent(*collection, silent_ms))
            .collect();
        for stale in stale {
            let (requeued, failed) = self.return_all(stale);
            total = (total.0 + requeued, total.1 + failed);
        }
        total
    }

    /// Gives a reviewer what was assigned to them, then what is pending; the reviews, or why there are none.
    pub(super) fn pop(
        &mut self,
        who: usize,
        collection: usize,
        limit: usize,
        strategy: Option<u8>,
        silent_ms: Option<i64>,
    ) -> Result<Vec<usize>, Nothing> {
        if !self.collections[collection].pauses.is_empty() {
            return Err(self.nothing(collection, EmptyReason::Paused));
        }
        if !self.admits(collection, who) {
            return Err(self.nothing(collection, EmptyReason::NotPermitted));
        }
        if silent_ms.is_some() {
            let silent = self.silent(collection, silent_ms);
            self.return_all(silent);
        }
        let mut taken = self.offer(who, collection, limit, strategy);
        if taken.is_empty() {
            let over = self.silent(collection, None);
            self.return_all(over);
            taken = self.offer(who, collection, limit, strategy);
        }
        if !taken.is_empty() {
            return Ok(taken);
        }
        let pending = !self.of_state(collection, ReviewState::Pending).is_empty();
        let held = !self.of_state(collection, ReviewState::InReview).is_empty();
        let reason = if !self.has_room(who) || pending {
            EmptyReason::NotPermitted
        } else if held {
            EmptyReason::AllAssigned
        } else {
            EmptyReason::None
        };
        Err(self.nothing(collection, reason))
    }

    fn nothing(&self, collection: usize, reason: EmptyReason) -> Nothing {
        let held = self.of_state(collection, ReviewState::InReview);
        Nothing {
            reason,
            pending: self.of_state(collection, ReviewState::Pending).len() as u64,
            in_review: held.len() as u64,
            next_lease_ends_at: held.iter().map(|review| self.reviews[*review].until()).min(),
        }
    }

    fn offer(&mut self, who: usize, collection: usize, limit: usize, strategy: Option<u8>) -> Vec<usize> {
        let strategy = strategy.unwrap_or(self.collections[collection].policy.strategy);
        let held = self.of_state(collection, ReviewState::InReview);
        let assigned = held
            .into_iter()
            .filter(|review| self.holds(*review, who) && !self.reviews[*review].opened);
        let mut taken = self.sorted(assigned.collect(), strategy);
        taken.truncate(limit);
        for review in &taken {
            self.renew(*review);
        }
        let offered = self
            .of_state(collection, ReviewState::Pending)
            .into_iter()
            .filter(|review| {
                !self.reviews[*review].skipped_by.contains(&who) || self.mutated(Mutation::SkipForgotten)
            });
        for review in self.sorted(offered.collect(), strategy) {
            if taken.len() < limit && self.has_room(who) {
                self.take(review, who, true);
                taken.push(review);
            }
        }
        for review in &taken {
            self.tell(*review, "review.popped");
        }
        taken
    }

    /// Takes one review, or keeps it.
    pub(super) fn claim(&mut self, review: usize, who: usize) -> Result<(), Code> {
        let collection = self.collection_of(review);
        if !self.collections[collection].pauses.is_empty() {
            return Err("paused");
        }
        if !self.admits(collection, who) && who != LEAD {
            return Err("conflict");
        }
        if self.holds(review, who) {
            self.renew(review);
        } else {
            let before = self.reviews[review].clone();
            if before.state == ReviewState::InReview {
                if before.until() > self.now {
                    return Err("already_claimed");
                }
                self.run_out(review);
            }
            let refused = match self.reviews[review].state {
                ReviewState::Pending => None,
                ReviewState::Failed if who == LEAD => None,
                ReviewState::Failed => Some("conflict"),
                _ => Some("already_decided"),
            };
            if let Some(code) = refused {
                self.reviews[review] = before;
                return Err(code);
            }
            self.take(review, who, true);
        }
        self.tell(review, "review.claimed");
        Ok(())
    }

    /// A sign of life.
    pub(super) fn heartbeat(&mut self, review: usize, who: usize) -> Result<Timestamp, Code> {
        if !self.holds(review, who) {
            return Err("lease_lost");
        }
        self.renew(review);
        Ok(self.reviews[review].until())
    }

    /// Gives reviews back; each goes to another where the collection assigns, when all are back.
    pub(super) fn release(&mut self, reviews: &[usize], who: usize, skip: bool) -> Vec<Result<(), Code>> {
        let mut results = Vec::new();
        let mut back = Vec::new();
        for review in reviews {
            if !self.holds(*review, who) {
                results.push(Err("lease_lost"));
                continue;
            }
            self.put_back(*review);
            if skip {
                self.reviews[*review].skipped_by.insert(who);
            }
            self.tell(*review, if skip { "review.skipped" } else { "review.released" });
            back.push(*review);
            results.push(Ok(()));
        }
        for review in back {
            if self.policy(review).auto {
                self.hand_over(review, Some(who), false);
            }
        }
        results
    }

    /// A lead puts a review into somebody's hands.
    pub(super) fn reassign(&mut self, review: usize, to: usize) -> Result<(), Code> {
        if !self.admits(self.collection_of(review), to) {
            return Err("validation_failed");
        }
        if !matches!(
            self.reviews[review].state,
            ReviewState::Pending | ReviewState::InReview | ReviewState::Failed
        ) {
            return Err("already_decided");
        }
        let token = self.reviews[review].token;
        self.take(review, to, false);
        if self.mutated(Mutation::ReassignKeepsToken) {
            self.reviews[review].token = token;
        }
        self.tell(review, "review.reassigned");
        Ok(())
    }

    /// Takes all that somebody holds out of their hands: collection by collection, the most urgent first.
    pub(super) fn hand_on(&mut self, from: usize, collections: &[usize]) -> u64 {
        let mut back = Vec::new();
        for collection in collections {
            let held = self.of_state(*collection, ReviewState::InReview).into_iter();
            let own = held
                .filter(|review| self.reviews[*review].holder == Some(from))
                .collect();
            back.extend(self.sorted(own, self.collections[*collection].policy.strategy));
        }
        for review in &back {
            self.put_back(*review);
            self.tell(*review, "review.released");
        }
        let is_there = self.reviewers.get(from).is_none_or(|reviewer| reviewer.available);
        for review in &back {
            if self.policy(*review).auto {
                self.hand_over(*review, Some(from), !is_there);
            }
        }
        back.len() as u64
    }

    /// In the same hands again, by a new hold.
    pub(super) fn take_again(&mut self, review: usize, who: usize) {
        self.take(review, who, true);
    }
}
