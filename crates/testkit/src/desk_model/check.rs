//! What is compared besides the answers: everything that can be looked at.

use std::collections::BTreeMap;

use docket_core::Timestamp;
use docket_core::item::ItemStatus;
use docket_core::review::ReviewState;
use docket_engine::{LogPosition, ReviewEntry};

use super::op::COLLECTIONS;
use super::order::score;
use super::run::Case;
use crate::World;
use crate::model::run::{Checked, same, taken};
use crate::world::names;

/// The entries of one page of the log.
const LOG_PAGE: usize = 200;

/// A review as people see it, as far as it is compared.
#[derive(Debug, PartialEq)]
struct Seen {
    version: i64,
    state: ReviewState,
    token: i64,
    retries: u32,
    holder: Option<String>,
    opened: Option<bool>,
    until: Option<Timestamp>,
    decided: Option<(String, Timestamp)>,
    deadline: Timestamp,
    created_at: Timestamp,
}

impl Case<'_> {
    /// Compares a review as the engine shows it with what the model knows of it.
    pub(super) fn check_entry(&self, entry: &ReviewEntry, index: usize) -> Checked {
        let (hand, review) = (&entry.review.hand, &self.model.reviews[index]);
        let is_held = hand.state == ReviewState::InReview;
        let seen = Seen {
            version: entry.review.item_version,
            state: hand.state,
            token: hand.token.0,
            retries: hand.retry_count,
            holder: hand.assigned_to.clone().filter(|_| is_held),
            opened: is_held.then_some(hand.opened_at.is_some()),
            until: hand.until,
            decided: hand.decided_by.clone().zip(hand.decided_at),
            deadline: entry.review.inputs.deadline,
            created_at: entry.review.created_at,
        };
        let is_held = review.state == ReviewState::InReview;
        let expected = Seen {
            version: review.version,
            state: review.state,
            token: review.token,
            retries: review.retries,
            holder: review.holder.filter(|_| is_held).map(|who| self.name(who)),
            opened: is_held.then_some(review.opened),
            until: is_held.then(|| review.until()),
            decided: review
                .decided
                .as_ref()
                .map(|decided| (self.name(decided.by), decided.at)),
            deadline: review.deadline,
            created_at: review.created_at,
        };
        same(&format!("review {index}"), &seen, &expected)?;
        let points = score(
            self.model.policy(index),
            &review.inputs,
            review.deadline,
            self.model.now,
        );
        if (entry.parts.total() - points).abs() > 1e-6 {
            return Err(format!(
                "review {index} has {:?}, not {points} points",
                entry.parts
            ));
        }
        Ok(())
    }

    /// Compares what can be looked at; at the end also what was logged.
    pub(super) async fn check(&self, at_the_end: bool) -> Checked {
        for item in 0..self.model.items.len() {
            let checked = self.check_item(item, at_the_end).await;
            checked.map_err(|problem| format!("item {item}: {problem}"))?;
        }
        for collection in 0..COLLECTIONS {
            let checked = self.check_collection(collection).await;
            checked.map_err(|problem| format!("collection {collection}: {problem}"))?;
        }
        self.doctor().await
    }

    async fn check_item(&self, item: usize, at_the_end: bool) -> Checked {
        let (scope, row) = (World::scope(&self.tenant()), &self.model.items[item]);
        let id = row.id.ok_or("it has no id")?;
        let view = taken(self.world.engine.item(&scope, id).await)?;
        same(
            "its status and version",
            &(view.item.status, view.item.version),
            &(self.model.status(item), row.version),
        )?;
        let fields = view.fields.into_iter().map(|field| {
            (
                field.name,
                field.value,
                field.locked,
                field.corrected_by,
                field.corrected_at,
                field.machine_value,
            )
        });
        let expected = self
            .model
            .fields(item)
            .into_iter()
            .map(|(name, value, locked, by, at, machine)| {
                (name, value, locked, by.map(|by| self.name(by)), at, machine)
            });
        same("its fields", &fields.collect::<Vec<_>>(), &expected.collect())?;
        match (view.review, self.model.review_of(item)) {
            (None, None) => {}
            (Some(entry), Some(review)) => self.check_entry(&entry, review)?,
            (found, known) => return Err(format!("its review is {found:?}, not {known:?}")),
        }
        if !at_the_end {
            return Ok(());
        }
        let entries = taken(
            self.world
                .engine
                .timeline(&scope, id, LogPosition::default(), LOG_PAGE as u64)
                .await,
        )?;
        let is_told = |action: &&str| action.starts_with("review.") || action.starts_with("field.");
        let story: Vec<_> = entries
            .iter()
            .map(|entry| entry.action.as_str())
            .filter(is_told)
            .collect();
        if entries.len() == LOG_PAGE {
            // Its log goes on, on another page.
            return Ok(());
        }
        same("its story", &story, &row.story)
    }

    async fn check_collection(&self, collection: usize) -> Checked {
        let (engine, id) = (
            &self.world.engine,
            names::collection(&self.collection(collection)),
        );
        let stats = taken(engine.review_stats(&self.watching(), &id).await)?;
        let of = |state| self.model.of_state(collection, state);
        for state in ReviewState::ALL {
            same(
                &format!("how many are {state}"),
                &stats.count(state),
                &(of(state).len() as u64),
            )?;
        }
        let waiting = of(ReviewState::Pending);
        let oldest = waiting
            .iter()
            .map(|review| self.model.reviews[*review].created_at)
            .min();
        same("the oldest that waits", &stats.oldest_pending, &oldest)?;
        let open = waiting.into_iter().chain(of(ReviewState::InReview));
        let overdue = open.filter(|review| self.model.reviews[*review].deadline < self.model.now);
        same("how many are overdue", &stats.overdue, &(overdue.count() as u64))?;
        let is_paused = !self.model.collections[collection].pauses.is_empty();
        same("whether it is paused", &stats.is_paused, &is_paused)?;
        let workload = taken(engine.review_workload(&self.watching(), &id).await)?;
        for row in workload {
            let held = of(ReviewState::InReview).into_iter();
            let who = |review: &usize| self.model.reviews[*review].holder.map(|who| self.name(who));
            let held = held
                .filter(|review| who(review).as_ref() == Some(&row.reviewer))
                .count();
            same(
                &format!("what {} holds", row.reviewer),
                &row.in_review,
                &(held as u64),
            )?;
        }
        let scope = World::scope(&self.tenant());
        let counts = taken(engine.counts(&scope, &id).await)?;
        let mut expected: BTreeMap<ItemStatus, i64> = BTreeMap::new();
        for item in 0..self.model.items.len() {
            if self.model.items[item].collection == collection {
                *expected.entry(self.model.status(item)).or_default() += 1;
            }
        }
        same("the counts of items", &counts, &expected)
    }

    /// The doctor must find nothing.
    pub(super) async fn doctor(&self) -> Checked {
        let found = taken(self.world.engine.doctor().await)?;
        if found.is_empty() {
            return Ok(());
        }
        Err(format!("the doctor found:\n{}", found.join("\n")))
    }
}
