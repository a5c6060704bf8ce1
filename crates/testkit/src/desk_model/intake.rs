//! How reviews begin and end without a decision, by the book (rules V1 and V11).

use docket_core::Timestamp;
use docket_core::item::ItemStatus;
use docket_core::review::ReviewState;
use serde_json::{Value, json};

use super::Mutation;
use super::op::{Entry, FIELDS, Said};
use super::order::{key, sla_ms};
use super::state::{Code, Inputs, Item, Model, Review, Run};

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    New { item: usize },
    Same { item: usize },
    Version { item: usize },
    Refused(Code),
}

/// The fields that a machine reads, and how sure it is of each: on the average as it is said.
pub(super) fn read_fields(said: Said) -> Vec<(String, Value, f64)> {
    let chosen: Vec<_> = (0..FIELDS.len())
        .filter(|bit| said.bits & (1 << bit) != 0)
        .collect();
    let mean = f64::from(said.confidence) * 10.0;
    let around: &[f64] = match chosen.len() {
        1 => &[0.0],
        2 => &[-10.0, 10.0],
        _ => &[-10.0, 0.0, 10.0],
    };
    let field = |(bit, off): (usize, &f64)| {
        (
            FIELDS[bit].to_owned(),
            json!(format!("read {}", said.value)),
            mean + off,
        )
    };
    chosen.into_iter().zip(around).map(field).collect()
}

fn mean_of(said: Option<Said>) -> Option<i64> {
    said.filter(|said| said.bits != 0)
        .map(|said| i64::from(said.confidence) * 10)
}

/// What orders the review of an item that comes like this.
pub(super) fn inputs_of(entry: &Entry, now: Timestamp) -> Inputs {
    Inputs {
        confidence: entry.confidence.map(|tens| i64::from(tens) * 10),
        lines: entry.lines.map(|tens| i64::from(tens) * 10),
        amount: entry.amount.map(|halves| i64::from(halves) * 500),
        deadline: entry
            .deadline_min
            .map(|minutes| now.plus_ms(i64::from(minutes) * 60_000)),
    }
}

impl Model {
    /// Whether items of the collection are processed first.
    pub(super) const fn has_pipeline(collection: usize) -> bool {
        collection >= 2
    }

    /// Takes entries in their order. What is new in a stretch begins together; a next version ends the stretch.
    pub(super) fn submit(&mut self, collection: usize, entries: &[Entry], is_finished: bool) -> Vec<Taken> {
        let processed = Self::has_pipeline(collection) && !is_finished;
        let mut results = Vec::with_capacity(entries.len());
        let mut begun = Vec::new();
        for entry in entries {
            let taken = self.classify(collection, entry);
            match taken {
                Taken::New { item } if processed => self.collections[collection].queue.push(item),
                Taken::New { item } => begun.push((item, self.items[item].came, entry.said)),
                Taken::Version { item } => {
                    self.begin(std::mem::take(&mut begun));
                    self.next_version(item, entry, processed);
                }
                Taken::Same { .. } | Taken::Refused(_) => {}
            }
            if let Taken::New { item } = taken {
                self.items[item].run = if processed { Run::Queued } else { Run::Finished };
            }
            results.push(taken);
        }
        self.begin(begun);
        results
    }

    fn classify(&mut self, collection: usize, entry: &Entry) -> Taken {
        let same = |item: &Item| item.collection == collection && item.name == entry.name;
        match self.items.iter().position(same) {
            None => {
                self.items.push(Item {
                    id: None,
                    collection,
                    name: entry.name,
                    content: entry.content,
                    version: 1,
                    run: Run::Finished,
                    machine: entry.said.map(read_fields).unwrap_or_default(),
                    came: inputs_of(entry, self.now),
                    corrections: std::collections::BTreeMap::new(),
                    processed_at: None,
                    story: Vec::new(),
                });
                Taken::New {
                    item: self.items.len() - 1,
                }
            }
            Some(item) if self.items[item].content == entry.content => Taken::Same { item },
            Some(_) if !entry.new_version => Taken::Refused("external_id_conflict"),
            Some(item) => {
                // Later entries of the call are compared with it.
                self.items[item].content = entry.content;
                Taken::Version { item }
            }
        }
    }

    fn next_version(&mut self, item: usize, entry: &Entry, processed: bool) {
        let collection = self.items[item].collection;
        self.withdraw(item);
        self.collections[collection]
            .queue
            .retain(|queued| *queued != item);
        let inputs = inputs_of(entry, self.now);
        let row = &mut self.items[item];
        row.version += 1;
        (row.came, row.processed_at) = (inputs, None);
        self.says(item, entry.said);
        if processed {
            self.items[item].run = Run::Queued;
            self.collections[collection].queue.push(item);
        } else {
            self.items[item].run = Run::Finished;
            self.begin(vec![(item, inputs, entry.said)]);
        }
    }

    /// A machine says this of an item: what a person has locked stays, what was unlocked gives way.
    fn says(&mut self, item: usize, said: Option<Said>) {
        let forget = self.mutated(Mutation::LocksForgotten);
        let row = &mut self.items[item];
        row.machine = said.map(read_fields).unwrap_or_default();
        for (name, ..) in &row.machine {
            match row
                .corrections
                .get(name)
                .map(|correction| correction.locked && !forget)
            {
                Some(true) => row.story.push("field.kept_locked"),
                Some(false) => drop(row.corrections.remove(name)),
                None => {}
            }
        }
    }

    /// Cancels the review of an item's present version, if it is open.
    fn withdraw(&mut self, item: usize) -> bool {
        let Some(index) = self.review_of(item) else {
            return false;
        };
        let review = &mut self.reviews[index];
        if !matches!(
            review.state,
            ReviewState::Pending | ReviewState::InReview | ReviewState::Failed
        ) {
            return false;
        }
        review.state = ReviewState::Cancelled;
        (review.holder, review.opened) = (None, false);
        self.tell(index, "review.cancelled");
        true
    }

    /// Begins reviews, one for each item and version; one that was cancelled comes up anew.
    fn begin(&mut self, entries: Vec<(usize, Inputs, Option<Said>)>) {
        let mut new = Vec::new();
        for (item, mut inputs, said) in entries {
            inputs.confidence = inputs.confidence.or(mean_of(said));
            let policy = self.collections[self.items[item].collection].policy;
            let deadline = inputs
                .deadline
                .unwrap_or_else(|| self.now.plus_ms(sla_ms(policy)));
            let index = match self.review_of(item) {
                Some(known) if self.reviews[known].state != ReviewState::Cancelled => continue,
                Some(known) => known,
                None => {
                    self.reviews
                        .push(Review::of(item, self.items[item].version, self.now));
                    self.reviews.len() - 1
                }
            };
            let review = &mut self.reviews[index];
            let action = match review.state {
                ReviewState::Cancelled => "review.reopened",
                _ => "review.created",
            };
            self.arrivals += 1;
            (review.state, review.retries, review.created_at) = (ReviewState::Pending, 0, self.now);
            (review.inputs, review.deadline, review.arrival) = (inputs, deadline, self.arrivals);
            review.key = key(policy, &inputs, deadline);
            self.tell(index, action);
            new.push(index);
        }
        if let Some(first) = new.first()
            && self.policy(*first).auto
        {
            self.assign(new, None);
        }
    }

    /// Takes the oldest jobs of a collection and completes them with what a machine says.
    pub(super) fn process(
        &mut self,
        collection: usize,
        limit: usize,
        said: Said,
        more: Inputs,
    ) -> Vec<usize> {
        let queue = &mut self.collections[collection].queue;
        let jobs: Vec<_> = queue.drain(..limit.min(queue.len())).collect();
        let mut begun = Vec::new();
        for item in &jobs {
            let now = self.now;
            self.says(*item, Some(said));
            let row = &mut self.items[*item];
            row.run = Run::Finished;
            row.processed_at = Some(now);
            let inputs = Inputs {
                lines: more.lines.or(row.came.lines),
                amount: more.amount.or(row.came.amount),
                ..row.came
            };
            begun.push((*item, inputs, Some(said)));
        }
        self.begin(begun);
        jobs
    }

    /// Processes an item again.
    pub(super) fn reprocess(&mut self, item: usize) -> Result<(), Code> {
        let collection = self.items[item].collection;
        if self.items[item].run == Run::Queued || !Self::has_pipeline(collection) {
            return Err("conflict");
        }
        self.withdraw(item);
        self.items[item].run = Run::Queued;
        self.collections[collection].queue.push(item);
        Ok(())
    }

    /// Takes an item back.
    pub(super) fn cancel(&mut self, item: usize) -> Result<(), Code> {
        match self.status(item) {
            ItemStatus::Queued => {
                let collection = self.items[item].collection;
                self.items[item].run = Run::Cancelled;
                self.collections[collection]
                    .queue
                    .retain(|queued| *queued != item);
            }
            ItemStatus::InReview => drop(self.withdraw(item)),
            _ => return Err("conflict"),
        }
        Ok(())
    }

    /// Lets machines change a corrected field again.
    pub(super) fn unlock(&mut self, item: usize, field: &str) -> Result<(), Code> {
        let row = &mut self.items[item];
        let correction = row.corrections.get_mut(field).ok_or("not_found")?;
        if std::mem::replace(&mut correction.locked, false) {
            row.story.push("field.unlocked");
        }
        Ok(())
    }
}

impl Review {
    fn of(item: usize, version: i64, now: Timestamp) -> Self {
        Self {
            id: None,
            item,
            version,
            state: ReviewState::Pending,
            token: 0,
            retries: 0,
            holder: None,
            opened: false,
            heard: now,
            lease_ms: 0,
            decided: None,
            inputs: Inputs::default(),
            deadline: now,
            key: 0,
            created_at: now,
            arrival: 0,
            skipped_by: std::collections::BTreeSet::new(),
            given_back_by: None,
        }
    }
}
