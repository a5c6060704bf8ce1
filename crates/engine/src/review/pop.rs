//! Pop: a reviewer takes the most urgent reviews (rules V5 and V8), and waits for them if they like.

use std::time::Duration;

use docket_core::id::CollectionKey;
use docket_core::name::CollectionId;
use docket_core::review::{REVIEWS_MAX, Strategy};
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Timestamp};
use docket_store::Result;

use super::entry::ReviewEntry;
use super::pop_batch::PopCall;
use crate::engine::Engine;
use crate::wait::Awaited;

/// The longest wait for a review.
const WAIT_MAX_MS: u64 = 60_000;
/// How often it is looked again while others are taking what is pending at that very moment, and after how long.
const CONTENDED_MAX: usize = 50;
const CONTENDED_WAIT: Duration = Duration::from_millis(1);

/// A reviewer's wish for reviews.
#[derive(Clone, Debug)]
pub struct Pop {
    /// Of which collection.
    pub collection: CollectionId,
    /// How many at the most.
    pub limit: u32,
    /// In which order; none for the collection's.
    pub strategy: Option<Strategy>,
    /// Reviews whose holders were silent for so long are put back first.
    pub lock_timeout_ms: Option<i64>,
    /// How long to wait while there are none.
    pub wait_ms: u64,
}

/// What a reviewer got.
#[derive(Clone, Debug)]
pub struct Popped {
    /// The reviews, the most urgent first.
    pub entries: Vec<ReviewEntry>,
    /// Why there are none.
    pub empty: Option<Empty>,
}

/// Why there is nothing to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Empty {
    /// In a word.
    pub reason: EmptyReason,
    /// How many are pending in the collection.
    pub pending: u64,
    /// How many are in hands.
    pub in_review: u64,
    /// When the next lease ends.
    pub next_lease_ends_at: Option<Timestamp>,
    /// For people.
    pub detail: String,
}

/// Why there is nothing to give, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmptyReason {
    /// None left.
    None,
    /// All in other hands.
    AllAssigned,
    /// Paused by an operator.
    Paused,
    /// None that this reviewer may take.
    NotPermitted,
}

impl EmptyReason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::AllAssigned, Self::Paused, Self::NotPermitted];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::AllAssigned => "all_assigned",
            Self::Paused => "paused",
            Self::NotPermitted => "not_permitted",
        }
    }
}

/// What became of one look.
pub(crate) struct Look {
    pub(crate) popped: Popped,
    pub(crate) collection: CollectionKey,
    /// Others are taking what is pending: worth another look at once.
    pub(crate) contended: bool,
    /// Reviews were put back, and this reviewer did not take them all.
    pub(crate) left: bool,
    /// Waiting would not help: it is the reviewer, not the queue.
    pub(crate) is_final: bool,
}

impl Engine {
    /// Gives a reviewer reviews. With a wait, the call lasts until there are some, the time is over, or `stop` resolves.
    pub async fn review_pop(
        &self,
        who: &Reviewing,
        pop: Pop,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Popped> {
        if pop.limit == 0 || pop.limit as usize > REVIEWS_MAX {
            return Err(Refusal::invalid("limit", format!("must be from 1 to {REVIEWS_MAX}")).into());
        }
        if pop.wait_ms > WAIT_MAX_MS {
            return Err(Refusal::invalid("waitSeconds", "must be from 0 to 60").into());
        }
        if pop.lock_timeout_ms.is_some_and(|ms| ms < 0) {
            return Err(Refusal::invalid("lockTimeoutSeconds", "must not be negative").into());
        }
        let mut over = std::pin::pin!(tokio::time::sleep(Duration::from_millis(pop.wait_ms)));
        let mut stop = std::pin::pin!(stop);
        let mut bell = None;
        loop {
            let look = self.pop_now(who, &pop).await?;
            let may_come = look.popped.empty.is_some() && !look.is_final;
            let (popped, key) = (look.popped, look.collection);
            let Some(known) = &bell else {
                if !may_come || pop.wait_ms == 0 {
                    return Ok(popped);
                }
                // Looked once more after the bell is known: what came in between would ring for nobody.
                bell = Some(self.kernel.waiters.bell(Awaited::Review(key)));
                continue;
            };
            let bell = std::sync::Arc::clone(known);
            if !may_come {
                // There may be more: wake the next who waits.
                bell.notify_one();
                return Ok(popped);
            }
            tokio::select! {
                () = bell.notified() => {}
                () = &mut over => return Ok(popped),
                () = &mut stop => return Ok(popped),
                () = self.kernel.waiters.dismissed() => return Ok(popped),
            }
        }
    }

    async fn pop_now(&self, who: &Reviewing, pop: &Pop) -> Result<Look> {
        let mut round = 0;
        loop {
            let call = PopCall {
                who: who.clone(),
                pop: pop.clone(),
            };
            let look = self.batches.review_pop.call(call).await??;
            if look.left {
                self.kernel.hint_reviews([look.collection]);
            }
            for entry in &look.popped.entries {
                if let Some(until) = entry.review.hand.until {
                    self.kernel.lease_ends(until);
                }
            }
            round += 1;
            if look.contended && round < CONTENDED_MAX {
                tokio::time::sleep(CONTENDED_WAIT).await;
                continue;
            }
            crate::meter::popped(&look.popped);
            return Ok(look);
        }
    }
}
