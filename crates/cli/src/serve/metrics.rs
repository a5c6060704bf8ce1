//! Metrics for Prometheus. The engine and the store count through the `metrics` facade, which costs them nothing where nobody
//! listens; here somebody does. What waits in the queues is asked of the engine when it is scraped, and not more often than
//! every [`DEPTHS_MS`].
//!
//! Labels are bounded: names of operations, of routes as they are written, of pipelines that exist. Never a tenant, an id or a
//! path as it was asked for.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use docket_core::Timestamp;
use docket_core::notification::DeliveryState;
use docket_core::notify::OnUnknown;
use docket_core::review::Outcome;
use docket_engine::{EmptyReason, Engine, OutboxDepth, ReviewDepth};
use docket_server::Observed;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::sync::Mutex;

/// How long what waits in the queues is not asked again.
const DEPTHS_MS: i64 = 5_000;
/// Longer than this a scrape does not wait for the database.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often what was measured is put into its buckets; until then it lies in memory.
const UPKEEP: Duration = Duration::from_secs(5);

const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const SIZES: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_000.0,
];

/// What is counted, as Prometheus reads it.
#[derive(Clone)]
pub(crate) struct Metrics {
    handle: PrometheusHandle,
    engine: Engine,
    asked: Arc<Mutex<Option<Timestamp>>>,
}

/// Starts counting. It has to come before the engine is opened, whose first statements are counted too.
pub(crate) fn install() -> Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_size".to_owned()), SIZES))
        .and_then(PrometheusBuilder::install_recorder)
        .context("the metrics cannot be set up")?;
    describe();
    gauge!("docket_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    // What has not happened yet is told as 0, so that a rate begins with the first time.
    for outcome in ["failed", "retried"] {
        counter!("docket_jobs_failed_total", "outcome" => outcome).absolute(0);
    }
    for outcome in ["failed", "requeued"] {
        counter!("docket_jobs_stale_total", "outcome" => outcome).absolute(0);
    }
    for outcome in Outcome::ALL {
        counter!("docket_reviews_decided_total", "outcome" => outcome.state().as_str()).absolute(0);
    }
    for reason in EmptyReason::ALL {
        counter!("docket_reviews_pops_empty_total", "reason" => reason.as_str()).absolute(0);
    }
    counter!("docket_reviews_popped_total").absolute(0);
    for operation in ["complete", "fail", "heartbeat", "review_commit"] {
        counter!("docket_leases_lost_total", "operation" => operation).absolute(0);
    }
    counter!("docket_jobs_completed_total").absolute(0);
    counter!("docket_notifications_created_total").absolute(0);
    counter!("docket_delivery_in_doubt_total").absolute(0);
    gauge!("docket_deliveries_in_flight").set(0.0);
    for state in DeliveryState::ALL.into_iter().filter(|state| state.is_final()) {
        counter!("docket_deliveries_ended_total", "status" => state.as_str()).absolute(0);
    }
    for policy in [OnUnknown::Hold, OnUnknown::Resend] {
        counter!("docket_delivery_policy_total", "policy" => policy.as_str()).absolute(0);
    }
    for alert in ["held", "failed", "no_evidence", "not_there"] {
        counter!("docket_delivery_alerts_total", "alert" => alert).absolute(0);
    }
    Ok(handle)
}

fn describe_reviews() {
    describe_gauge!("docket_reviews_pending", "Reviews that wait for a reviewer.");
    describe_gauge!("docket_reviews_in_review", "Reviews that reviewers hold.");
    describe_gauge!("docket_reviews_failed", "Reviews that a lead has to look at.");
    describe_gauge!(
        "docket_reviews_overdue",
        "Reviews that wait or are held past their deadline; of each collection 10,000 at the most."
    );
    describe_gauge!(
        "docket_reviews_oldest_age_seconds",
        Unit::Seconds,
        "How long ago the review was made that waits longest; 0 where none waits."
    );
    describe_counter!(
        "docket_reviews_popped_total",
        "Reviews given to reviewers by this server."
    );
    describe_counter!(
        "docket_reviews_pops_empty_total",
        "Pops through this server that found nothing, by why."
    );
    describe_counter!(
        "docket_reviews_decided_total",
        "Reviews decided through this server, by outcome."
    );
}

fn describe() {
    describe_outbox();
    describe_gauge!("docket_build_info", "The version that runs; always 1.");
    describe_gauge!(
        "docket_database_up",
        "Whether the database answered when the queues were last looked at."
    );
    describe_gauge!("docket_queue_depth", "Jobs that wait to be started, by pipeline.");
    describe_gauge!(
        "docket_queue_oldest_age_seconds",
        Unit::Seconds,
        "How long ago the oldest job that waits to be started was submitted, by pipeline; 0 where none waits."
    );
    describe_gauge!("docket_jobs_active", "Jobs that workers hold, by pipeline.");
    describe_gauge!(
        "docket_jobs_waiting",
        "Jobs that wait for their next attempt, by pipeline."
    );
    describe_counter!(
        "docket_jobs_claimed_total",
        "Jobs given to workers by this server, by pipeline."
    );
    describe_counter!(
        "docket_jobs_completed_total",
        "Jobs completed through this server."
    );
    describe_counter!(
        "docket_jobs_failed_total",
        "Attempts failed through this server, by what became of the job."
    );
    describe_counter!(
        "docket_jobs_stale_total",
        "Leases that ran out and were reaped by this server, by what became of the job."
    );
    describe_counter!(
        "docket_leases_lost_total",
        "Answers of workers that had lost their lease, by what they said."
    );
    describe_reviews();
    describe_counter!(
        "docket_access_denied_total",
        "Calls that were not let in, by why."
    );
    describe_gauge!(
        "docket_sse_clients",
        "Those who follow the event stream of this server."
    );
    describe_histogram!(
        "docket_http_request_seconds",
        Unit::Seconds,
        "Requests, by method, route and status."
    );
    describe_histogram!(
        "docket_store_transaction_seconds",
        Unit::Seconds,
        "Operations on the database from call to commit, by operation."
    );
    describe_histogram!(
        "docket_batch_size",
        "Entries that rode together in one statement, by operation."
    );
}

fn describe_outbox() {
    describe_gauge!(
        "docket_deliveries",
        "Deliveries of which a provider or a person has to say whether they were sent, by state."
    );
    describe_gauge!("docket_deliveries_due", "Deliveries that are due now.");
    describe_gauge!(
        "docket_deliveries_in_flight",
        "Deliveries that this server sends or asks about now."
    );
    describe_counter!(
        "docket_deliveries_ended_total",
        "Deliveries that came to their end through this server, by how."
    );
    describe_gauge!(
        "docket_delivery_oldest_due_age_seconds",
        Unit::Seconds,
        "How long the oldest delivery has been due; 0 where none is."
    );
    describe_counter!(
        "docket_notifications_created_total",
        "Notifications made through this server."
    );
    describe_counter!(
        "docket_delivery_attempts_total",
        "Sends and look-ups by this server, by what came of them."
    );
    describe_counter!(
        "docket_delivery_in_doubt_total",
        "Sends without a recorded outcome that this server found."
    );
    describe_counter!(
        "docket_delivery_policy_total",
        "Deliveries of which nobody could tell whether they were sent, by what the policy made of them."
    );
    describe_counter!(
        "docket_delivery_alerts_total",
        "What a person should hear of, by what it is."
    );
    describe_histogram!(
        "docket_delivery_first_attempt_seconds",
        Unit::Seconds,
        "From the making of a delivery to the end of its first attempt."
    );
}

/// Tells what waits in the outbox.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2⁵²")]
fn tell_outbox(depth: &OutboxDepth, now: Timestamp) {
    for (state, count) in &depth.unsure {
        gauge!("docket_deliveries", "status" => state.as_str()).set(*count as f64);
    }
    gauge!("docket_deliveries_due").set(depth.due as f64);
    let age_ms = depth.oldest_due.map_or(0, |oldest| now.since(oldest).max(0));
    gauge!("docket_delivery_oldest_due_age_seconds").set(age_ms as f64 / 1000.0);
}

impl Metrics {
    pub(crate) fn new(handle: PrometheusHandle, engine: Engine) -> Self {
        let upkeep = handle.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                upkeep.run_upkeep();
            }
        });
        Self {
            handle,
            engine,
            asked: Arc::default(),
        }
    }

    /// Asks how much waits, unless that was asked just now.
    async fn look(&self) {
        let mut asked = self.asked.lock().await;
        let now = self.engine.now();
        if asked.is_some_and(|asked| (0..DEPTHS_MS).contains(&now.since(asked))) {
            return;
        }
        *asked = Some(now);
        let asking = async {
            tokio::try_join!(
                self.engine.depths(),
                self.engine.review_depth(),
                self.engine.outbox_depth()
            )
        };
        let (depths, reviews, outbox) = match tokio::time::timeout(PATIENCE, asking).await {
            Ok(Ok(found)) => found,
            _ => return gauge!("docket_database_up").set(0.0),
        };
        gauge!("docket_database_up").set(1.0);
        show_reviews(&reviews, now);
        tell_outbox(&outbox, now);
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2⁵²")]
        for depth in depths {
            let age_ms = depth.oldest.map_or(0, |oldest| now.since(oldest).max(0));
            let name = depth.pipeline;
            gauge!("docket_queue_depth", "pipeline" => name.clone()).set(depth.queued as f64);
            gauge!("docket_jobs_active", "pipeline" => name.clone()).set(depth.active as f64);
            gauge!("docket_jobs_waiting", "pipeline" => name.clone()).set(depth.waiting as f64);
            gauge!("docket_queue_oldest_age_seconds", "pipeline" => name).set(age_ms as f64 / 1000.0);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2⁵²")]
fn show_reviews(depth: &ReviewDepth, now: Timestamp) {
    let age_ms = depth.oldest.map_or(0, |oldest| now.since(oldest).max(0));
    gauge!("docket_reviews_pending").set(depth.pending as f64);
    gauge!("docket_reviews_in_review").set(depth.in_review as f64);
    gauge!("docket_reviews_failed").set(depth.failed as f64);
    gauge!("docket_reviews_overdue").set(depth.overdue as f64);
    gauge!("docket_reviews_oldest_age_seconds").set(age_ms as f64 / 1000.0);
}

/// `GET /metrics`.
pub(crate) async fn scrape(State(metrics): State<Metrics>) -> impl IntoResponse {
    metrics.look().await;
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2⁵²")]
    gauge!("docket_sse_clients").set(metrics.engine.followers() as f64);
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        metrics.handle.render(),
    )
}

/// Takes note of an answered request.
pub(crate) fn observe(answered: &Observed<'_>) {
    let method = method_label(answered.method.as_str());
    let route = answered.route.unwrap_or("unmatched").to_owned();
    let status = answered.status.as_u16().to_string();
    histogram!("docket_http_request_seconds", "method" => method, "route" => route, "status" => status)
        .record(answered.latency.as_secs_f64());
}

/// Methods can be made up; only those in use get a label of their own.
const fn method_label(method: &str) -> &'static str {
    match method.as_bytes() {
        b"GET" => "GET",
        b"HEAD" => "HEAD",
        b"POST" => "POST",
        b"PUT" => "PUT",
        b"PATCH" => "PATCH",
        b"DELETE" => "DELETE",
        b"OPTIONS" => "OPTIONS",
        _ => "other",
    }
}
