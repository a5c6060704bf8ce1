//! Pipelines: how items are processed.

use docket_core::backoff as core_backoff;
use docket_core::pipeline as core;
use docket_core::{Refused, name::StepName};
use serde::{Deserialize, Serialize};

use crate::whole::whole;

/// What becomes of a job whose lease ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnStale {
    /// It fails, and its item with it.
    Fail,
    /// It goes back to its place, until the attempts run out.
    Requeue,
}

/// How long a failed attempt waits: doubled with each failure, half of it jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Backoff {
    /// The wait after the first failure, in milliseconds.
    #[cfg_attr(
        feature = "openapi",
        schema(minimum = 0, maximum = 604_800_000, example = 1_000)
    )]
    #[serde(deserialize_with = "whole")]
    pub base_ms: i64,
    /// No wait is longer; at least `baseMs`.
    #[cfg_attr(
        feature = "openapi",
        schema(minimum = 0, maximum = 604_800_000, example = 300_000)
    )]
    #[serde(deserialize_with = "whole")]
    pub max_ms: i64,
}

/// `PUT /api/v1/pipelines/{name}`. What is left out has its usual value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PipelinePut {
    /// The named steps, in their order, each once; none for a job that is one piece.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::Name>, max_items = 64))]
    pub steps: Vec<String>,
    /// How long a worker holds a job without a sign of life.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LeaseSeconds))]
    pub lease_seconds: f64,
    /// What becomes of a job whose lease ran out.
    pub on_stale: OnStale,
    /// How often a job is tried, the first time included.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100))]
    #[serde(deserialize_with = "whole")]
    pub max_attempts: u32,
    /// How long a failed attempt waits.
    pub backoff: Backoff,
    /// Whether a job that waits for its next attempt holds up its lane.
    pub strict: bool,
    /// Whether a review follows.
    pub review: bool,
}

impl Default for PipelinePut {
    fn default() -> Self {
        (&core::Pipeline::default()).into()
    }
}

/// A pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pipeline {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub name: String,
    /// Rises with every change; attempts under way end by the version they began with.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub version: i64,
    /// The named steps, in their order.
    pub steps: Vec<String>,
    /// How long a worker holds a job without a sign of life.
    pub lease_seconds: f64,
    /// What becomes of a job whose lease ran out.
    pub on_stale: OnStale,
    /// How often a job is tried, the first time included.
    pub max_attempts: u32,
    /// How long a failed attempt waits.
    pub backoff: Backoff,
    /// Whether a job that waits for its next attempt holds up its lane.
    pub strict: bool,
    /// Whether a review follows.
    pub review: bool,
}

impl Pipeline {
    /// A pipeline of this definition.
    pub fn new(name: impl Into<String>, version: i64, definition: &core::Pipeline) -> Self {
        let put = PipelinePut::from(definition);
        Self {
            name: name.into(),
            version,
            steps: put.steps,
            lease_seconds: put.lease_seconds,
            on_stale: put.on_stale,
            max_attempts: put.max_attempts,
            backoff: put.backoff,
            strict: put.strict,
            review: put.review,
        }
    }
}

impl From<&core::Pipeline> for PipelinePut {
    fn from(definition: &core::Pipeline) -> Self {
        Self {
            steps: definition
                .steps
                .iter()
                .map(|step| step.as_str().to_owned())
                .collect(),
            lease_seconds: crate::time::seconds(definition.lease_ms),
            on_stale: match definition.on_stale {
                core::OnStale::Fail => OnStale::Fail,
                core::OnStale::Requeue => OnStale::Requeue,
            },
            max_attempts: definition.max_attempts,
            backoff: Backoff {
                base_ms: definition.backoff.base_ms,
                max_ms: definition.backoff.max_ms,
            },
            strict: definition.strict,
            review: definition.review,
        }
    }
}

impl TryFrom<PipelinePut> for core::Pipeline {
    type Error = docket_core::Refusal;

    fn try_from(put: PipelinePut) -> Refused<Self> {
        let step = |(index, name)| {
            StepName::new(name).map_err(|refusal| match refusal {
                docket_core::Refusal::Invalid { problem, .. } => {
                    docket_core::Refusal::invalid(format!("steps[{index}]"), problem)
                }
                other => other,
            })
        };
        let steps = put.steps.into_iter().enumerate().map(step);
        Ok(Self {
            steps: steps.collect::<Refused<_>>()?,
            lease_ms: crate::time::millis("leaseSeconds", put.lease_seconds)?,
            on_stale: match put.on_stale {
                OnStale::Fail => core::OnStale::Fail,
                OnStale::Requeue => core::OnStale::Requeue,
            },
            max_attempts: put.max_attempts,
            backoff: core_backoff::Backoff {
                base_ms: put.backoff.base_ms,
                max_ms: put.backoff.max_ms,
            },
            strict: put.strict,
            review: put.review,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_usual_value_and_what_is_unknown_is_refused() {
        let put: PipelinePut = serde_json::from_str("{}").unwrap();
        assert_eq!(core::Pipeline::try_from(put).unwrap(), core::Pipeline::default());
        let unknown = serde_json::from_str::<PipelinePut>(r#"{"leaseSecond": 5}"#).unwrap_err();
        assert!(unknown.to_string().contains("leaseSecond"), "{unknown}");
    }

    #[test]
    fn a_step_that_is_no_name_is_told_by_its_place() {
        let put = PipelinePut {
            steps: vec!["ocr".into(), "two words".into()],
            ..PipelinePut::default()
        };
        let refusal = core::Pipeline::try_from(put).unwrap_err();
        assert!(refusal.to_string().starts_with("steps[1]: "), "{refusal}");
    }
}
