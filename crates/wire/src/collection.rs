//! Collections: sets of items of one tenant that share a review policy.

use docket_core::name::ReviewerId;
use docket_core::notify::OnUnknown;
use docket_core::review as core;
use docket_core::{Refusal, Refused};
use serde::{Deserialize, Serialize};

use crate::whole::whole_or_none;

/// The order in which reviews are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The oldest first.
    Fifo,
    /// The highest priority first.
    #[default]
    Priority,
    /// The nearest deadline first.
    Deadline,
}

/// How reviews find their reviewers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// Reviewers take them.
    #[default]
    Pull,
    /// They are given to the one with the fewest.
    Auto,
}

/// What a reviewer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words speak for themselves")]
pub enum ReviewOutcome {
    #[serde(alias = "accepted")]
    Approved,
    Corrected,
    Rejected,
}

/// How much each part counts in a priority.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Weights {
    /// How unsure the machine is.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub confidence: f64,
    /// How near the deadline is.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub deadline: f64,
    /// How much there is to review.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub complexity: f64,
    /// What it is worth.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub value: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            confidence: 40.0,
            deadline: 30.0,
            complexity: 20.0,
            value: 10.0,
        }
    }
}

/// How items are reviewed. What is left out has its usual value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ReviewPolicy {
    /// Whether items that arrive finished are reviewed. Where there is a pipeline, that decides.
    pub enabled: bool,
    /// Hours from the beginning of a review to its deadline.
    #[cfg_attr(feature = "openapi", schema(minimum = 0.01, maximum = 8_760))]
    pub sla_hours: f64,
    /// The order in which reviews are offered.
    pub strategy: Strategy,
    /// How long a reviewer holds a review without a sign of life.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LeaseSeconds))]
    pub lease_seconds: f64,
    /// How reviews find their reviewers.
    pub assignment: Assignment,
    /// The reviewers who take part; none for all of the tenant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<crate::schema::Name>>, max_items = 1_000))]
    pub roster: Option<Vec<String>>,
    /// How much each part counts in a priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// How often a review may come back unfinished before a lead has to look at it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "whole_or_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1_000))]
    pub max_retries: Option<u32>,
    /// For how long a reviewer can take the own decision back; what follows from a decision waits that long.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 86_400))]
    pub undo_seconds: f64,
}

impl Default for ReviewPolicy {
    fn default() -> Self {
        Self {
            enabled: false,
            sla_hours: 24.0,
            strategy: Strategy::default(),
            lease_seconds: 1_800.0,
            assignment: Assignment::default(),
            roster: None,
            weights: None,
            max_retries: None,
            undo_seconds: 10.0,
        }
    }
}

impl From<Strategy> for core::Strategy {
    fn from(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Fifo => Self::Fifo,
            Strategy::Priority => Self::Priority,
            Strategy::Deadline => Self::Deadline,
        }
    }
}

impl From<Assignment> for core::Assignment {
    fn from(assignment: Assignment) -> Self {
        match assignment {
            Assignment::Pull => Self::Pull,
            Assignment::Auto => Self::Auto,
        }
    }
}

impl From<ReviewOutcome> for core::Outcome {
    fn from(outcome: ReviewOutcome) -> Self {
        match outcome {
            ReviewOutcome::Approved => Self::Approved,
            ReviewOutcome::Corrected => Self::Corrected,
            ReviewOutcome::Rejected => Self::Rejected,
        }
    }
}

impl From<Weights> for docket_core::priority::Weights {
    fn from(weights: Weights) -> Self {
        Self {
            confidence: weights.confidence,
            deadline: weights.deadline,
            complexity: weights.complexity,
            value: weights.value,
        }
    }
}

impl From<docket_core::priority::Weights> for Weights {
    fn from(weights: docket_core::priority::Weights) -> Self {
        Self {
            confidence: weights.confidence,
            deadline: weights.deadline,
            complexity: weights.complexity,
            value: weights.value,
        }
    }
}

impl TryFrom<ReviewPolicy> for core::ReviewPolicy {
    type Error = Refusal;

    /// The policy as the rules know it; names that cannot be a reviewer's are refused. Its numbers are not checked yet.
    fn try_from(policy: ReviewPolicy) -> Refused<Self> {
        let reviewer = |(index, name): (usize, String)| {
            ReviewerId::new(name).map_err(|refusal| match refusal {
                Refusal::Invalid { problem, .. } => Refusal::invalid(format!("roster[{index}]"), problem),
                other => other,
            })
        };
        let roster = policy
            .roster
            .map(|roster| roster.into_iter().enumerate().map(reviewer).collect())
            .transpose()?;
        Ok(Self {
            enabled: policy.enabled,
            sla_hours: policy.sla_hours,
            strategy: policy.strategy.into(),
            lease_seconds: policy.lease_seconds,
            assignment: policy.assignment.into(),
            roster,
            weights: policy.weights.map(Into::into),
            max_retries: policy.max_retries,
            undo_seconds: policy.undo_seconds,
        })
    }
}

/// Who is told about decided reviews.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NotifyPolicy {
    /// `email:a@example.com`, `webhook:https://…`
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::Recipient>, max_items = 100))]
    pub recipients: Vec<String>,
    /// About which outcomes.
    #[cfg_attr(feature = "openapi", schema(max_items = 3))]
    pub on: Vec<ReviewOutcome>,
    /// What becomes of a message of which nobody can tell whether it was sent, and whose channel can neither be asked nor recognises a
    /// repeat: `hold` for a person, or `resend`, which may tell somebody twice. As the channel is configured where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::OnUnknown>))]
    pub on_unknown: Option<OnUnknown>,
    /// A template of the subject, with `item`, `outcome`, `reason`, `decidedBy` and `corrections` in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::SubjectTemplate>))]
    pub subject: Option<String>,
    /// A template of the body, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::BodyTemplate>))]
    pub body: Option<String>,
}

/// `PUT /api/v1/collections/{collectionId}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CollectionPut {
    /// Whose it is; that never changes.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub tenant_id: String,
    /// How its items are processed; none for items that arrive finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Name>))]
    pub pipeline: Option<String>,
    /// How its items are reviewed.
    #[serde(default)]
    pub review: ReviewPolicy,
    /// Who is told about decided reviews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyPolicy>,
}

/// A collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Collection {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub id: String,
    /// Whose it is.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub tenant_id: String,
    /// How its items are processed; none for items that arrive finished.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub pipeline: Option<String>,
    /// How its items are reviewed.
    pub review: ReviewPolicy,
    /// Who is told about decided reviews.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyPolicy>,
}
