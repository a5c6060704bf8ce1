//! What the model of the desk remembers.

use std::collections::{BTreeMap, BTreeSet};

use docket_core::Timestamp;
use docket_core::id::{ItemId, PauseId, ReviewId};
use docket_core::item::ItemStatus;
use docket_core::review::{Outcome, ReviewState};
use serde_json::Value;

use super::Mutation;
use super::op::{By, COLLECTIONS, LEAD, Pick, Policy, REVIEWERS};

/// A refusal's code.
pub type Code = &'static str;

/// All that the model knows of a case.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Model {
    pub now: Timestamp,
    pub collections: Vec<Collection>,
    pub reviewers: Vec<Reviewer>,
    pub items: Vec<Item>,
    pub reviews: Vec<Review>,
    /// How many reviews have come up.
    pub arrivals: u64,
    pub mutation: Option<Mutation>,
}

/// A collection.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Collection {
    pub policy: Policy,
    /// Whether its reviews still follow an earlier policy.
    pub to_rekey: bool,
    pub pauses: Vec<PauseId>,
    /// Items that wait for a worker.
    pub queue: Vec<usize>,
}

/// A reviewer.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Reviewer {
    pub available: bool,
    pub capacity: Option<u8>,
    /// When something was last assigned to them, in turns.
    pub turn: u64,
}

/// An item.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Item {
    pub id: Option<ItemId>,
    pub collection: usize,
    pub name: u8,
    pub content: u8,
    pub version: i64,
    pub run: Run,
    /// What machines say of its fields: name, value, how sure.
    pub machine: Vec<(String, Value, f64)>,
    /// What was said when it came.
    pub came: Inputs,
    pub corrections: BTreeMap<String, Correction>,
    /// When a run of this version last ended.
    pub processed_at: Option<Timestamp>,
    /// The actions of its log about reviews and fields.
    pub story: Vec<&'static str>,
}

/// How far its processing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub enum Run {
    Finished,
    Queued,
    Cancelled,
}

/// What orders a review.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Inputs {
    pub confidence: Option<i64>,
    pub lines: Option<i64>,
    pub amount: Option<i64>,
    pub deadline: Option<Timestamp>,
}

/// A person's value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Correction {
    pub value: Value,
    pub locked: bool,
    pub by: usize,
    pub at: Timestamp,
}

/// A review.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Review {
    pub id: Option<ReviewId>,
    pub item: usize,
    pub version: i64,
    pub state: ReviewState,
    pub token: i64,
    pub retries: u32,
    pub holder: Option<usize>,
    pub opened: bool,
    /// When the holder last gave a sign of life, and how long the lease is from there.
    pub heard: Timestamp,
    pub lease_ms: i64,
    pub decided: Option<Decided>,
    pub inputs: Inputs,
    pub deadline: Timestamp,
    /// The stored key, by the policy that was followed when it was computed.
    pub key: i64,
    pub created_at: Timestamp,
    pub arrival: u64,
    pub skipped_by: BTreeSet<usize>,
    /// Who gave it back, while it waits to be assigned.
    pub given_back_by: Option<usize>,
}

/// A decision.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Decided {
    pub by: usize,
    pub at: Timestamp,
    pub said: Said,
    /// What the corrected fields were before.
    pub before: Vec<(String, Option<Correction>)>,
}

/// What a reviewer says in a decision.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Said {
    pub outcome: Outcome,
    pub reason: Option<String>,
    pub corrections: Vec<(String, Value)>,
}

impl Review {
    /// When the lease ends.
    pub fn until(&self) -> Timestamp {
        self.heard.plus_ms(self.lease_ms)
    }
}

impl Model {
    /// A case before anything has happened.
    pub fn new(now: Timestamp, mutation: Option<Mutation>) -> Self {
        let collection = |n: usize| Collection {
            policy: Policy {
                strategy: [1, 0, 2, 1][n % 4],
                auto: n % 2 == 1,
                roster: (n == 3).then_some(0b0111),
                weights: 0,
                sla_hours: 24,
                lease_s: 300,
                max_retries: (n == 0).then_some(1),
                undo_s: if n < 2 { 10 } else { 600 },
            },
            to_rekey: false,
            pauses: Vec::new(),
            queue: Vec::new(),
        };
        let reviewer = Reviewer {
            available: true,
            capacity: None,
            turn: 0,
        };
        Self {
            now,
            collections: (0..COLLECTIONS).map(collection).collect(),
            reviewers: vec![reviewer; REVIEWERS],
            items: Vec::new(),
            reviews: Vec::new(),
            arrivals: 0,
            mutation,
        }
    }

    /// Whether this rule is made wrong.
    pub fn mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The policy that a review follows.
    pub fn policy(&self, review: usize) -> Policy {
        self.collections[self.items[self.reviews[review].item].collection].policy
    }

    /// The collection of a review.
    pub fn collection_of(&self, review: usize) -> usize {
        self.items[self.reviews[review].item].collection
    }

    /// The review of an item's present version.
    pub fn review_of(&self, item: usize) -> Option<usize> {
        let of = |review: &Review| review.item == item && review.version == self.items[item].version;
        self.reviews.iter().position(of)
    }

    /// What an item is.
    pub fn status(&self, item: usize) -> ItemStatus {
        let review = self.review_of(item).map(|review| self.reviews[review].state);
        match (self.items[item].run, review) {
            (Run::Queued, _) => ItemStatus::Queued,
            (Run::Cancelled, _) | (_, Some(ReviewState::Cancelled)) => ItemStatus::Cancelled,
            (_, Some(ReviewState::Approved)) => ItemStatus::Approved,
            (_, Some(ReviewState::Corrected)) => ItemStatus::Corrected,
            (_, Some(ReviewState::Rejected)) => ItemStatus::Rejected,
            _ => ItemStatus::InReview,
        }
    }

    /// Whether the reviewer takes part in the collection.
    pub fn admits(&self, collection: usize, who: usize) -> bool {
        self.collections[collection]
            .policy
            .roster
            .is_none_or(|bits| who < REVIEWERS && bits & (1 << who) != 0)
    }

    /// How many reviews are in somebody's hands.
    pub fn in_hand(&self, who: usize) -> usize {
        let held = |review: &&Review| review.state == ReviewState::InReview && review.holder == Some(who);
        self.reviews.iter().filter(held).count()
    }

    /// The review that somebody means; none while there are none.
    pub fn pick(&self, pick: Pick, fits: impl Fn(&Review) -> bool) -> Option<usize> {
        // One that came and was replaced within one call was never seen and has no name.
        let all = (0..self.reviews.len()).filter(|review| self.reviews[*review].id.is_some());
        let nth = |of: &[usize], n: u8| of.get(usize::from(n) % of.len().max(1)).copied();
        match pick {
            Pick::Any(n) => nth(&all.collect::<Vec<_>>(), n),
            Pick::Fit(n) => {
                let fitting: Vec<_> = all
                    .clone()
                    .filter(|review| fits(&self.reviews[*review]))
                    .collect();
                nth(&fitting, n).or_else(|| nth(&all.collect::<Vec<_>>(), n))
            }
        }
    }

    /// Who speaks about a review.
    pub fn speaker(&self, by: By, review: usize) -> usize {
        let review = &self.reviews[review];
        match by {
            By::Other(n) => usize::from(n) % (LEAD + 1),
            By::Holder => {
                let decided_by = review.decided.as_ref().map(|decided| decided.by);
                decided_by.or(review.holder).unwrap_or(0)
            }
        }
    }

    /// Notes an action of a review's item.
    pub fn tell(&mut self, review: usize, action: &'static str) {
        let item = self.reviews[review].item;
        self.items[item].story.push(action);
    }
}
