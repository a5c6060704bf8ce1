//! Complete: a job is done (rules P11, P12, V11). The lane is freed in the same transaction.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use docket_core::content::check_json;
use docket_core::field::{Correction, MachineField, check_fields};
use docket_core::id::{CollectionKey, ItemId, JobId, PipelineKey};
use docket_core::item::{JSON_MAX, check_amount, check_batch};
use docket_core::job::JobState;
use docket_core::lane::HoldKind;
use docket_core::lease::LeaseToken;
use docket_core::log::Action;
use docket_core::random::Random;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::hot::{self, Output, Settle, SettleTo, Settlement};
use docket_store::table::job;
use docket_store::{Result, Tx, Weight};
use serde_json::Value;

use super::correct::{Said, weigh_corrections};
use crate::engine::{Engine, Kernel};
use crate::intake::prepare::fields_text;
use crate::review::enter::{enter, known};

/// What a worker made of a job.
#[derive(Clone, Debug)]
pub struct Complete {
    /// The job.
    pub job: JobId,
    /// The token that its holder was given.
    pub token: LeaseToken,
    /// What came out.
    pub result: Option<Value>,
    /// The values read; none leaves the item's as they are.
    pub fields: Option<Vec<MachineField>>,
    /// What a reviewer should see.
    pub display_payload: Option<Value>,
    /// How much there is to review.
    pub line_item_count: Option<u32>,
    /// What it is worth.
    pub total_amount: Option<f64>,
}

impl Complete {
    /// A job that is done, and no more to say.
    pub const fn new(job: JobId, token: LeaseToken) -> Self {
        Self {
            job,
            token,
            result: None,
            fields: None,
            display_payload: None,
            line_item_count: None,
            total_amount: None,
        }
    }
}

/// A job that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The item it was about.
    pub item: ItemId,
    /// Whether it was done already, by the same token: nothing was changed now.
    pub repeated: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct CompleteEntry {
    settle: Settle,
    fields: Option<Vec<MachineField>>,
}

#[derive(Clone, Debug)]
pub(crate) struct CompleteCall {
    pub(crate) entries: Vec<Refused<CompleteEntry>>,
}

impl CompleteCall {
    /// What it brings into a batch.
    pub(crate) fn weight(&self) -> Weight {
        let outputs = self.entries.iter().flatten().map(|entry| &entry.settle.output);
        Weight {
            entries: self.entries.len(),
            bytes: outputs.map(Output::bytes).sum(),
        }
    }
}

pub(crate) type CompleteResult = Vec<Refused<Completed>>;

impl Engine {
    /// Completes jobs; one that cannot be completed touches no other.
    pub async fn complete(&self, jobs: Vec<Complete>) -> Result<Vec<Refused<Completed>>> {
        check_batch("jobs", jobs.len())?;
        let mut seen = HashMap::with_capacity(jobs.len());
        let entries = jobs
            .into_iter()
            .enumerate()
            .map(|(index, complete)| {
                let path = format!("jobs[{index}]");
                if let Some(first) = seen.insert(complete.job, index) {
                    return Err(Refusal::invalid(
                        path,
                        format!("names the same job as jobs[{first}]"),
                    ));
                }
                entry(complete).map_err(|refusal| refusal.under(&path))
            })
            .collect();
        self.batches.complete.call(CompleteCall { entries }).await
    }
}

fn entry(complete: Complete) -> Refused<CompleteEntry> {
    if let Some(fields) = &complete.fields {
        check_fields(fields)?;
    }
    if let Some(amount) = complete.total_amount {
        check_amount(amount)?;
    }
    let text = |path, value: Option<Value>| value.map(|value| check_json(path, &value, JSON_MAX)).transpose();
    let output = Output {
        result: text("result", complete.result)?,
        fields: complete.fields.as_deref().map(fields_text).transpose()?,
        display_payload: text("displayPayload", complete.display_payload)?,
        line_item_count: complete.line_item_count.map(i64::from),
        total_amount: complete.total_amount,
    };
    let settle = Settle {
        lane: complete.job.lane(),
        seq: complete.job.seq(),
        token: complete.token,
        from: HoldKind::Leased,
        to: SettleTo::Gone(JobState::Completed),
        retry_count: None,
        error: None,
        failed_step: None,
        output,
        action: Some(Action::JobCompleted),
        actor: None,
        details: None,
    };
    Ok(CompleteEntry {
        settle,
        fields: complete.fields,
    })
}

/// Runs a batch of completions in one transaction.
pub(crate) async fn complete_calls(
    kernel: &Arc<Kernel>,
    calls: Vec<CompleteCall>,
) -> Result<Vec<CompleteResult>> {
    let sizes: Vec<_> = calls.iter().map(|call| call.entries.len()).collect();
    let entries: Vec<_> = calls.into_iter().flat_map(|call| call.entries).collect();
    let params = (entries, Arc::clone(&kernel.random), kernel.clock.now());
    let (results, ready, pending) = kernel
        .store
        .run_batch("complete", params, |tx, p| {
            Box::pin(complete_batch(tx, &p.0, p.1.as_ref(), p.2))
        })
        .await?;
    kernel.hint(ready);
    kernel.hint_reviews(pending);
    let done = |result: &&Refused<Completed>| matches!(result, Ok(completed) if !completed.repeated);
    crate::meter::completed(results.iter().filter(done).count());
    crate::meter::lost("complete", &results);
    let mut results = results.into_iter();
    Ok(sizes
        .into_iter()
        .map(|size| results.by_ref().take(size).collect())
        .collect())
}

async fn complete_batch(
    tx: &mut Tx,
    entries: &[Refused<CompleteEntry>],
    random: &dyn Random,
    now: Timestamp,
) -> Result<(CompleteResult, Vec<PipelineKey>, BTreeSet<CollectionKey>)> {
    let sound: Vec<_> = entries
        .iter()
        .enumerate()
        .filter_map(|(n, entry)| Some((n, entry.as_ref().ok()?)))
        .collect();
    let settles: Vec<_> = sound.iter().map(|(_, entry)| entry.settle.clone()).collect();
    let Settlement { settled, ready } = hot::settle(tx, &settles, now).await?;
    let mut results: CompleteResult = entries
        .iter()
        .map(|entry| match entry {
            Err(refusal) => Err(refusal.clone()),
            Ok(_) => Err(Refusal::LeaseLost),
        })
        .collect();
    let (mut weighed, mut to_review) = (Vec::new(), Vec::new());
    for done in settled {
        let (index, entry) = sound[done.index];
        results[index] = Ok(Completed {
            item: done.item,
            repeated: false,
        });
        if entry.fields.is_some() || done.to_review {
            weighed.push((done.item, entry));
        }
        if done.to_review {
            to_review.push((index, done.item, entry));
        }
    }
    for (index, entry) in sound {
        if results[index].is_err() {
            results[index] = repeated(tx, &entry.settle).await?;
        }
    }
    let said = weighed.iter().map(|(item, entry)| Said {
        item: *item,
        fields: entry.fields.as_deref().unwrap_or_default(),
        job: Some((entry.settle.lane, entry.settle.seq)),
    });
    let corrections = weigh_corrections(tx, &said.collect::<Vec<_>>(), now).await?;
    to_review.sort_by_key(|(index, ..)| *index);
    let to_review: Vec<_> = to_review
        .into_iter()
        .map(|(_, item, entry)| (item, entry))
        .collect();
    let pending = enter_completed(tx, &to_review, corrections, random, now).await?;
    Ok((results, ready, pending))
}

/// Begins the reviews of completed items, by what the machine said of them and by what came with them.
async fn enter_completed(
    tx: &mut Tx,
    completed: &[(ItemId, &CompleteEntry)],
    corrections: Vec<(ItemId, Correction)>,
    random: &dyn Random,
    now: Timestamp,
) -> Result<BTreeSet<CollectionKey>> {
    if completed.is_empty() {
        return Ok(BTreeSet::new());
    }
    let items: Vec<_> = completed.iter().map(|(item, _)| *item).collect();
    let mut known = known(tx, &items).await?;
    for (item, said) in completed {
        let Some(enter) = known.get_mut(item) else {
            continue;
        };
        let output = &said.settle.output;
        if let Some(fields) = &said.fields {
            enter.fields.clone_from(fields);
        }
        enter.line_item_count = output.line_item_count.or(enter.line_item_count);
        enter.total_amount = output.total_amount.or(enter.total_amount);
    }
    for (item, correction) in corrections {
        if let Some(enter) = known.get_mut(&item) {
            enter.corrected.insert(correction.name);
        }
    }
    let entries: Vec<_> = items.iter().filter_map(|item| known.remove(item)).collect();
    enter(tx, &entries, random, now).await
}

/// A completion that was said before, by the same token, stands.
async fn repeated(tx: &mut Tx, settle: &Settle) -> Result<Refused<Completed>> {
    let done = job::get(tx, settle.lane, settle.seq).await?;
    let same = done.filter(|job| job.state == JobState::Completed && job.token == settle.token);
    Ok(same
        .map(|job| Completed {
            item: job.item,
            repeated: true,
        })
        .ok_or(Refusal::LeaseLost))
}
