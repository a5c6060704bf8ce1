//! The book of what a worker holds: each job's token, and until when its lease is sure.
//!
//! Times here are this machine's own, taken before the request that renewed the lease was sent: so the lease ends here no later
//! than there, and no clock has to agree with another.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use docket_core::id::JobId;
use docket_core::lease::LeaseToken;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::job::Stop;

/// The machine's time since whenever, which never jumps.
#[expect(
    clippy::disallowed_methods,
    reason = "how long ago a lease was renewed is a matter of this machine alone; tests pause tokio's time"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[derive(Debug)]
struct Hold {
    token: LeaseToken,
    lease: Duration,
    ends: Instant,
    beat_at: Instant,
    /// Its outcome is on its way: the lease is kept until it is answered, and what becomes of it is the answer's word.
    settling: bool,
    stop: watch::Sender<Option<Stop>>,
}

/// What is held.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    held: Mutex<HashMap<JobId, Hold>>,
    changed: Notify,
}

/// A lease to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) job: JobId,
    pub(crate) token: LeaseToken,
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Hold>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a job that was claimed by a request sent at `asked`.
    pub(crate) fn enter(
        &self,
        job: JobId,
        token: LeaseToken,
        lease: Duration,
        asked: Instant,
    ) -> watch::Receiver<Option<Stop>> {
        let (stop, stopped) = watch::channel(None);
        let hold = Hold {
            token,
            lease,
            ends: asked + lease,
            beat_at: asked + lease / 3,
            settling: false,
            stop,
        };
        self.lock().insert(job, hold);
        self.changed.notify_one();
        stopped
    }

    /// How many are held.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Waits until something is entered.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// When somebody has to look again: a beat is due or a lease ends.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        let held = self.lock();
        let is_running = |hold: &&Hold| hold.stop.borrow().is_none();
        held.values()
            .filter(is_running)
            .map(|hold| hold.beat_at.min(hold.ends))
            .min()
    }

    /// The leases to renew now: those that are due and those that are nearly so. And how long the call may take.
    pub(crate) fn due(&self, now: Instant) -> (Vec<Due>, Duration) {
        let held = self.lock();
        let mut allowed = Duration::from_secs(10);
        let mut due = Vec::new();
        for (job, hold) in held.iter() {
            if hold.stop.borrow().is_some() || hold.beat_at > now + hold.lease / 6 {
                continue;
            }
            allowed = allowed.min(hold.lease / 3);
            due.push(Due {
                job: *job,
                token: hold.token,
            });
        }
        (due, allowed.max(Duration::from_millis(50)))
    }

    /// A lease was renewed by a request sent at `asked`.
    pub(crate) fn renewed(&self, due: Due, asked: Instant) {
        if let Some(hold) = self.lock().get_mut(&due.job)
            && hold.token == due.token
        {
            hold.ends = asked + hold.lease;
            hold.beat_at = asked + hold.lease / 3;
        }
    }

    /// Leases could not be renewed: they are tried again after a wait that leaves time for more tries.
    pub(crate) fn put_off(&self, due: &[Due], now: Instant, wait: Duration) {
        let mut held = self.lock();
        for due in due {
            if let Some(hold) = held.get_mut(&due.job) {
                hold.beat_at = now + wait.min(hold.lease / 6).max(Duration::from_millis(10));
            }
        }
    }

    /// A lease is gone: its handler is told.
    pub(crate) fn lost(&self, due: Due) -> bool {
        match self.lock().get(&due.job) {
            Some(hold) if hold.token == due.token => tell(hold, Stop::LeaseLost) && !hold.settling,
            _ => false,
        }
    }

    /// Tells the handlers of leases that ended without being renewed, and gives their jobs.
    pub(crate) fn expire(&self, now: Instant) -> Vec<JobId> {
        let held = self.lock();
        let over = held
            .iter()
            .filter(|(_, hold)| hold.ends <= now && tell(hold, Stop::LeaseLost));
        over.map(|(job, _)| *job).collect()
    }

    /// The handler is done with a job, and its outcome is delivered from now on.
    pub(crate) fn settling(&self, job: JobId) {
        if let Some(hold) = self.lock().get_mut(&job) {
            hold.settling = true;
        }
    }

    /// Tells every handler to stop.
    pub(crate) fn stop_all(&self) {
        for hold in self.lock().values() {
            tell(hold, Stop::Shutdown);
        }
    }

    /// Forgets a job that is settled, or lost.
    pub(crate) fn forget(&self, job: JobId, token: LeaseToken) {
        let mut held = self.lock();
        if held.get(&job).is_some_and(|hold| hold.token == token) {
            held.remove(&job);
        }
    }
}

/// Whether this is news to the handler.
fn tell(hold: &Hold, why: Stop) -> bool {
    hold.stop.send_if_modified(|told| {
        let is_news = told.is_none();
        if is_news {
            *told = Some(why);
        }
        is_news
    })
}

#[cfg(test)]
mod tests {
    use docket_core::Timestamp;
    use docket_core::id::{LaneKey, Seq};

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn held() -> (Holds, Due, watch::Receiver<Option<Stop>>, Instant) {
        let (holds, start) = (Holds::default(), now());
        let job = JobId::new(Timestamp::from_ms(1_790_000_000_000), LaneKey(5), Seq(1));
        let token = LeaseToken(1);
        let stopped = holds.enter(job, token, LEASE, start);
        (holds, Due { job, token }, stopped, start)
    }

    #[tokio::test]
    async fn a_lease_is_renewed_at_a_third_and_ends_where_it_is_not() {
        let (holds, due, stopped, start) = held();
        assert_eq!(holds.next_look(), Some(start + LEASE / 3));
        assert!(holds.due(start).0.is_empty());
        assert_eq!(holds.due(start + LEASE / 3).0, [due]);
        holds.renewed(due, start + LEASE / 3);
        assert_eq!(holds.expire(start + LEASE), []);
        assert_eq!(holds.expire(start + LEASE * 4 / 3), [due.job]);
        assert_eq!(*stopped.borrow(), Some(Stop::LeaseLost));
        assert_eq!(holds.expire(start + LEASE * 2), [], "it is told once");
        assert_eq!(holds.next_look(), None);
    }

    #[tokio::test]
    async fn an_old_token_touches_nothing() {
        let (holds, due, stopped, start) = held();
        let old = Due {
            token: LeaseToken(0),
            ..due
        };
        assert!(!holds.lost(old));
        holds.renewed(old, start + LEASE);
        holds.forget(old.job, old.token);
        assert_eq!((holds.count(), *stopped.borrow()), (1, None));
        assert_eq!(holds.next_look(), Some(start + LEASE / 3));
    }

    #[tokio::test]
    async fn a_beat_that_failed_is_tried_again_before_the_lease_ends() {
        let (holds, due, _stopped, start) = held();
        holds.put_off(&[due], start + LEASE / 3, Duration::from_secs(600));
        assert_eq!(holds.next_look(), Some(start + LEASE / 2));
    }
}
