//! The workers: three tasks that claim, do their steps and settle, as a worker in another process would.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use docket_core::field::MachineField;
use docket_core::job::Failure;
use docket_core::name::WorkerId;
use docket_engine::{Claim, ClaimedJob, Complete, Explanation, Fail, StepDone};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::submit::Intake;
use super::tell::{Teller, seconds};
use super::watch::{Positions, explain_in_mid_run};
use super::world::{DIES, FAILS, LEASE_MS, World};

const WORKERS: [&str; 3] = ["worker-1", "worker-2", "worker-3"];
/// How long a dead worker stays away: its lease is over by then, and its job in other hands.
const AWAY: Duration = Duration::from_millis(LEASE_MS as u64 + 700);
const WAIT_MS: u64 = 1_000;

/// What the workers share.
struct Shift {
    world: Arc<World>,
    teller: Arc<Teller>,
    left: AtomicUsize,
    over: watch::Sender<bool>,
}

/// Works until everything that came in is done; what was explained on the way.
pub(super) async fn all(world: &Arc<World>, teller: &Arc<Teller>, intake: &Intake) -> Result<Explanation> {
    let (over, is_over) = watch::channel(false);
    let shift = Arc::new(Shift {
        world: Arc::clone(world),
        teller: Arc::clone(teller),
        left: AtomicUsize::new(intake.items.len()),
        over,
    });
    let positions = Positions::start(world, teller, intake, is_over.clone());
    let explained = tokio::spawn(explain_in_mid_run(Arc::clone(world), intake.last_small.clone()));
    let mut workers = JoinSet::new();
    for name in WORKERS {
        workers.spawn(work(Arc::clone(&shift), WorkerId::new(name)?, is_over.clone()));
    }
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker broke down")??;
    }
    positions.await.context("the positions broke down")??;
    explained.await.context("the explanation broke down")?
}

async fn work(shift: Arc<Shift>, name: WorkerId, mut is_over: watch::Receiver<bool>) -> Result<()> {
    loop {
        let claim = Claim {
            pipeline: shift.world.pipeline()?,
            worker: name.clone(),
            limit: 1,
            lease_ms: None,
            wait_ms: WAIT_MS,
        };
        let jobs = tokio::select! {
            jobs = shift.world.engine.claim(claim) => jobs?,
            _ = is_over.wait_for(|over| *over) => return Ok(()),
        };
        for job in jobs {
            shift.process(name.as_str(), &job).await?;
        }
    }
}

impl Shift {
    async fn process(&self, worker: &str, job: &ClaimedJob) -> Result<()> {
        let name = job
            .external_id
            .clone()
            .or_else(|| job.filename.clone())
            .unwrap_or_default();
        let (engine, begin) = (&self.world.engine, self.teller.now());
        let mut resumed = false;
        for step in &job.steps {
            if step.output.is_some() {
                resumed = true;
                continue;
            }
            if resumed {
                let words = format!(
                    "attempt {}: handed the output of step 1, begins at step 2",
                    job.attempt
                );
                self.teller.notable(worker, &name, &words)?;
                resumed = false;
            }
            tokio::time::sleep(self.world.step_takes()).await;
            if step.name == "extract" && job.attempt == 1 {
                match name.as_str() {
                    DIES => return self.die(worker, &name, job).await,
                    FAILS => return self.fail(worker, &name, job).await,
                    _ => {}
                }
            }
            let done = StepDone {
                job: job.id,
                token: job.token,
                name: step.name.clone(),
                output: json!({ "step": step.name, "characters": 1_240 }),
            };
            engine.step(done).await?;
        }
        let fields = vec![MachineField {
            name: "total".to_owned(),
            value: json!("118.40"),
            confidence: Some(93.0),
            region: None,
        }];
        let complete = Complete {
            result: Some(json!({ "ok": true })),
            fields: Some(fields),
            ..Complete::new(job.id, job.token)
        };
        let result = engine.complete(vec![complete]).await?.pop();
        result.context("a completion was not answered")??;
        self.teller.done(worker, &name, self.teller.now().since(begin))?;
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.over.send_replace(true);
        }
        Ok(())
    }

    /// The worker falls silent with the job in its hands, and comes back when somebody else has it.
    async fn die(&self, worker: &str, name: &str, job: &ClaimedJob) -> Result<()> {
        self.teller
            .bad(worker, name, "falls silent in step 2; nobody renews its lease")?;
        tokio::time::sleep(AWAY).await;
        let late = Complete::new(job.id, job.token);
        let answer = self.world.engine.complete(vec![late]).await?.pop();
        let words = match answer.context("a completion was not answered")? {
            Ok(_) => "is back, and was in time after all".to_owned(),
            Err(refusal) => format!(
                "is back and says done; answered {}: nothing changes",
                refusal.code()
            ),
        };
        self.teller.bad(worker, name, &words)
    }

    async fn fail(&self, worker: &str, name: &str, job: &ClaimedJob) -> Result<()> {
        let failure = Failure {
            error: "no total found on page 1".to_owned(),
            step: Some("extract".to_owned()),
            retryable: true,
        };
        let fail = Fail {
            job: job.id,
            token: job.token,
            failure,
        };
        let answer = self.world.engine.fail(vec![fail]).await?.pop();
        let failed = answer.context("a failure was not answered")??;
        let wait = failed.run_at.map_or(0, |at| at.since(self.teller.now()));
        let words = format!(
            "step 2 failed: no total found on page 1; tried again in {}",
            seconds(wait)
        );
        self.teller.bad(worker, name, &words)
    }
}
