//! One command for each job.

use std::path::PathBuf;

use anyhow::Result;
use docket_client::worker::{JobHandle, Outcome};
use tokio::io::AsyncWriteExt as _;

use super::answer::Kept;
use super::logged::Logged;
use super::process::{Limits, Process};
use super::steps::Steps;
use super::workplace::Workplace;

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Exec {
    pub(crate) command: String,
    pub(crate) folder: PathBuf,
    pub(crate) limits: Limits,
}

impl Exec {
    /// Runs the command for a job, and says what came of it.
    pub(crate) async fn once(&self, job: &JobHandle) -> Outcome {
        let prepared = async {
            let place = Workplace::make(job, &self.folder).await?;
            let document = serde_json::to_vec(&place.document(job)?)?;
            anyhow::Ok((place, document))
        };
        let (place, document) = tokio::select! {
            prepared = prepared => match prepared {
                Ok(prepared) => prepared,
                Err(error) => return Outcome::failed(format!("{error:#}")),
            },
            _ = job.stopped() => return Outcome::Released,
        };
        match self.run(job, &place, document).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::failed(format!("{error:#}")),
        }
    }

    async fn run(&self, job: &JobHandle, place: &Workplace, mut document: Vec<u8>) -> Result<Outcome> {
        let (steps, logged) = (Steps::of([job]), Logged::new(job.id().to_string()));
        let mut process = Process::start(&self.command, &self.folder, place.variables(job), steps, logged)?;
        document.push(b'\n');
        let feeding = process.stdin.take().map(|mut stdin| {
            tokio::spawn(async move {
                // A command that does not read its input, or not all of it, is within its rights.
                stdin.write_all(&document).await.ok();
            })
        });
        let mut kept = Kept::default();
        let end = process
            .finish(self.limits, job.stopped(), |line| kept.push(line.bytes))
            .await;
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        let said = kept.answer();
        if said.is_none()
            && let Some(line) = kept.last_line()
        {
            tracing::info!(job = %job.id(), line, "the command's output holds no answer in JSON");
        }
        Ok(end.outcome(said, process.logged.last()))
    }
}
