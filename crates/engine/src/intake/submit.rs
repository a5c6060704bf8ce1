//! Submit: any number of calls in one transaction, each with its own answer.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use docket_core::content::Digest;
use docket_core::id::{ItemId, JobId, PipelineKey, UploadId};
use docket_core::item::{Content, ItemDetails, check_batch};
use docket_core::limit::{Allowance, Window};
use docket_core::name::{CollectionId, TEXT_MAX, check_text};
use docket_core::random::Random;
use docket_core::scope::Scope;
use docket_core::tenant::UploadLimit;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::table::collection::{self, Collection};
use docket_store::table::{idempotency, item, tenant, upload};
use docket_store::{Error, Result, Tx, hot};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::classify::{Class, KnownItems};
use super::prepare::Prepared;
use super::version::next_version;
use crate::engine::{Engine, Kernel};

/// Somebody else may insert the same item at the same moment; so often is looked again.
const ROUNDS_MAX: usize = 8;

/// A call that submits JSON items.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Where to.
    pub collection: CollectionId,
    /// 1 to 1,000 items.
    pub items: Vec<SubmitItem>,
    /// The same key again returns the first answer (rule I6).
    pub idempotency_key: Option<String>,
}

/// One item of a call.
#[derive(Clone, Debug)]
pub struct SubmitItem {
    /// The content.
    pub payload: Value,
    /// What comes with it.
    pub details: ItemDetails,
}

/// An item that was taken, or was there already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedItem {
    /// The item.
    pub id: ItemId,
    /// Its job, where this call made one.
    pub job: Option<JobId>,
    /// Whether it was there already: nothing was queued.
    pub duplicate: bool,
    /// Whether it is a new version of an item that was there.
    pub versioned: bool,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitAnswer {
    /// One for each item, in order.
    pub results: Vec<Refused<SubmittedItem>>,
    /// Whether this is the answer to an earlier call with the same idempotency key.
    pub replayed: bool,
    /// Whether that call said something else.
    pub request_differs: bool,
}

/// A call on its way to the database.
#[derive(Clone, Debug)]
pub(crate) struct SubmitCall {
    pub(crate) scope: Scope,
    pub(crate) collection: CollectionId,
    pub(crate) items: Vec<Refused<Prepared>>,
    pub(crate) key: Option<(String, Digest)>,
    /// The upload whose bytes the item takes over.
    pub(crate) upload: Option<UploadId>,
}

/// What became of a call: its answer, or a refusal of it as a whole.
pub(crate) type CallAnswer = Refused<SubmitAnswer>;

impl Engine {
    /// Submits items. Each entry is taken or refused by itself.
    pub async fn submit(&self, scope: &Scope, call: Submit) -> Result<SubmitAnswer> {
        check_batch("items", call.items.len())?;
        let key = match call.idempotency_key {
            None => None,
            Some(key) => {
                check_text("idempotencyKey", &key, TEXT_MAX)?;
                Some((key, digest_of(&call.collection, &call.items)))
            }
        };
        let prepare = |(index, item): (usize, SubmitItem)| {
            Prepared::new(Content::Json(item.payload), item.details, scope.actor.as_str())
                .map_err(|refusal| refusal.under(&format!("items[{index}]")))
        };
        let items: Vec<_> = call.items.into_iter().enumerate().map(prepare).collect();
        if items.iter().all(Result::is_err) {
            // Nothing to do: no transaction, no key used up.
            let results = items.into_iter().filter_map(Result::err).map(Err).collect();
            return Ok(SubmitAnswer {
                results,
                replayed: false,
                request_differs: false,
            });
        }
        let call = SubmitCall {
            scope: scope.clone(),
            collection: call.collection,
            items,
            key,
            upload: None,
        };
        Ok(self.batches.submit.call(call).await??)
    }
}

fn digest_of(collection: &CollectionId, items: &[SubmitItem]) -> Digest {
    let mut text = collection.as_str().to_owned();
    for item in items {
        text.push_str(&item.payload.to_string());
        text.push_str(&format!("{:?}", item.details));
    }
    Digest::of(text.as_bytes())
}

/// All calls of a batch with what they need.
struct Batch {
    calls: Vec<SubmitCall>,
    random: Arc<dyn Random>,
    now: Timestamp,
}

/// Runs a batch in one transaction.
pub(crate) async fn submit_calls(kernel: &Arc<Kernel>, calls: Vec<SubmitCall>) -> Result<Vec<CallAnswer>> {
    let batch = Batch {
        calls,
        random: Arc::clone(&kernel.random),
        now: kernel.clock.now(),
    };
    let mut tries = 0;
    let batch = Arc::new(batch);
    loop {
        let run = kernel.store.run_hot("submit", Arc::clone(&batch), |tx, batch| {
            Box::pin(submit_batch(tx, batch))
        });
        match run.await {
            Ok((answers, ready)) => {
                kernel.hint(ready);
                return Ok(answers);
            }
            // Somebody used one of the keys in the meantime: look again.
            Err(error) if error.is_unique_violation() && tries < ROUNDS_MAX => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

async fn submit_batch(tx: &mut Tx, batch: &Arc<Batch>) -> Result<(Vec<CallAnswer>, BTreeSet<PipelineKey>)> {
    let collections = collections_of(tx, &batch.calls).await?;
    let mut run = Run {
        batch,
        answers: vec![None; batch.calls.len()],
        open: Vec::new(),
        repeats: Vec::new(),
        results: HashMap::new(),
        ready: BTreeSet::new(),
    };
    run.admit(tx, &collections).await?;
    run.write(tx).await?;
    run.finish(tx).await?;
    let answers = run
        .answers
        .into_iter()
        .map(|answer| answer.ok_or(Error::Closed))
        .collect::<Result<Vec<_>>>()?;
    Ok((answers, run.ready))
}

async fn collections_of(tx: &mut Tx, calls: &[SubmitCall]) -> Result<HashMap<String, Collection>> {
    let ids: BTreeSet<_> = calls
        .iter()
        .map(|call| call.collection.as_str().to_owned())
        .collect();
    let found = collection::get_many(tx, ids.into_iter().collect()).await?;
    Ok(found
        .into_iter()
        .map(|collection| (collection.id.clone(), collection))
        .collect())
}

/// One call that is really to be carried out.
struct Open {
    call: usize,
    collection: Collection,
}

/// A batch being carried out.
struct Run<'a> {
    batch: &'a Batch,
    answers: Vec<Option<CallAnswer>>,
    open: Vec<Open>,
    /// Calls whose key an earlier call of the batch has, with that call.
    repeats: Vec<(usize, usize)>,
    /// By call and entry.
    results: HashMap<(usize, usize), Refused<SubmittedItem>>,
    ready: BTreeSet<PipelineKey>,
}

impl Run<'_> {
    /// Answers the calls that need no work and notes the others.
    async fn admit(&mut self, tx: &mut Tx, collections: &HashMap<String, Collection>) -> Result<()> {
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
            if let Some(replay) = self.replay(tx, call).await? {
                self.answers[index] = Some(Ok(replay));
                continue;
            }
            if let Some(upload) = call.upload
                && upload::take(tx, upload, self.batch.now).await?.is_none()
            {
                self.answers[index] = Some(Err(Refusal::UploadExpired {
                    expired_at: self.batch.now,
                }));
                continue;
            }
            self.open.push(Open {
                call: index,
                collection: collection.clone(),
            });
        }
        Ok(())
    }

    /// The earlier call of this batch that has the same key.
    fn first_with_key_of(&self, index: usize) -> Option<usize> {
        let call = &self.batch.calls[index];
        let (key, _) = call.key.as_ref()?;
        let same = |other: &SubmitCall| {
            other.scope.tenant == call.scope.tenant
                && other.key.as_ref().is_some_and(|(other, _)| other == key)
        };
        self.open
            .iter()
            .map(|open| open.call)
            .find(|first| same(&self.batch.calls[*first]))
    }

    /// The first answer to this call's key, where there is one.
    async fn replay(&self, tx: &mut Tx, call: &SubmitCall) -> Result<Option<SubmitAnswer>> {
        let Some((key, digest)) = &call.key else {
            return Ok(None);
        };
        let Some((asked, answer)) = idempotency::get(tx, call.scope.tenant.as_str(), key).await? else {
            return Ok(None);
        };
        let results = serde_json::from_str(&answer).map_err(|source| Error::Json {
            what: "a kept answer",
            source,
        })?;
        Ok(Some(SubmitAnswer {
            results,
            replayed: true,
            request_differs: asked != *digest,
        }))
    }

    /// Classifies the entries and writes what is new, looking again where somebody else was faster.
    async fn write(&mut self, tx: &mut Tx) -> Result<()> {
        let mut limits = Limits::lock(tx, &self.open, self.batch.now).await?;
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
        let wanted: Vec<_> = entries
            .iter()
            .filter_map(|(open, index)| self.prepared(*open, *index))
            .map(|(_, collection, prepared)| (collection.key, prepared))
            .collect();
        let mut known = KnownItems::look_up(tx, &wanted).await?;
        let mut classes = Vec::with_capacity(entries.len());
        let mut rows = Vec::new();
        for (open, index) in entries {
            let Some((_, collection, prepared)) = self.prepared(*open, *index) else {
                continue;
            };
            let id = ItemId::new(self.batch.now, collection.key, self.batch.random.as_ref());
            let class = known.classify(collection.key, prepared, id, limits.of(&collection.tenant_id));
            if let Ok(Class::New(id)) = class {
                rows.push(prepared.row(id, collection.key, collection.lane, collection.to_review));
            }
            classes.push((*open, *index, class));
        }
        let submission = hot::submit(tx, &rows, self.batch.now).await?;
        self.ready.extend(submission.ready);
        let inserted: HashMap<_, _> = submission.inserted.into_iter().collect();
        let wanted: HashSet<_> = rows.iter().map(|row| row.id).collect();
        let lost = |id: &ItemId| wanted.contains(id) && !inserted.contains_key(id);
        let mut again = Vec::new();
        for (open, index, class) in classes {
            let Some((call, collection, prepared)) = self.prepared(open, index) else {
                continue;
            };
            let result = match class {
                Err(refusal) => Err(refusal),
                Ok(Class::New(id) | Class::Duplicate(id) | Class::NextVersion(id)) if lost(&id) => {
                    if class_counts(&class) {
                        limits.of(&collection.tenant_id).remaining += 1;
                    }
                    again.push((open, index));
                    continue;
                }
                Ok(Class::New(id)) => {
                    let seq = inserted.get(&id).copied().flatten();
                    let job = collection
                        .lane
                        .zip(seq)
                        .map(|(lane, seq)| JobId::new(self.batch.now, lane, seq));
                    limits.used(&collection.tenant_id);
                    Ok(SubmittedItem {
                        id,
                        job,
                        duplicate: false,
                        versioned: false,
                    })
                }
                Ok(Class::Duplicate(id)) => Ok(SubmittedItem {
                    id,
                    job: None,
                    duplicate: true,
                    versioned: false,
                }),
                Ok(Class::NextVersion(id)) => {
                    let row = prepared.row(id, collection.key, collection.lane, collection.to_review);
                    match next_version(tx, id, &row, self.batch.now).await? {
                        None => Ok(SubmittedItem {
                            id,
                            job: None,
                            duplicate: true,
                            versioned: false,
                        }),
                        Some(ready) => {
                            limits.used(&collection.tenant_id);
                            self.ready.extend(ready);
                            let job = job_of(tx, id).await?;
                            Ok(SubmittedItem {
                                id,
                                job,
                                duplicate: false,
                                versioned: true,
                            })
                        }
                    }
                }
            };
            self.results.insert((call, index), result);
        }
        Ok(again)
    }

    /// Puts the answers together, keeps those that have a key, and leaves bytes that nobody took to the sweeper.
    async fn finish(&mut self, tx: &mut Tx) -> Result<()> {
        for open in &self.open {
            let call = &self.batch.calls[open.call];
            let results: Vec<_> = (0..call.items.len())
                .map(|index| self.results.remove(&(open.call, index)).ok_or(Error::Closed))
                .collect::<Result<_>>()?;
            let tenant_id = call.scope.tenant.as_str();
            if let (Some(upload), Some(Ok(prepared))) = (call.upload, call.items.first()) {
                let taken = results
                    .iter()
                    .any(|result| result.as_ref().is_ok_and(|item| !item.duplicate));
                if let (false, Some(blob_key)) = (taken, prepared.blob_key()) {
                    upload::insert_discarded(tx, upload, tenant_id, blob_key, self.batch.now).await?;
                }
            }
            if let (Some((key, digest)), true) = (&call.key, results.iter().any(Result::is_ok)) {
                let answer = serde_json::to_string(&results).map_err(|source| Error::Json {
                    what: "an answer",
                    source,
                })?;
                idempotency::insert(tx, tenant_id, key, *digest, &answer, self.batch.now).await?;
            }
            self.answers[open.call] = Some(Ok(SubmitAnswer {
                results,
                replayed: false,
                request_differs: false,
            }));
        }
        for (index, first) in &self.repeats {
            let digest = |call: usize| self.batch.calls[call].key.as_ref().map(|(_, digest)| *digest);
            let request_differs = digest(*index) != digest(*first);
            let answer = self.answers[*first].clone();
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

const fn class_counts(class: &Refused<Class>) -> bool {
    matches!(class, Ok(Class::New(_) | Class::NextVersion(_)))
}

async fn job_of(tx: &mut Tx, id: ItemId) -> Result<Option<JobId>> {
    let Some((lane, seq)) = item::get(tx, id).await?.and_then(|item| item.job) else {
        return Ok(None);
    };
    Ok(docket_store::table::job::get(tx, lane, seq)
        .await?
        .map(|job| job.id()))
}

/// The limits of the tenants of a batch; those that have one are locked, in the order of their ids.
struct Limits {
    tenants: BTreeMap<String, (Option<Window>, Allowance, u64)>,
}

impl Limits {
    async fn lock(tx: &mut Tx, open: &[Open], now: Timestamp) -> Result<Self> {
        let limits: BTreeMap<_, _> = open
            .iter()
            .map(|open| (open.collection.tenant_id.clone(), open.collection.uploads))
            .collect();
        let mut tenants = BTreeMap::new();
        for (id, limit) in limits {
            let window = match limit {
                UploadLimit::Unlimited => None,
                UploadLimit::PerHour(_) => Some(tenant::lock_window(tx, &id, now).await?),
            };
            let unlimited = Window {
                next: 0,
                oldest: None,
                reserved: 0,
            };
            let allowance = window.unwrap_or(unlimited).allowance(limit, now);
            tenants.insert(id, (window, allowance, 0));
        }
        Ok(Self { tenants })
    }

    fn of(&mut self, tenant: &str) -> &mut Allowance {
        let none = (
            None,
            Allowance {
                limit: Some(0),
                remaining: 0,
                wait_ms: 0,
            },
            0,
        );
        &mut self.tenants.entry(tenant.to_owned()).or_insert(none).1
    }

    fn used(&mut self, tenant: &str) {
        if let Some((_, _, used)) = self.tenants.get_mut(tenant) {
            *used += 1;
        }
    }

    /// Counts what was used against those that have a limit.
    async fn take(self, tx: &mut Tx, now: Timestamp) -> Result<()> {
        for (id, (window, _, used)) in self.tenants {
            if let (Some(window), 1..) = (window, used) {
                tenant::take(tx, &id, &window, used, now).await?;
            }
        }
        Ok(())
    }
}
