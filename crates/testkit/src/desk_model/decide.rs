//! Decisions and how they are taken back, by the book (rules V9, V10, V17).

use docket_core::Timestamp;
use docket_core::review::{Outcome, ReviewState};
use serde_json::Value;

use super::Mutation;
use super::state::{Code, Correction, Decided, Model, Run, Said};

/// A field as people see it: name, value, locked, corrected by whom and when, what the machine says.
pub(super) type SeenField = (
    String,
    Value,
    bool,
    Option<usize>,
    Option<Timestamp>,
    Option<Value>,
);

impl Model {
    /// The fields of an item: the machine's with people's values laid over, then those that only people have.
    pub(super) fn fields(&self, item: usize) -> Vec<SeenField> {
        let row = &self.items[item];
        let of = |name: &String, correction: &Correction, machine: Option<Value>| {
            let (by, at) = (Some(correction.by), Some(correction.at));
            (
                name.clone(),
                correction.value.clone(),
                correction.locked,
                by,
                at,
                machine,
            )
        };
        let mut fields: Vec<SeenField> = Vec::new();
        for (name, value, _) in &row.machine {
            fields.push(match row.corrections.get(name) {
                Some(correction) => of(name, correction, Some(value.clone())),
                None => (name.clone(), value.clone(), false, None, None, None),
            });
        }
        for (name, correction) in &row.corrections {
            if !row.machine.iter().any(|(said, ..)| said == name) {
                fields.push(of(name, correction, None));
            }
        }
        fields
    }

    /// Decides on one review: when, and whether it was decided so before.
    pub(super) fn commit(
        &mut self,
        review: usize,
        who: usize,
        token: Option<i64>,
        said: Said,
    ) -> Result<(Timestamp, bool), Code> {
        let is_incomplete = match said.outcome {
            Outcome::Rejected => said.reason.is_none(),
            Outcome::Corrected => said.corrections.is_empty(),
            Outcome::Approved => false,
        };
        if is_incomplete {
            return Err("validation_failed");
        }
        let row = &self.reviews[review];
        let is_token =
            token.is_none_or(|token| token == row.token) || self.mutated(Mutation::TokenNotChecked);
        if let Some(decided) = row
            .decided
            .as_ref()
            .filter(|_| row.state != ReviewState::InReview)
        {
            let same = decided.by == who && decided.said == said && is_token;
            return if same {
                Ok((decided.at, true))
            } else {
                Err("already_decided")
            };
        }
        let is_held = self.holds(review, who)
            || (self.mutated(Mutation::ExpiryNotChecked)
                && row.state == ReviewState::InReview
                && row.holder == Some(who));
        if !is_held || !is_token {
            return Err("lease_lost");
        }
        let (item, now) = (row.item, self.now);
        let known = self.fields(item);
        if said
            .corrections
            .iter()
            .any(|(name, _)| !known.iter().any(|field| field.0 == *name))
        {
            return Err("validation_failed");
        }
        let mut before = Vec::new();
        for (name, value) in &said.corrections {
            let correction = Correction {
                value: value.clone(),
                locked: true,
                by: who,
                at: now,
            };
            before.push((
                name.clone(),
                self.items[item].corrections.insert(name.clone(), correction),
            ));
            self.tell(review, "field.corrected");
        }
        self.reviews[review].state = said.outcome.state();
        self.tell(
            review,
            match said.outcome {
                Outcome::Approved => "review.approved",
                Outcome::Corrected => "review.corrected",
                Outcome::Rejected => "review.rejected",
            },
        );
        self.reviews[review].decided = Some(Decided {
            by: who,
            at: now,
            said,
            before,
        });
        Ok((now, false))
    }

    /// Until when a decision can be taken back.
    pub(super) fn undo_until(&self, review: usize, decided_at: Timestamp) -> Timestamp {
        decided_at.plus_ms(i64::from(self.policy(review).undo_s) * 1_000)
    }

    /// Takes the own decision back: the token of the new hold, and until when it lasts.
    pub(super) fn undo(&mut self, review: usize, who: usize) -> Result<(i64, Timestamp), Code> {
        let row = &self.reviews[review];
        let item = &self.items[row.item];
        let decided = row.decided.clone().ok_or("conflict")?;
        let is_processed_since = item.processed_at.is_some_and(|at| at > decided.at);
        if decided.by != who
            || self.now > self.undo_until(review, decided.at)
            || item.version != row.version
            || item.run != Run::Finished
            || is_processed_since
        {
            return Err("conflict");
        }
        let index = row.item;
        for (name, before) in decided.before.into_iter().rev() {
            if !self.mutated(Mutation::UndoKeepsLocks) {
                match before {
                    Some(before) => drop(self.items[index].corrections.insert(name, before)),
                    None => drop(self.items[index].corrections.remove(&name)),
                }
            }
            self.tell(review, "field.restored");
        }
        self.reviews[review].decided = None;
        self.take_again(review, who);
        self.tell(review, "review.undone");
        // It was not ordered anew while it was decided.
        self.rekey_one(review);
        Ok((self.reviews[review].token, self.reviews[review].until()))
    }
}
