//! Traces by OTLP, where `OTEL_EXPORTER_OTLP_ENDPOINT` is set (and the program was built with the feature `otlp`, as it usually is). The other
//! `OTEL_…` variables have the meaning that OpenTelemetry gives them.

use anyhow::{Context as _, Result};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::{Layer as _, Registry};

use super::BoxedLayer;
use crate::target::variable;

/// Sends what is left when it is dropped.
pub(crate) struct Traces(SdkTracerProvider);

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// The layer that makes traces of spans; none where nobody is named who takes them.
pub(super) fn layer(levels: Targets) -> Result<Option<(BoxedLayer, Traces)>> {
    if variable("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
        return Ok(None);
    }
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .build()
        .context("traces cannot be sent to OTEL_EXPORTER_OTLP_ENDPOINT")?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("docket").build())
        .build();
    let layer = tracing_opentelemetry::layer::<Registry>().with_tracer(provider.tracer("docket"));
    Ok(Some((layer.with_filter(levels).boxed(), Traces(provider))))
}
