//! Stopping: the first signal ends the server in order, the second at once.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How long requests under way may take to end.
pub(crate) const REQUESTS: Duration = Duration::from_secs(7);
/// How long messages on their way may take to be answered after that: one that is cut off is in doubt.
pub(crate) const SENDS: Duration = Duration::from_secs(30);
/// How long background work may take to end after that.
pub(crate) const BACKGROUND: Duration = Duration::from_secs(2);

/// Turns true when the server is to stop.
pub(crate) type Stopping = watch::Receiver<bool>;

/// Lasts until the server is to stop.
pub(crate) async fn stopped(mut stopping: Stopping) {
    // Whoever would tell has gone only when the process ends.
    stopping.wait_for(|stop| *stop).await.ok();
}

/// Listens for SIGTERM and SIGINT, from this moment on.
pub(crate) fn on_signal() -> Result<Stopping> {
    let listen = |kind| signal(kind).context("signals cannot be heard");
    let (mut term, mut int) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => tracing::info!("SIGTERM: stopping; once more ends at once"),
            _ = int.recv() => tracing::info!("SIGINT: stopping; once more ends at once"),
        }
        stop.send_replace(true);
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tracing::warn!("a second signal: ending at once");
        std::process::exit(130);
    });
    Ok(stopping)
}
