//! The log: what happened, to what, by whom (rule L1).

/// What an entry says happened, as `noun.verb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words speak for themselves")]
pub enum Action {
    KeyCreated,
    KeyRevoked,
    TierPut,
    TenantPut,
    CollectionPut,
    PipelinePut,
    PauseSet,
    PauseLifted,
    ItemSubmitted,
    ItemVersioned,
    ItemReprocessed,
    ItemCancelled,
    ItemExpired,
    JobClaimed,
    JobStepCompleted,
    JobCompleted,
    JobFailed,
    JobReleased,
    JobStale,
    JobRetried,
    JobCancelled,
    FieldCorrected,
    FieldKeptLocked,
}

impl Action {
    /// Its word, part of the wire contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeyCreated => "key.created",
            Self::KeyRevoked => "key.revoked",
            Self::TierPut => "tier.put",
            Self::TenantPut => "tenant.put",
            Self::CollectionPut => "collection.put",
            Self::PipelinePut => "pipeline.put",
            Self::PauseSet => "pause.set",
            Self::PauseLifted => "pause.lifted",
            Self::ItemSubmitted => "item.submitted",
            Self::ItemVersioned => "item.versioned",
            Self::ItemReprocessed => "item.reprocessed",
            Self::ItemCancelled => "item.cancelled",
            Self::ItemExpired => "item.expired",
            Self::JobClaimed => "job.claimed",
            Self::JobStepCompleted => "job.step_completed",
            Self::JobCompleted => "job.completed",
            Self::JobFailed => "job.failed",
            Self::JobReleased => "job.released",
            Self::JobStale => "job.stale",
            Self::JobRetried => "job.retried",
            Self::JobCancelled => "job.cancelled",
            Self::FieldCorrected => "field.corrected",
            Self::FieldKeptLocked => "field.kept_locked",
        }
    }
}
