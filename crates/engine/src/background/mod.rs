//! What goes on by itself. Each part does a bounded piece of work when told to (`run_once`), and is safe on every server at once;
//! the loops here only tell them when.

mod assigner;
mod fold;
mod reaper;
mod retention;
mod sealer;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use docket_store::Result;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::engine::{Engine, Kernel};

pub use retention::Retained;

/// How often each part runs.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// The reaper; it also wakes when the next lease or wait ends.
    pub reap: Duration,
    /// The folder of counter changes.
    pub fold: Duration,
    /// What orders reviews anew when their collection's policy has changed.
    pub rekey: Duration,
    /// What gives waiting reviews to those who have become free; it also wakes when somebody is said to be there.
    pub assign: Duration,
    /// The sealer of the log.
    pub seal: Duration,
    /// The sweeper of bytes without an item.
    pub sweep: Duration,
    /// What counts as sent without evidence.
    pub reconcile: Duration,
    /// What is kept no longer.
    pub retention: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            reap: Duration::from_secs(15),
            fold: Duration::from_secs(1),
            rekey: Duration::from_secs(1),
            assign: Duration::from_secs(1),
            seal: Duration::from_secs(1),
            sweep: Duration::from_secs(60),
            reconcile: Duration::from_secs(60),
            retention: Duration::from_secs(60),
        }
    }
}

/// Background work under way; it ends when this is dropped or stopped.
#[derive(Debug)]
pub struct Background {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    stop_sending: watch::Sender<bool>,
    sending: JoinSet<()>,
}

impl Background {
    /// Takes up no further message to send; those on their way go on.
    pub fn stop_sending(&self) {
        self.stop_sending.send_replace(true);
    }

    /// Waits until nothing is on its way any more, after [`stop_sending`](Self::stop_sending).
    pub async fn sent(&mut self) {
        while self.sending.join_next().await.is_some() {}
    }

    /// Stops after the pieces under way are done.
    pub async fn stop(mut self) {
        self.stop_sending();
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
        self.sent().await;
    }
}

impl Engine {
    /// Reaps what is stale and starts the background work.
    pub async fn start_background(&self, intervals: Intervals) -> Result<Background> {
        self.reap(None).await?;
        self.review_reap(None).await?;
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        macro_rules! every {
            ($name:literal, $interval:expr, $bell:expr, $run_once:ident) => {{
                let (engine, stopped) = (self.clone(), stopped.clone());
                let bell: Option<Bell> = $bell;
                let bell = bell.map(|bell| (Arc::clone(&self.kernel), bell));
                tasks.spawn(repeat($name, stopped, bell, move || {
                    let engine = engine.clone();
                    async move {
                        engine
                            .$run_once()
                            .await
                            .map(|wait| wait.unwrap_or($interval).min($interval))
                    }
                }));
            }};
        }
        every!(
            "reaper",
            intervals.reap,
            Some(|kernel| &kernel.wait_began),
            reaper_run_once
        );
        every!("rekeyer", intervals.rekey, None, rekey_run_once);
        every!(
            "assigner",
            intervals.assign,
            Some(|kernel| &kernel.somebody_is_there),
            assigner_run_once
        );
        every!("folder", intervals.fold, None, fold_run_once);
        every!("sealer", intervals.seal, None, sealer_run_once);
        every!("sweeper", intervals.sweep, None, sweep_run_once);
        every!("reconciler", intervals.reconcile, None, reconciler_run_once);
        every!("retention", intervals.retention, None, retention_run_once);
        let (stop_sending, sending_stopped) = watch::channel(false);
        let mut sending = JoinSet::new();
        sending.spawn(self.clone().dispatch(sending_stopped));
        Ok(Background {
            stop,
            tasks,
            stop_sending,
            sending,
        })
    }
}

/// What wakes a part sooner than it meant to.
type Bell = fn(&Kernel) -> &Notify;

/// Runs a part over and over; it says how long to wait for the next time, and its bell wakes it sooner.
async fn repeat<F, W>(
    name: &'static str,
    mut stopped: watch::Receiver<bool>,
    bell: Option<(Arc<Kernel>, Bell)>,
    mut run_once: F,
) where
    F: FnMut() -> W + Send,
    W: Future<Output = Result<Duration>> + Send,
{
    const AFTER_FAILURE: Duration = Duration::from_secs(1);
    const BREATH: Duration = Duration::from_millis(20);
    loop {
        let wait = match run_once().await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(
                    part = name,
                    error = &error as &dyn std::error::Error,
                    "background work failed"
                );
                AFTER_FAILURE
            }
        };
        let woken = async {
            match &bell {
                Some((kernel, bell)) => bell(kernel).notified().await,
                None => std::future::pending().await,
            }
            // What happens many times at once is one reason to look.
            tokio::time::sleep(BREATH).await;
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = woken => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
    }
}
