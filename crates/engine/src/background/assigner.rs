//! The assigner: gives waiting reviews to those who have become free (rule V14), because somebody is there again, may hold more, or has
//! decided on something. It looks at one collection at a time, and only at those in which a review has found nobody.

use std::time::Duration;

use docket_core::Timestamp;
use docket_core::id::CollectionKey;
use docket_store::table::review_unassigned;
use docket_store::{Result, Tx};

use crate::engine::Engine;
use crate::review::assign::{Except, LOOK_AFTER_MS, Team};
use crate::review::{Collections, Reviewed};

/// How many reviews one transaction assigns.
const BATCH: u64 = 100;
/// A reviewer without a capacity is given what waits only while they hold fewer: the rest stays where anybody can take it.
const HELD_MAX: u64 = 20;
/// Where nobody is there, somebody is free and nothing is left that they may be given, or nothing is given out, it is looked again after this.
const REST_MS: i64 = 5_000;
/// The assigner rests at least this long when it could give nothing.
const BREATH: Duration = Duration::from_millis(10);

/// How far a look at a collection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// Reviews were given, and there may be more.
    Gave,
    /// Nobody who is there has room.
    Full,
    /// Others were taking what could be given.
    Outrun,
    /// All that can be given is, or nobody is there.
    Done,
}

impl Looked {
    /// How long until the next look.
    const fn rest_ms(self) -> i64 {
        match self {
            Self::Gave => 0,
            Self::Full | Self::Outrun => LOOK_AFTER_MS,
            Self::Done => REST_MS,
        }
    }
}

impl Engine {
    /// Gives a bounded piece of what waits in one collection; when there is more to do.
    pub async fn assigner_run_once(&self) -> Result<Option<Duration>> {
        let (store, now) = (&self.kernel.store, self.kernel.clock.now());
        let due = self.unassigned_next_due().await?;
        if due.is_none_or(|due| due > now) {
            return Ok(self.until(due));
        }
        // Three transactions. Whoever leaves a review waiting locks reviewers and then the note of its collection, of one collection after
        // the other; here nobody waits for a note who has reviewers locked.
        let until = now.plus_ms(LOOK_AFTER_MS);
        let taken = store.run("unassigned_take", (now, until), |tx, p| {
            Box::pin(review_unassigned::take_due(tx, p.0, p.1))
        });
        let Some(key) = taken.await? else {
            return Ok(Some(BREATH)); // Another server looks at it.
        };
        let looked = store
            .run_hot("review_assign", (key, now), |tx, p| Box::pin(look(tx, p.0, p.1)))
            .await?;
        let due_at = now.plus_ms(looked.rest_ms());
        store
            .run("unassigned_rest", (key, now, due_at, until), |tx, p| {
                Box::pin(rest(tx, p.0, p.1, (p.2, p.3)))
            })
            .await?;
        if looked == Looked::Gave {
            self.kernel.hint_reviews([key]);
            return Ok(Some(Duration::ZERO));
        }
        let due = self.unassigned_next_due().await?;
        Ok(self.until(due).map(|wait| wait.max(BREATH)))
    }

    async fn unassigned_next_due(&self) -> Result<Option<Timestamp>> {
        self.kernel
            .store
            .read("unassigned_next_due", (), |tx, ()| {
                Box::pin(review_unassigned::next_due(tx))
            })
            .await
    }

    fn until(&self, due: Option<Timestamp>) -> Option<Duration> {
        let wait = due?.since(self.kernel.clock.now());
        Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
    }
}

/// Gives what waits in a collection to those who are free.
async fn look(tx: &mut Tx, key: CollectionKey, now: Timestamp) -> Result<Looked> {
    let mut collections = Collections::default();
    let owner = collections.get(tx, key).await?;
    let Some(owner) = owner.filter(|owner| owner.assigns() && !owner.collection.is_paused) else {
        return Ok(Looked::Done);
    };
    let mut team = Team::lock(tx, owner, now).await?;
    // Whoever comes wakes the assigner.
    if team.is_empty() {
        return Ok(Looked::Done);
    }
    team.bound(HELD_MAX);
    let room = team.room().min(BATCH);
    if room == 0 {
        return Ok(Looked::Full);
    }
    let first = review_unassigned::first(tx, key, owner.policy.strategy, team.free(), room).await?;
    if first.is_empty() {
        return Ok(Looked::Done);
    }
    // What somebody else has locked is left out: they may be waiting for these reviewers.
    let waiting = review_unassigned::lock_pending(tx, key, &first).await?;
    let found = waiting.len();
    let left = team.give(tx, owner, waiting, Except::WhoGaveItBack, now).await?;
    match left.len() < found {
        true => Ok(Looked::Gave),
        false => Ok(Looked::Outrun),
    }
}

/// Notes when a collection is looked at next, or that nothing waits in it.
async fn rest(
    tx: &mut Tx,
    key: CollectionKey,
    now: Timestamp,
    (due_at, taken_until): (Timestamp, Timestamp),
) -> Result<()> {
    if !review_unassigned::lock(tx, key).await? {
        return Ok(());
    }
    let mut collections = Collections::default();
    let owner = collections.get(tx, key).await?;
    let assigns = owner.is_some_and(Reviewed::assigns);
    if assigns && review_unassigned::may_wait(tx, key, now).await? {
        review_unassigned::rest(tx, key, due_at, taken_until).await
    } else {
        review_unassigned::delete(tx, key).await
    }
}
