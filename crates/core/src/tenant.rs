//! Tenants and tiers: what a tenant may do in an hour and at once (rules I2 and P2).

use serde::{Deserialize, Serialize};

use crate::name::TenantId;
use crate::refusal::{Refusal, Refused};

/// The most jobs that one lane can run at once, whatever is configured.
pub const CONCURRENT_JOBS_MAX: u32 = 100_000;

/// How many submissions are allowed in a rolling hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UploadLimit {
    /// As many as one likes; nothing is counted.
    Unlimited,
    /// At most this many.
    PerHour(u32),
}

/// A named set of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// `free`, `starter`, …
    pub name: String,
    /// Submissions in a rolling hour.
    pub uploads: UploadLimit,
    /// Jobs of a lane that run at once.
    pub concurrent_jobs: u32,
}

impl Tier {
    /// The tiers that a deployment has before anything is configured.
    pub fn standard() -> Vec<Self> {
        [
            ("free", 10, 1),
            ("starter", 50, 2),
            ("pro", 200, 5),
            ("enterprise", 1000, 20),
        ]
        .into_iter()
        .map(|(name, per_hour, concurrent_jobs)| Self {
            name: name.to_owned(),
            uploads: UploadLimit::PerHour(per_hour),
            concurrent_jobs,
        })
        .collect()
    }

    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Refused<()> {
        crate::name::check_name("tier", &self.name)?;
        check_concurrent_jobs(self.concurrent_jobs)
    }
}

/// What an operator says of a tenant; what is left out is the tier's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSettings {
    /// The tenant.
    pub id: TenantId,
    /// The name of its tier.
    pub tier: String,
    /// Its own number of submissions in a rolling hour.
    pub uploads: Option<UploadLimit>,
    /// Its own number of jobs at once.
    pub concurrent_jobs: Option<u32>,
}

impl TenantSettings {
    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Refused<()> {
        self.concurrent_jobs.map_or(Ok(()), check_concurrent_jobs)
    }
}

fn check_concurrent_jobs(jobs: u32) -> Refused<()> {
    if jobs == 0 || jobs > CONCURRENT_JOBS_MAX {
        return Err(Refusal::invalid(
            "concurrentJobs",
            format!("must be from 1 to {CONCURRENT_JOBS_MAX}; to stop a tenant, pause its lanes"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_tiers_are_those_of_the_contract() {
        let tiers: Vec<_> = Tier::standard()
            .into_iter()
            .map(|tier| (tier.name, tier.uploads, tier.concurrent_jobs))
            .collect();
        let expected = [
            ("free", 10, 1),
            ("starter", 50, 2),
            ("pro", 200, 5),
            ("enterprise", 1000, 20),
        ];
        assert_eq!(
            tiers,
            expected.map(|(n, u, c)| (n.to_owned(), UploadLimit::PerHour(u), c))
        );
        assert!(Tier::standard().iter().all(|tier| tier.check().is_ok()));
    }

    #[test]
    fn a_tenant_that_may_run_nothing_is_refused() {
        for jobs in [0, CONCURRENT_JOBS_MAX + 1] {
            assert!(check_concurrent_jobs(jobs).is_err());
        }
    }
}
