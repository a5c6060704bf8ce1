//! A batch of submissions being carried out: any number of calls in one transaction, each with its own answer.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use docket_core::id::{CollectionKey, ItemId, JobId, PipelineKey, UploadId};
use docket_core::tenant::UploadLimit;
use docket_core::{Refusal, Refused};
use docket_store::table::collection::Collection;
use docket_store::table::idempotency::Kept;
use docket_store::table::together::{self, AskedBySubmits};
use docket_store::table::{item, upload};
use docket_store::{Error, Result, Tx, hot};

use super::classify::{Class, KnownItems, Written, class_counts};
use super::group::Batch;
use super::keys;
use super::places::Limits;
use super::prepare::Prepared;
use super::submit::{CallAnswer, SubmitAnswer, SubmitCall, SubmittedItem};
use super::version::{Versioned, lock_for_versions, next_version};
use crate::once::Asked;
use crate::review::enter::{Enter, enter};

/// Somebody else may insert the same item at the same moment; so often is looked again.
const ROUNDS_MAX: usize = 8;

/// The answers to calls, pipelines of which something can start, and collections in which a review is pending.
pub(super) type Answers = (
    Vec<Option<CallAnswer>>,
    BTreeSet<PipelineKey>,
    BTreeSet<CollectionKey>,
);

pub(super) async fn submit_batch(tx: &mut Tx, batch: &Arc<Batch>) -> Result<Answers> {
    let known = together::known_to_submits(tx, asked_by(&batch.calls)).await?;
    let collections = known.collections.into_iter();
    let collections: HashMap<_, _> = collections.map(|found| (found.id.clone(), found)).collect();
    let mut run = Run {
        batch,
        known: known.items.map(KnownItems::from),
        answers: vec![None; batch.calls.len()],
        open: Vec::new(),
        repeats: Vec::new(),
        results: HashMap::new(),
        ready: BTreeSet::new(),
        pending: BTreeSet::new(),
    };
    run.admit(tx, &collections, &known.kept).await?;
    run.write(tx).await?;
    run.finish(tx).await?;
    Ok((run.answers, run.ready, run.pending))
}

/// What has to be known of these calls.
fn asked_by(calls: &[SubmitCall]) -> AskedBySubmits {
    let mut asked = AskedBySubmits::default();
    let collections: BTreeSet<_> = calls.iter().map(|call| call.collection.as_str()).collect();
    asked.collections = collections.into_iter().map(str::to_owned).collect();
    for call in calls {
        asked.keys.extend(call.key.as_ref().map(Asked::name));
        let collection = || call.collection.as_str().to_owned();
        for entry in call.items.iter().flatten() {
            let (external, content) = (entry.details.external_id.clone(), entry.content_key);
            asked.external.extend(external.map(|id| (collection(), id)));
            asked.content.extend(content.map(|key| (collection(), key)));
        }
    }
    asked
}

/// One call that is really to be carried out.
struct Open {
    call: usize,
    collection: Collection,
    /// Whether it is an upload that had reserved a place and has not taken it yet.
    reserved: bool,
}

/// A batch being carried out.
struct Run<'a> {
    batch: &'a Batch,
    /// The items that its entries may repeat, where they were asked for already.
    known: Option<KnownItems>,
    answers: Vec<Option<CallAnswer>>,
    open: Vec<Open>,
    /// Calls whose key an earlier call of the batch has, with that call.
    repeats: Vec<(usize, usize)>,
    /// By call and entry.
    results: HashMap<(usize, usize), Refused<SubmittedItem>>,
    ready: BTreeSet<PipelineKey>,
    pending: BTreeSet<CollectionKey>,
}

impl Run<'_> {
    /// Answers the calls that need no work and notes the others.
    async fn admit(
        &mut self,
        tx: &mut Tx,
        collections: &HashMap<String, Collection>,
        kept: &HashMap<(String, String), Kept>,
    ) -> Result<()> {
        for (index, call) in self.batch.calls.iter().enumerate() {
            let id = call.collection.as_str();
            let own = collections
                .get(id)
                .filter(|found| found.tenant_id == call.scope.tenant.as_str());
            let Some(collection) = own else {
                self.answers[index] = Some(Err(Refusal::not_found("collection", id)));
                continue;
            };
            if let Some(first) = self.first_with_key_of(index) {
                self.repeats.push((index, first));
                continue;
            }
            if let Some(replay) = keys::replay(kept, call)? {
                self.give_up(tx, call).await?;
                self.answers[index] = Some(Ok(replay));
                continue;
            }
            let mut reserved = false;
            if let Some((upload, expired_at)) = call.upload {
                match upload::take(tx, upload, self.batch.now).await? {
                    Some(place) => reserved = place,
                    None => {
                        // The sweeper may have been here before the bytes were: it is told again, under an id of its own.
                        let trash = UploadId::new(self.batch.now, self.batch.random.as_ref());
                        self.discard(tx, call, trash).await?;
                        self.answers[index] = Some(Err(Refusal::UploadExpired { expired_at }));
                        continue;
                    }
                }
            }
            let mut collection = collection.clone();
            if call.is_finished {
                (collection.lane, collection.to_review) = (None, true);
                collection.uploads = UploadLimit::Unlimited;
            }
            self.open.push(Open {
                call: index,
                collection,
                reserved,
            });
        }
        Ok(())
    }

    /// Frees the place of an upload under whose key another one was faster, and leaves its bytes to the sweeper.
    async fn give_up(&self, tx: &mut Tx, call: &SubmitCall) -> Result<()> {
        let Some((upload, _)) = call.upload else {
            return Ok(());
        };
        let id = match upload::take(tx, upload, self.batch.now).await? {
            Some(_) => upload,
            None => UploadId::new(self.batch.now, self.batch.random.as_ref()),
        };
        self.discard(tx, call, id).await
    }

    /// Leaves the bytes of an upload to the sweeper.
    async fn discard(&self, tx: &mut Tx, call: &SubmitCall, id: UploadId) -> Result<()> {
        let Some(Ok(prepared)) = call.items.first() else {
            return Ok(());
        };
        let Some(blob_key) = prepared.blob_key() else {
            return Ok(());
        };
        upload::insert_discarded(tx, id, call.scope.tenant.as_str(), blob_key, self.batch.now).await
    }

    /// The earlier call of this batch that has the same key.
    fn first_with_key_of(&self, index: usize) -> Option<usize> {
        let call = &self.batch.calls[index];
        let key = &call.key.as_ref()?.key;
        let same = |other: &SubmitCall| {
            other.scope.tenant == call.scope.tenant
                && other.key.as_ref().is_some_and(|other| other.key == *key)
        };
        self.open
            .iter()
            .map(|open| open.call)
            .find(|first| same(&self.batch.calls[*first]))
    }

    /// Classifies the entries and writes what is new, looking again where somebody else was faster.
    async fn write(&mut self, tx: &mut Tx) -> Result<()> {
        let calls = self.open.iter().map(|open| {
            let collection = &open.collection;
            (collection.tenant_id.as_str(), collection.uploads, open.reserved)
        });
        let mut limits = Limits::lock(tx, calls, self.batch.now).await?;
        if limits.are_any() {
            // Whoever had the lock before may have submitted the same: what repeats that is no submission too many.
            self.known = None;
        }
        let mut left: Vec<(usize, usize)> = Vec::new();
        for (open, entry) in self.open.iter().enumerate() {
            for (index, item) in self.batch.calls[entry.call].items.iter().enumerate() {
                match item {
                    Ok(_) => left.push((open, index)),
                    Err(refusal) => drop(self.results.insert((entry.call, index), Err(refusal.clone()))),
                }
            }
        }
        for _ in 0..ROUNDS_MAX {
            if left.is_empty() {
                break;
            }
            left = self.write_round(tx, &left, &mut limits).await?;
        }
        if !left.is_empty() {
            return Err(Error::Open(
                "the same items are being submitted too often at once; try again".to_owned(),
            ));
        }
        limits.take(tx, self.batch.now).await
    }

    fn prepared(&self, open: usize, index: usize) -> Option<(usize, &Collection, &Prepared)> {
        let open = &self.open[open];
        let prepared = self.batch.calls[open.call].items[index].as_ref().ok()?;
        Some((open.call, &open.collection, prepared))
    }

    /// One look and one write; the entries that must be looked at again.
    async fn write_round(
        &mut self,
        tx: &mut Tx,
        entries: &[(usize, usize)],
        limits: &mut Limits,
    ) -> Result<Vec<(usize, usize)>> {
        let mut known = match self.known.take() {
            Some(known) => known,
            None => {
                let wanted: Vec<_> = entries
                    .iter()
                    .filter_map(|(open, index)| self.prepared(*open, *index))
                    .map(|(_, collection, prepared)| (collection.key, prepared))
                    .collect();
                KnownItems::look_up(tx, &wanted).await?
            }
        };
        let mut classes = Vec::with_capacity(entries.len());
        for (open, index) in entries {
            // Its own place is handed over once.
            let reserved = std::mem::take(&mut self.open[*open].reserved);
            let Some((_, collection, prepared)) = self.prepared(*open, *index) else {
                continue;
            };
            let id = ItemId::new(self.batch.now, collection.key, self.batch.random.as_ref());
            let allowance = limits.of(&collection.tenant_id, reserved);
            let class = known.classify(collection.key, prepared, id, allowance);
            classes.push((*open, *index, class));
        }
        let versions = classes.iter().filter_map(|(_, _, class)| match class {
            Ok(Class::NextVersion(id)) => Some(*id),
            _ => None,
        });
        let lanes = self.open.iter().filter_map(|open| open.collection.lane);
        if entries.len() > 1 {
            lock_for_versions(tx, versions.collect(), lanes).await?;
        }
        let mut written = Written::default();
        let mut again = Vec::new();
        // Jobs get their numbers in the order of the entries: a next version after what comes before it and before the rest.
        for stretch in classes.split_inclusive(|(_, _, class)| matches!(class, Ok(Class::NextVersion(_)))) {
            self.write_new(tx, stretch, &mut written).await?;
            for (open, index, class) in stretch {
                match self.result(tx, (*open, *index), class, &written, limits).await? {
                    Some(result) => drop(self.results.insert((self.open[*open].call, *index), result)),
                    None => again.push((*open, *index)),
                }
            }
        }
        Ok(again)
    }

    /// Writes the new items of a stretch of entries.
    async fn write_new(
        &mut self,
        tx: &mut Tx,
        stretch: &[(usize, usize, Refused<Class>)],
        written: &mut Written,
    ) -> Result<()> {
        let mut rows = Vec::new();
        for (open, index, class) in stretch {
            if let (Ok(Class::New(id)), Some((_, collection, prepared))) =
                (class, self.prepared(*open, *index))
            {
                rows.push(prepared.row(*id, collection.key, collection.lane, collection.to_review));
            }
        }
        let submission = hot::submit(tx, &rows, self.batch.now).await?;
        self.ready.extend(submission.ready);
        self.enter_new(tx, &rows, &submission.inserted).await?;
        written.wanted.extend(rows.iter().map(|row| row.id));
        written.inserted.extend(submission.inserted);
        Ok(())
    }

    /// Begins the reviews of new items that arrived finished.
    async fn enter_new(
        &mut self,
        tx: &mut Tx,
        rows: &[hot::NewItem],
        inserted: &[(ItemId, Option<docket_core::id::Seq>)],
    ) -> Result<()> {
        let inserted: HashSet<ItemId> = inserted.iter().map(|(id, _)| *id).collect();
        let entries: Vec<Enter> = rows
            .iter()
            .filter(|row| row.to_review && inserted.contains(&row.id))
            .map(|row| Enter::of_new(row, 1))
            .collect::<Result<_>>()?;
        let pending = enter(tx, &entries, self.batch.random.as_ref(), self.batch.now).await?;
        self.pending.extend(pending);
        Ok(())
    }

    /// What became of one entry, the new items before it being written; none where it must be looked at again.
    async fn result(
        &mut self,
        tx: &mut Tx,
        (open, index): (usize, usize),
        class: &Refused<Class>,
        written: &Written,
        limits: &mut Limits,
    ) -> Result<Option<Refused<SubmittedItem>>> {
        let Some((_, collection, prepared)) = self.prepared(open, index) else {
            return Ok(None);
        };
        let submitted = |id, job, versioned| SubmittedItem {
            id,
            job,
            duplicate: false,
            versioned,
        };
        let duplicate = |id| SubmittedItem {
            id,
            job: None,
            duplicate: true,
            versioned: false,
        };
        Ok(Some(match class {
            Err(refusal) => Err(refusal.clone()),
            Ok(Class::New(id) | Class::Duplicate(id) | Class::NextVersion(id)) if written.lost(id) => {
                if class_counts(class) {
                    limits.of(&collection.tenant_id, false).remaining += 1;
                }
                return Ok(None);
            }
            Ok(Class::New(id)) => {
                let seq = written.inserted.get(id).copied().flatten();
                let place = collection.lane.zip(seq);
                let job = place.map(|(lane, seq)| JobId::new(self.batch.now, lane, seq));
                limits.used(&collection.tenant_id);
                Ok(submitted(*id, job, false))
            }
            Ok(Class::Duplicate(id)) => Ok(duplicate(*id)),
            Ok(Class::NextVersion(id)) => {
                let row = prepared.row(*id, collection.key, collection.lane, collection.to_review);
                match next_version(tx, *id, &row, self.batch.random.as_ref(), self.batch.now).await? {
                    Versioned::Gone => {
                        limits.of(&collection.tenant_id, false).remaining += 1;
                        return Ok(None);
                    }
                    Versioned::Same => {
                        limits.of(&collection.tenant_id, false).remaining += 1;
                        Ok(duplicate(*id))
                    }
                    Versioned::Done(ready, pending) => {
                        limits.used(&collection.tenant_id);
                        self.ready.extend(ready);
                        self.pending.extend(pending);
                        Ok(submitted(*id, job_of(tx, *id).await?, true))
                    }
                }
            }
        }))
    }

    /// Puts the answers together, keeps those that have a key, and leaves bytes that nobody took to the sweeper.
    async fn finish(&mut self, tx: &mut Tx) -> Result<()> {
        // Keys are written in one order, whoever writes them.
        let calls = &self.batch.calls;
        self.open
            .sort_by_cached_key(|open| calls[open.call].key.as_ref().map(Asked::name));
        for open in &self.open {
            let call = &self.batch.calls[open.call];
            let results: Vec<_> = (0..call.items.len())
                .map(|index| {
                    self.results
                        .remove(&(open.call, index))
                        .ok_or(Error::Unanswered { operation: "submit" })
                })
                .collect::<Result<_>>()?;
            if let Some((upload, _)) = call.upload {
                let taken = results
                    .iter()
                    .any(|result| result.as_ref().is_ok_and(|item| !item.duplicate));
                if !taken {
                    self.discard(tx, call, upload).await?;
                }
            }
            let mut answer = SubmitAnswer {
                results,
                replayed: false,
                request_differs: false,
            };
            if let Some(asked) = &call.key {
                if keys::is_kept(&answer) {
                    asked.keep(tx, &answer.results, self.batch.now).await?;
                } else if let Some(first) = asked.first(tx).await? {
                    // Somebody used the key while the tenant's lock was waited for, and perhaps the last place with it.
                    answer = keys::answer_of(first);
                }
            }
            self.answers[open.call] = Some(Ok(answer));
        }
        for (index, first) in &self.repeats {
            let digest = |call: usize| self.batch.calls[call].key.as_ref().map(|asked| asked.digest);
            let request_differs = digest(*index) != digest(*first);
            // A call in which everything was refused has not used its key: those that have the same one are still to be run.
            // One that was itself answered by an earlier call's answer does not tell whether this request is that call's.
            let kept = |answer: &CallAnswer| {
                let first = |answer: &SubmitAnswer| keys::is_kept(answer) && !answer.replayed;
                answer.as_ref().is_ok_and(first)
            };
            let answer = self.answers[*first].clone().filter(kept);
            if answer.is_some() {
                self.give_up(tx, &self.batch.calls[*index]).await?;
            }
            self.answers[*index] = answer.map(|answer| {
                answer.map(|answer| SubmitAnswer {
                    replayed: true,
                    request_differs,
                    ..answer
                })
            });
        }
        Ok(())
    }
}

async fn job_of(tx: &mut Tx, id: ItemId) -> Result<Option<JobId>> {
    let Some((lane, seq)) = item::get(tx, id).await?.and_then(|item| item.job) else {
        return Ok(None);
    };
    Ok(docket_store::table::job::get(tx, lane, seq)
        .await?
        .map(|job| job.id()))
}
