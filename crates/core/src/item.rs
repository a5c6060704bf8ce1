//! Items: the thing worked on, what may be submitted, and what a repeated submission means (rules I1, I4, I5, I7).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::Timestamp;
use crate::content::{Digest, check_json};
use crate::field::{MachineField, check_confidence, check_fields};
use crate::job::JobStatus;
use crate::name::{TEXT_MAX, check_text};
use crate::refusal::{Refusal, Refused};
use crate::review::ReviewState;

/// The most entries of one batch call.
pub const BATCH_MAX: usize = 1_000;
/// The largest JSON value taken, in bytes of its text.
pub const JSON_MAX: usize = 1 << 20;

/// Checks the size of a batch.
pub fn check_batch(path: &str, len: usize) -> Refused<()> {
    if len == 0 || len > BATCH_MAX {
        return Err(Refusal::invalid(
            path,
            format!("needs from 1 to {BATCH_MAX} entries, has {len}"),
        ));
    }
    Ok(())
}

/// The state of an item. It is not stored: what holds the item (its job, its review) tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Waits for a worker.
    Queued,
    /// A worker has it.
    Processing,
    /// Waits for or is with a reviewer.
    InReview,
    /// A reviewer approved it.
    Approved,
    /// A reviewer corrected it.
    Corrected,
    /// A reviewer rejected it.
    Rejected,
    /// Done, with no review to follow.
    Completed,
    /// Given up.
    Failed,
    /// Taken back.
    Cancelled,
}

impl ItemStatus {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Processing,
        Self::InReview,
        Self::Approved,
        Self::Corrected,
        Self::Rejected,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Processing => "processing",
            Self::InReview => "in_review",
            Self::Approved => "approved",
            Self::Corrected => "corrected",
            Self::Rejected => "rejected",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// What an item is, told by its latest job (none for an item that arrived finished), whether a review follows, and the review of
    /// its present version.
    pub const fn derive(job: Option<JobStatus>, to_review: bool, review: Option<ReviewState>) -> Self {
        match job {
            Some(JobStatus::Pending) => Self::Queued,
            Some(JobStatus::Processing) => Self::Processing,
            Some(JobStatus::Failed) => Self::Failed,
            Some(JobStatus::Cancelled) => Self::Cancelled,
            Some(JobStatus::Completed) | None => Self::reviewed(to_review, review),
        }
    }

    /// What an item is that nobody processes any more.
    pub const fn reviewed(to_review: bool, review: Option<ReviewState>) -> Self {
        match review {
            Some(ReviewState::Approved) => Self::Approved,
            Some(ReviewState::Corrected) => Self::Corrected,
            Some(ReviewState::Rejected) => Self::Rejected,
            Some(ReviewState::Pending | ReviewState::InReview | ReviewState::Failed) => Self::InReview,
            Some(ReviewState::Cancelled) if to_review => Self::Cancelled,
            None if to_review => Self::InReview,
            Some(ReviewState::Cancelled) | None => Self::Completed,
        }
    }

    /// The count that the item belongs to. What runs counts as queued, so that starting a job touches no counter.
    pub const fn counted_as(self) -> Self {
        match self {
            Self::Processing => Self::Queued,
            other => other,
        }
    }
}

impl fmt::Display for ItemStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the caller wants when the externalId exists with other content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// A refusal.
    #[default]
    Refuse,
    /// The item's next version.
    NewVersion,
}

/// What comes with an item besides its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemDetails {
    /// The caller's id, unique in the collection.
    pub external_id: Option<String>,
    /// The caller's own notes, a JSON object.
    pub metadata: Option<Value>,
    /// Values known already.
    pub fields: Option<Vec<MachineField>>,
    /// What a reviewer should see.
    pub display_payload: Option<Value>,
    /// How sure the machine is on the whole, 0 to 100.
    pub confidence: Option<f64>,
    /// How much there is to review.
    pub line_item_count: Option<u32>,
    /// What it is worth.
    pub total_amount: Option<f64>,
    /// When the review should be done.
    pub deadline: Option<Timestamp>,
    /// What to do when the externalId exists with other content.
    pub on_conflict: OnConflict,
}

impl ItemDetails {
    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Refused<()> {
        if let Some(external_id) = &self.external_id {
            check_text("externalId", external_id, TEXT_MAX)?;
        }
        if let Some(metadata) = &self.metadata {
            if !metadata.is_object() {
                return Err(Refusal::invalid("metadata", "must be a JSON object"));
            }
            check_json("metadata", metadata, JSON_MAX)?;
        }
        if let Some(fields) = &self.fields {
            check_fields(fields)?;
        }
        if let Some(display) = &self.display_payload {
            check_json("displayPayload", display, JSON_MAX)?;
        }
        if let Some(confidence) = self.confidence {
            check_confidence(confidence)?;
        }
        self.total_amount.map_or(Ok(()), check_amount)
    }
}

/// Checks an amount: a number that is finite and not negative.
pub fn check_amount(amount: f64) -> Refused<()> {
    if amount.is_finite() && amount >= 0.0 {
        Ok(())
    } else {
        Err(Refusal::invalid("totalAmount", "must be a number from 0 on"))
    }
}

/// The content of a submission.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// JSON, handed over as it is.
    Json(Value),
    /// A file, its bytes in the blob store.
    File(FileContent),
}

/// A file whose bytes are in the blob store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    /// Its name as the producer knows it.
    pub filename: Option<String>,
    /// Its media type.
    pub media_type: String,
    /// Its size in bytes.
    pub size: u64,
    /// The digest of its bytes.
    pub digest: Digest,
    /// Where the bytes are.
    pub blob_key: String,
}

impl Content {
    /// The digest of the content.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Json(value) => Digest::of_json(value),
            Self::File(file) => file.digest,
        }
    }

    /// Whether the content itself identifies the item (rule I4). A file's bytes do; JSON does where the caller gave it no
    /// id of its own. Two JSON items with different ids may well say the same.
    pub const fn identifies(&self, has_external_id: bool) -> bool {
        match self {
            Self::Json(_) => !has_external_id,
            Self::File(_) => true,
        }
    }
}

/// An item that is already there, as far as a repeated submission needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The digest of its content.
    pub digest: Digest,
}

/// What a submission that meets an existing item means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The same again: the existing item comes back.
    Duplicate,
    /// The existing item's next version.
    NextVersion,
}

/// Decides on a submission whose externalId is taken (rule I5).
pub fn repeat_of_external_id(known: Known, details: &ItemDetails, digest: Digest) -> Refused<Repeat> {
    if known.digest == digest {
        return Ok(Repeat::Duplicate);
    }
    match details.on_conflict {
        OnConflict::NewVersion => Ok(Repeat::NextVersion),
        OnConflict::Refuse => Err(Refusal::ExternalIdConflict {
            external_id: details.external_id.clone().unwrap_or_default(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_items_status_is_told_by_its_job_and_its_review() {
        use ReviewState::{Approved, Cancelled, Failed, Pending};
        for (job, to_review, review, status) in [
            (Some(JobStatus::Pending), false, None, ItemStatus::Queued),
            (Some(JobStatus::Pending), true, Some(Approved), ItemStatus::Queued),
            (Some(JobStatus::Processing), true, None, ItemStatus::Processing),
            (Some(JobStatus::Completed), false, None, ItemStatus::Completed),
            (Some(JobStatus::Completed), true, None, ItemStatus::InReview),
            (
                Some(JobStatus::Completed),
                true,
                Some(Pending),
                ItemStatus::InReview,
            ),
            (
                Some(JobStatus::Completed),
                true,
                Some(Failed),
                ItemStatus::InReview,
            ),
            (
                Some(JobStatus::Completed),
                true,
                Some(Approved),
                ItemStatus::Approved,
            ),
            (
                Some(JobStatus::Completed),
                false,
                Some(Cancelled),
                ItemStatus::Completed,
            ),
            (Some(JobStatus::Failed), true, Some(Cancelled), ItemStatus::Failed),
            (Some(JobStatus::Cancelled), false, None, ItemStatus::Cancelled),
            (None, false, None, ItemStatus::Completed),
            (None, true, None, ItemStatus::InReview),
            (None, true, Some(ReviewState::Rejected), ItemStatus::Rejected),
            (None, true, Some(Cancelled), ItemStatus::Cancelled),
        ] {
            assert_eq!(ItemStatus::derive(job, to_review, review), status);
        }
    }

    #[test]
    fn words_of_status_are_read_back() {
        for status in ItemStatus::ALL {
            assert_eq!(ItemStatus::from_word(status.as_str()), Some(status));
        }
        assert_eq!(ItemStatus::from_word("maybe"), None);
    }

    #[test]
    fn batches_have_bounds() {
        for (len, ok) in [(0, false), (1, true), (1_000, true), (1_001, false)] {
            assert_eq!(check_batch("items", len).is_ok(), ok, "{len}");
        }
    }

    #[test]
    fn bad_details_say_which_and_why() {
        let with = |change: fn(&mut ItemDetails)| {
            let mut details = ItemDetails::default();
            change(&mut details);
            details.check().unwrap_err().to_string()
        };
        assert!(with(|d| d.external_id = Some(String::new())).starts_with("externalId:"));
        assert!(with(|d| d.external_id = Some("a\0".into())).starts_with("externalId:"));
        assert!(with(|d| d.metadata = Some(json!([1]))).starts_with("metadata:"));
        assert!(with(|d| d.confidence = Some(101.0)).starts_with("confidence:"));
        assert!(with(|d| d.confidence = Some(f64::NAN)).starts_with("confidence:"));
        assert!(with(|d| d.total_amount = Some(-1.0)).starts_with("totalAmount:"));
        assert!(with(|d| d.display_payload = Some(json!("x".repeat(JSON_MAX)))).contains("at most"));
    }

    #[test]
    fn a_taken_external_id_is_a_duplicate_a_version_or_a_conflict() {
        let known = Known {
            digest: Digest::of(b"one"),
        };
        let details = |on_conflict| ItemDetails {
            external_id: Some("gen-1".into()),
            on_conflict,
            ..ItemDetails::default()
        };
        let (same, other) = (Digest::of(b"one"), Digest::of(b"two"));
        for (on_conflict, digest, expected) in [
            (OnConflict::Refuse, same, Ok(Repeat::Duplicate)),
            (OnConflict::NewVersion, same, Ok(Repeat::Duplicate)),
            (OnConflict::NewVersion, other, Ok(Repeat::NextVersion)),
            (OnConflict::Refuse, other, Err("external_id_conflict")),
        ] {
            let found = repeat_of_external_id(known, &details(on_conflict), digest);
            assert_eq!(found.map_err(|refusal| refusal.code()), expected);
        }
    }

    #[test]
    fn content_identifies_files_and_nameless_json() {
        let json = Content::Json(json!({"a": 1}));
        let file = Content::File(FileContent {
            filename: None,
            media_type: "text/plain".into(),
            size: 1,
            digest: Digest::of(b"a"),
            blob_key: "k".into(),
        });
        let found = [
            json.identifies(false),
            json.identifies(true),
            file.identifies(false),
            file.identifies(true),
        ];
        assert_eq!(found, [true, false, true, true]);
    }
}
