//! Items and jobs as the wire writes them.

use docket_core::item::ItemStatus;
use docket_engine::{Explanation, ItemView, JobView, PauseScope};
use docket_wire::item as wire;
use docket_wire::job::{Job, Step, StepStatus};
use docket_wire::log::LogEntry;
use docket_wire::pause;
use docket_wire::time::Time;
use serde_json::Value;

use super::review::show;
use crate::error::{ApiError, ApiResult};

/// An item's row, by the name that the engine's answers give it.
type Row = docket_engine::Item;

pub(super) fn json(what: &str, text: Option<String>) -> ApiResult<Option<Value>> {
    let parsed = text.map(|text| serde_json::from_str(&text)).transpose();
    parsed.map_err(|error| {
        tracing::error!(%error, what, "stored JSON cannot be read");
        ApiError::Internal
    })
}

/// The caller's own notes and, once its review is decided, the outcome of that.
fn metadata(row: &Row) -> ApiResult<Option<Value>> {
    let own = json("metadata", row.metadata.clone())?;
    let Some(decided) = &row.decided else {
        return Ok(own);
    };
    let recorded = json("decision", decided.decision.clone())?.unwrap_or_default();
    let outcome = serde_json::json!({
        "outcome": decided.state,
        "reviewer": decided.by,
        "reviewedAt": Time::from(decided.at),
        "reason": recorded.get("reason"),
        "version": row.version,
    });
    let mut notes = match own {
        Some(Value::Object(notes)) => notes,
        _ => serde_json::Map::new(),
    };
    notes.insert("reviewOutcome".to_owned(), outcome);
    Ok(Some(Value::Object(notes)))
}

pub(crate) fn summary(row: &Row) -> ApiResult<wire::ItemSummary> {
    Ok(wire::ItemSummary {
        id: row.id,
        tenant_id: row.tenant_id.clone(),
        collection_id: row.collection_id.clone(),
        external_id: row.external_id.clone(),
        kind: if row.is_file {
            wire::Kind::File
        } else {
            wire::Kind::Json
        },
        filename: row.filename.clone(),
        media_type: row.media_type.clone(),
        size: row.size,
        content_hash: row.content_hash.to_string(),
        status: row.status,
        version: row.version,
        metadata: metadata(row)?,
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
    })
}

pub(crate) fn item(view: ItemView) -> ApiResult<wire::Item> {
    let failed = view.item.status == ItemStatus::Failed;
    let job = view.job.map(job);
    let error = job.as_ref().filter(|_| failed).and_then(|job| job.error.clone());
    Ok(wire::Item {
        summary: summary(&view.item)?,
        payload: json("payload", view.item.payload)?,
        result: json("result", view.result)?,
        fields: view.fields.into_iter().map(Into::into).collect(),
        position: view.position.map(Into::into),
        job,
        review: view.review.as_ref().map(show::item_review),
        error,
    })
}

pub(crate) fn job(view: JobView) -> Job {
    let step = |step: docket_engine::StepView| Step {
        name: step.name,
        status: match step.completed_at {
            Some(_) => StepStatus::Completed,
            None => StepStatus::Pending,
        },
        started_at: step.started_at.map(Into::into),
        completed_at: step.completed_at.map(Into::into),
    };
    Job {
        id: view.id,
        pipeline: view.pipeline,
        status: view.status.into(),
        attempt: view.attempt,
        retry_count: view.retry_count,
        created_at: view.created_at.into(),
        started_at: view.started_at.map(Into::into),
        completed_at: view.completed_at.map(Into::into),
        error: view.error,
        failed_step: view.failed_step,
        retry_of: view.retry_of,
        worker_id: view.worker,
        lease_expires_at: view.lease_expires_at.map(Into::into),
        run_at: view.run_at.map(Into::into),
        steps: view.steps.into_iter().map(step).collect(),
    }
}

/// An entry of the log.
pub(crate) fn log_entry(entry: &docket_engine::Entry) -> LogEntry {
    // What was logged as JSON is shown as JSON; anything else as the text it is.
    let value = |text: &Option<String>| {
        let text = text.as_ref()?;
        Some(serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())))
    };
    LogEntry {
        id: entry.position,
        at: entry.at.into(),
        action: entry.action.clone(),
        actor: entry.actor.clone(),
        tenant_id: entry.tenant_id.clone(),
        item_id: entry.item,
        job_id: entry.job,
        field: entry.field.clone(),
        old: value(&entry.old),
        new: value(&entry.new),
        details: value(&entry.details),
    }
}

pub(crate) fn explanation(explained: Explanation) -> wire::Explanation {
    let holder = |holder: docket_engine::Holder| wire::Holder {
        job_id: holder.job,
        worker_id: holder.worker,
        started_at: holder.since.into(),
        lease_expires_at: holder.lease_expires_at.into(),
    };
    let paused = |paused: docket_engine::Pause| wire::PauseThatHolds {
        scope: match paused.scope {
            PauseScope::All => pause::PauseScope::All,
            PauseScope::Pipeline(_) => pause::PauseScope::Pipeline,
            PauseScope::Lane(_) => pause::PauseScope::Lane,
            PauseScope::Collection(_) => pause::PauseScope::Collection,
            PauseScope::Channel(_) => pause::PauseScope::Channel,
        },
        reason: paused.reason,
        actor: paused.actor,
        at: paused.at.into(),
    };
    wire::Explanation {
        status: explained.status,
        reasons: explained.reasons,
        position: explained.position.map(Into::into),
        holders: explained.holders.into_iter().map(holder).collect(),
        pauses: explained.pauses.into_iter().map(paused).collect(),
        run_at: explained.run_at.map(Into::into),
        worker_seen_at: explained.worker_seen_at.map(Into::into),
    }
}
