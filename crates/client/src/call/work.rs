//! Work: the words between a worker and Docket. Those about a job carry its token, and may be said twice.

use std::time::Duration;

use docket_core::id::JobId;
use docket_core::lease::LeaseToken;
use docket_wire::job::{
    Claim, Claimed, ClaimedJob, Complete, Completed, Completes, Extended, Fail, Failed, Fails, Heartbeat,
    Heartbeats, Reap, Reaped, Release, Released, Releases, StepDone,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Answers, waiting};
use crate::client::{Client, header};
use crate::error::Result;

impl Client {
    /// Claims jobs. Not repeated by itself: what a lost answer has given is with nobody until its lease ends.
    pub async fn claim(&self, claim: &Claim) -> Result<Vec<ClaimedJob>> {
        self.claim_at(claim).await.map(|(jobs, _)| jobs)
    }

    /// Claims jobs, and says what time it was at the server, in milliseconds, to the second.
    pub(crate) async fn claim_at(&self, claim: &Claim) -> Result<(Vec<ClaimedJob>, Option<i64>)> {
        let mut call = self.post(&["internal", "v1", "jobs", "claim"], claim)?;
        call.timeout = Some(waiting(claim.wait_seconds));
        let response = self.send(call).await?;
        let server_ms = header(&response, "date").and_then(|date| http_date_ms(&date));
        let claimed: Claimed = self.read(response).await?;
        Ok((claimed.jobs, server_ms))
    }

    /// Extends leases, in one call. A result for each, in order.
    pub async fn heartbeat(
        &self,
        jobs: impl IntoIterator<Item = (JobId, LeaseToken)>,
        lease: Option<Duration>,
        timeout: Duration,
    ) -> Result<Answers<Extended>> {
        let lease_seconds = lease.map(|lease| lease.as_secs_f64());
        let beat = |(job, lease_token): (JobId, LeaseToken)| Heartbeat {
            job_id: job.uuid(),
            lease_token,
            lease_seconds,
        };
        let beats = Heartbeats {
            jobs: jobs.into_iter().map(beat).collect(),
        };
        self.about_jobs("heartbeat", &beats, Some(timeout)).await
    }

    /// Reports a finished step.
    pub async fn step(&self, job: JobId, lease_token: LeaseToken, name: &str, output: &Value) -> Result<()> {
        let done = StepDone {
            lease_token,
            output: output.clone(),
        };
        let id = job.to_string();
        let call = self.post(&["internal", "v1", "jobs", &id, "steps", name], &done)?;
        self.tell(call.repeatable()).await
    }

    /// Completes jobs. Said twice with the same token, it is answered the same.
    pub async fn complete(&self, jobs: Vec<Complete>) -> Result<Answers<Completed>> {
        self.about_jobs("complete", &Completes { jobs }, None).await
    }

    /// Fails attempts. Said twice with the same token, it is answered the same.
    pub async fn fail(&self, jobs: Vec<Fail>) -> Result<Answers<Failed>> {
        self.about_jobs("fail", &Fails { jobs }, None).await
    }

    /// Hands jobs back. Said twice, the second time is answered `lease_lost`, and all is well.
    pub async fn release(&self, jobs: Vec<Release>) -> Result<Answers<Released>> {
        self.about_jobs("release", &Releases { jobs }, None).await
    }

    /// Finds stale jobs now.
    pub async fn reap(&self, reap: &Reap) -> Result<Reaped> {
        self.ask(self.post(&["internal", "v1", "jobs", "reap"], reap)?.repeatable())
            .await
    }

    async fn about_jobs<T: DeserializeOwned>(
        &self,
        what: &str,
        body: &impl Serialize,
        timeout: Option<Duration>,
    ) -> Result<Answers<T>> {
        let mut call = self.post(&["internal", "v1", "jobs", what], body)?.repeatable();
        call.timeout = timeout;
        self.ask_each(call).await
    }
}

/// A time as HTTP writes it, in milliseconds since the epoch.
fn http_date_ms(date: &str) -> Option<i64> {
    let at = httpdate::parse_http_date(date).ok()?;
    let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_server_is_read() {
        assert_eq!(
            http_date_ms("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777_000)
        );
        assert_eq!(http_date_ms("yesterday"), None);
    }
}
