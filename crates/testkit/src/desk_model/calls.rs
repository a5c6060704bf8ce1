//! Each call to the engine beside the same call to the model.

use docket_core::Refused;
use docket_core::field::MachineField;
use docket_core::item::{ItemDetails, OnConflict};
use docket_core::lease::LeaseToken;
use docket_core::name::ReviewerId;
use docket_core::review::{FieldCorrection, Outcome, ReviewState};
use docket_core::scope::Watching;
use docket_engine::{
    Claim, Complete, Decision, Pop, Reassign, ReviewEntry, ReviewRelease, Submit, SubmitItem,
};
use serde_json::{Value, json};

use super::hands::Nothing;
use super::intake::{Taken, inputs_of, read_fields};
use super::op::{By, Entry, FIELDS, LEAD, Pick, STRATEGIES, Said, Token, Verdict};
use super::run::Case;
use super::state::{self, Code, Inputs, Review};
use crate::World;
use crate::model::run::{Checked, coded, same, taken};
use crate::world::names;

fn code<T>(answer: Refused<T>) -> Result<T, Code> {
    answer.map_err(|refusal| refusal.code())
}

fn machine(fields: Vec<(String, Value, f64)>) -> Vec<MachineField> {
    let field = |(name, value, confidence)| MachineField {
        name,
        value,
        confidence: Some(confidence),
        region: None,
    };
    fields.into_iter().map(field).collect()
}

impl Case<'_> {
    fn item_of(&self, entry: &Entry) -> SubmitItem {
        let inputs = inputs_of(entry, self.model.now);
        SubmitItem {
            payload: json!({ "name": entry.name, "content": entry.content }),
            details: ItemDetails {
                external_id: Some(format!("item {}", entry.name)),
                fields: entry.said.map(|said| machine(read_fields(said))),
                confidence: inputs.confidence.map(|sure| sure as f64),
                line_item_count: inputs.lines.and_then(|lines| u32::try_from(lines).ok()),
                total_amount: inputs.amount.map(|amount| amount as f64),
                deadline: inputs.deadline,
                on_conflict: match entry.new_version {
                    true => OnConflict::NewVersion,
                    false => OnConflict::Refuse,
                },
                ..ItemDetails::default()
            },
        }
    }

    pub(super) async fn submit(&mut self, collection: usize, entries: &[Entry]) -> Checked {
        let call = Submit {
            collection: names::collection(&self.collection(collection)),
            items: entries.iter().map(|entry| self.item_of(entry)).collect(),
            idempotency_key: None,
        };
        let scope = World::scope(&self.tenant());
        let answer = taken(self.world.engine.submit(&scope, call).await)?;
        let expected = self.model.submit(collection, entries, false);
        same("the number of results", &answer.results.len(), &expected.len())?;
        for (result, expected) in answer.results.into_iter().zip(expected) {
            let result = code(result).map(|answer| (answer.id, answer.duplicate, answer.versioned));
            let (item, duplicate, versioned) = match expected {
                Taken::Refused(code) => {
                    same("the result", &result, &Err(code))?;
                    continue;
                }
                Taken::New { item } => (item, false, false),
                Taken::Same { item } => (item, true, false),
                Taken::Version { item } => (item, false, true),
            };
            let id = self.model.items[item]
                .id
                .or_else(|| result.ok().map(|(id, ..)| id));
            let id = id.ok_or("a new item was refused")?;
            same("the result", &result, &Ok((id, duplicate, versioned)))?;
            self.model.items[item].id = Some(id);
        }
        self.adopt().await
    }

    pub(super) async fn enter(&mut self, collection: usize, entry: &Entry) -> Checked {
        let id = names::collection(&self.collection(collection));
        let items = vec![self.item_of(entry)];
        let (engine, operator) = (&self.world.engine, World::operator());
        let answer = taken(engine.review_entries(&operator, id, items).await)?
            .pop()
            .ok_or("there is no result")?;
        let expected = self.model.submit(collection, &[*entry], true).remove(0);
        let (item, is_new) = match expected {
            Taken::Refused(refused) => return same("the result", &code(answer).map(drop), &Err(refused)),
            Taken::Same { item } => (item, false),
            Taken::New { item } | Taken::Version { item } => (item, true),
        };
        if let Ok(entered) = &answer {
            self.model.items[item].id.get_or_insert(entered.item);
        }
        self.adopt().await?;
        let expected = match self.model.review_of(item) {
            None => Err("conflict"),
            Some(review) => Ok((self.model.items[item].id, self.model.reviews[review].id, is_new)),
        };
        let answer = code(answer).map(|entered| (Some(entered.item), Some(entered.review), entered.created));
        same("the result", &answer, &expected)
    }

    /// Learns what the engine calls new reviews.
    async fn adopt(&mut self) -> Checked {
        let scope = World::scope(&self.tenant());
        for index in 0..self.model.reviews.len() {
            let review = &self.model.reviews[index];
            let item = &self.model.items[review.item];
            if review.id.is_some() || review.version != item.version {
                continue;
            }
            let id = item.id.ok_or("an item without an id")?;
            let view = taken(self.world.engine.item(&scope, id).await)?;
            let found = view.review.ok_or("an item has no review")?.review.id;
            self.model.reviews[index].id = Some(found);
        }
        Ok(())
    }

    pub(super) async fn process(
        &mut self,
        collection: usize,
        limit: u8,
        said: Said,
        (lines, amount): (Option<u8>, Option<u8>),
    ) -> Checked {
        let claim = Claim {
            pipeline: names::pipeline(&self.pipeline(collection)),
            worker: names::worker("w"),
            limit: u32::from(limit),
            lease_ms: None,
            wait_ms: 0,
        };
        let claimed = taken(self.world.engine.claim(claim).await)?;
        let more = Inputs {
            lines: lines.map(|tens| i64::from(tens) * 10),
            amount: amount.map(|halves| i64::from(halves) * 500),
            ..Inputs::default()
        };
        let jobs = self.model.process(collection, usize::from(limit), said, more);
        let expected: Vec<_> = jobs.iter().map(|item| self.model.items[*item].id).collect();
        let items: Vec<_> = claimed.iter().map(|job| Some(job.item)).collect();
        same("the claimed items", &items, &expected)?;
        if claimed.is_empty() {
            return Ok(());
        }
        let done = claimed.iter().map(|job| Complete {
            fields: Some(machine(read_fields(said))),
            line_item_count: more.lines.and_then(|lines| u32::try_from(lines).ok()),
            total_amount: more.amount.map(|amount| amount as f64),
            ..Complete::new(job.id, job.token)
        });
        let done: Vec<_> = done.collect();
        // Said twice: the second time nothing happens.
        for repeated in [false, true] {
            let answer = taken(self.world.engine.complete(done.clone()).await)?;
            let answer: Vec<_> = answer
                .into_iter()
                .map(|done| code(done).map(|done| done.repeated))
                .collect();
            same("the completions", &answer, &vec![Ok(repeated); done.len()])?;
        }
        self.adopt().await
    }

    pub(super) async fn pop(
        &mut self,
        who: usize,
        collection: usize,
        limit: u8,
        strategy: Option<u8>,
        lock_timeout_s: Option<u16>,
    ) -> Checked {
        let pop = Pop {
            collection: names::collection(&self.collection(collection)),
            limit: u32::from(limit),
            strategy: strategy.map(|n| STRATEGIES[usize::from(n)]),
            lock_timeout_ms: lock_timeout_s.map(|s| i64::from(s) * 1_000),
            wait_ms: 0,
        };
        let silent_ms = pop.lock_timeout_ms;
        let who_asks = self.who(who);
        let popped = self
            .world
            .engine
            .review_pop(&who_asks, pop, std::future::pending());
        let popped = taken(popped.await)?;
        let expected = self
            .model
            .pop(who, collection, usize::from(limit), strategy, silent_ms);
        let reason = popped.empty.as_ref().map(|empty| Nothing {
            reason: empty.reason,
            pending: empty.pending,
            in_review: empty.in_review,
            next_lease_ends_at: empty.next_lease_ends_at,
        });
        let (expected, nothing) = match expected {
            Ok(taken) => (taken, None),
            Err(nothing) => (Vec::new(), Some(nothing)),
        };
        same("why there is nothing", &reason, &nothing)?;
        let ids: Vec<_> = popped.entries.iter().map(|entry| Some(entry.review.id)).collect();
        let expected_ids: Vec<_> = expected
            .iter()
            .map(|review| self.model.reviews[*review].id)
            .collect();
        same("the popped reviews", &ids, &expected_ids)?;
        for (entry, review) in popped.entries.iter().zip(expected) {
            self.check_entry(entry, review)?;
        }
        Ok(())
    }

    pub(super) async fn claim(&mut self, who: usize, review: usize) -> Checked {
        let id = self.model.reviews[review].id.ok_or("a review without an id")?;
        let answer = coded(self.world.engine.review_claim(&self.who(who), id).await)?;
        let expected = self.model.claim(review, who);
        self.compare_entry("the claim", answer, review, expected)
    }

    fn compare_entry(
        &self,
        what: &str,
        answer: Result<ReviewEntry, Code>,
        review: usize,
        expected: Result<(), Code>,
    ) -> Checked {
        same(
            what,
            &answer.as_ref().map(|_| ()).map_err(|code| *code),
            &expected,
        )?;
        answer.map_or(Ok(()), |entry| self.check_entry(&entry, review))
    }

    /// The reviews that are meant, none of them twice, and who speaks: about the first of them.
    pub(super) fn picked(
        &self,
        by: By,
        picks: &[Pick],
        fits: impl Fn(&Review) -> bool + Copy,
    ) -> Option<(usize, Vec<usize>)> {
        let first = self.model.pick(*picks.first()?, fits)?;
        let who = self.model.speaker(by, first);
        let own = |review: &Review| fits(review) && review.holder == Some(who);
        let mut chosen = vec![first];
        for pick in &picks[1..] {
            chosen.extend(
                self.model
                    .pick(*pick, own)
                    .filter(|review| !chosen.contains(review)),
            );
        }
        Some((who, chosen))
    }

    fn ids(&self, reviews: &[usize]) -> Checked<Vec<docket_core::id::ReviewId>> {
        let id = |review: &usize| {
            self.model.reviews[*review]
                .id
                .ok_or_else(|| "a review without an id".to_owned())
        };
        reviews.iter().map(id).collect()
    }

    pub(super) async fn heartbeat(&mut self, who: usize, reviews: &[usize]) -> Checked {
        let ids = self.ids(reviews)?;
        let answer = taken(self.world.engine.review_heartbeat(&self.who(who), ids).await)?;
        let answer: Vec<_> = answer.into_iter().map(code).collect();
        let expected: Vec<_> = reviews
            .iter()
            .map(|review| self.model.heartbeat(*review, who))
            .collect();
        same("the heartbeats", &answer, &expected)
    }

    pub(super) async fn release(&mut self, who: usize, reviews: &[usize], skip: bool) -> Checked {
        let release = ReviewRelease {
            ids: self.ids(reviews)?,
            skip,
            reason: skip.then(|| "not mine".to_owned()),
        };
        let answer = taken(self.world.engine.review_release(&self.who(who), release).await)?;
        let answer: Vec<_> = answer.into_iter().map(code).collect();
        same("the releases", &answer, &self.model.release(reviews, who, skip))
    }

    pub(super) async fn reassign(&mut self, review: usize, to: usize) -> Checked {
        let reassign = Reassign {
            id: self.ids(&[review])?[0],
            to: ReviewerId::new(self.name(to)).unwrap(),
            reason: None,
        };
        let answer = coded(self.world.engine.review_reassign(&self.who(LEAD), reassign).await)?;
        let expected = self.model.reassign(review, to);
        self.compare_entry("the reassignment", answer, review, expected)
    }

    /// The collections by the keys that the engine gave them: the order in which it goes through them.
    fn by_key(&self) -> Vec<usize> {
        let mut known: Vec<_> = (0..self.model.reviews.len())
            .filter_map(|review| {
                Some((
                    self.model.reviews[review].id?.collection(),
                    self.model.collection_of(review),
                ))
            })
            .collect();
        known.sort_unstable();
        known.dedup();
        known.into_iter().map(|(_, collection)| collection).collect()
    }

    pub(super) async fn hand_on(&mut self, from: usize) -> Checked {
        let name = ReviewerId::new(self.name(from)).unwrap();
        let answer = taken(self.world.engine.review_hand_on(&self.who(LEAD), &name).await)?;
        let order = self.by_key();
        same(
            "how many were handed on",
            &answer,
            &self.model.hand_on(from, &order),
        )
    }

    pub(super) async fn assign(&mut self) -> Checked {
        // All at once, so that the engine goes through them by their keys.
        let all_due = "update review_unassigned set due_at_ms = 0";
        self.world.execute(all_due).await?;
        // A note may be of a case before: what is left of it is looked at and forgotten.
        let is_due = "select count(*) from review_unassigned where due_at_ms <= ";
        let is_due = format!("{is_due}{}", self.model.now.ms());
        while self.world.number(&is_due).await > 0 {
            taken(self.world.engine.assigner_run_once().await)?;
        }
        let order = self.by_key();
        self.model.assign_waiting(&order);
        Ok(())
    }

    pub(super) async fn reap(&mut self, older_than_ms: Option<i64>) -> Checked {
        let answer = taken(self.world.engine.review_reap(older_than_ms).await)?;
        let order = self.by_key();
        let expected = self.model.reap(&order, older_than_ms);
        same("what was reaped", &(answer.requeued, answer.failed), &expected)
    }

    pub(super) async fn commit(&mut self, by: By, verdicts: &[Verdict]) -> Checked {
        let picks: Vec<_> = verdicts.iter().map(|verdict| verdict.review).collect();
        // Now and then about what is decided already.
        let is_again = matches!(picks.first(), Some(Pick::Fit(n)) if n % 4 == 0);
        let held = move |review: &Review| {
            review.state == ReviewState::InReview || (is_again && review.decided.is_some())
        };
        let Some((who, reviews)) = self.picked(by, &picks, held) else {
            return Ok(());
        };
        let mut decisions = Vec::new();
        let mut spoken = Vec::new();
        for (review, verdict) in reviews.iter().zip(verdicts) {
            let (token, said) = self.said(*review, verdict);
            let correction = |(field, value): &(String, Value)| FieldCorrection {
                field: field.clone(),
                value: value.clone(),
            };
            decisions.push(Ok(Decision {
                id: self.ids(&[*review])?[0],
                generation_id: None,
                token: token.map(LeaseToken),
                outcome: said.outcome,
                reason: said.reason.clone(),
                corrections: said.corrections.iter().map(correction).collect(),
            }));
            spoken.push((*review, token, said));
        }
        let answer = taken(self.world.engine.review_commit(&self.who(who), decisions).await)?;
        same("the number of results", &answer.len(), &spoken.len())?;
        for (answer, (review, token, said)) in answer.into_iter().zip(spoken) {
            let outcome = said.outcome;
            let expected = self
                .model
                .commit(review, who, token, said)
                .map(|(at, repeated)| (outcome.state(), at, self.model.undo_until(review, at), repeated));
            let answer = code(answer).map(|d| (d.state, d.decided_at, d.undo_until, d.repeated));
            same("the decision", &answer, &expected)?;
        }
        Ok(())
    }

    fn said(&self, review: usize, verdict: &Verdict) -> (Option<i64>, state::Said) {
        let present = self.model.reviews[review].token;
        let token = match verdict.token {
            Token::Unsaid => None,
            Token::Right => Some(present),
            Token::Old => Some(present - 1),
            Token::Forged => Some(present + 1),
        };
        let outcome = match verdict.outcome {
            0 => Outcome::Approved,
            1 => Outcome::Rejected,
            _ => Outcome::Corrected,
        };
        let field = FIELDS
            .get(usize::from(verdict.field))
            .copied()
            .unwrap_or("nothing");
        let value = json!(format!("by hand {}", verdict.value));
        let is_corrected = outcome == Outcome::Corrected && !verdict.careless;
        let said = state::Said {
            outcome,
            reason: (outcome == Outcome::Rejected && !verdict.careless).then(|| "not readable".to_owned()),
            corrections: is_corrected
                .then(|| (field.to_owned(), value))
                .into_iter()
                .collect(),
        };
        (token, said)
    }

    pub(super) async fn undo(&mut self, who: usize, review: usize) -> Checked {
        let ids = self.ids(&[review])?;
        let answer = taken(self.world.engine.review_undo(&self.who(who), ids).await)?.pop();
        let answer = code(answer.ok_or("there is no result")?);
        let answer = answer.map(|undone| (undone.token.0, undone.lease_expires_at));
        let expected = self
            .model
            .undo(review, who)
            .map(|(token, until)| (token, Some(until)));
        same("the undoing", &answer, &expected)
    }

    pub(super) async fn cancel(&mut self, item: usize) -> Checked {
        let id = self.model.items[item].id.ok_or("an item without an id")?;
        let answer = coded(self.world.engine.cancel(&World::scope(&self.tenant()), id).await)?;
        same("the cancellation", &answer, &self.model.cancel(item))
    }

    pub(super) async fn unlock(&mut self, item: usize, field: u8) -> Checked {
        let (id, field) = (self.model.items[item].id, FIELDS[usize::from(field)]);
        let id = id.ok_or("an item without an id")?;
        let scope = World::scope(&self.tenant());
        let answer = coded(self.world.engine.field_unlock(&scope, id, field).await)?;
        same("the unlocking", &answer, &self.model.unlock(item, field))
    }

    pub(super) fn watching(&self) -> Watching {
        Watching::of(&World::scope(&self.tenant()))
    }
}
