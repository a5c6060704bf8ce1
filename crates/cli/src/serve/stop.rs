//! Stopping: the first signal ends the server in order, the second at once.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How long requests under way may take to end.
pub(crate) const REQUESTS: Duration = Duration::from_secs(7);
/// How long background work may take to end after that.
pub(crate) const BACKGROUND: Duration = Duration::from_secs(2);

/// Turns true when the server is to stop.
pub(crate) type Stopping = watch::Receiver<bool>;

/// Lasts until the server is to stop.
pub(crate) async fn stopped(mut stopping: Stopping) {
    // Whoever would tell has gone only when the process ends.
    stopping.wait_for(|stop| *stop).await.ok();
}

/// Listens for SIGTERM and SIGINT.
pub(crate) fn on_signal() -> Stopping {
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(async move {
        let (mut term, mut int) = match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(term), Ok(int)) => (term, int),
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!(%error, "signals cannot be heard: the server ends only when it is killed");
                // Nobody stops it: the sender has to live on.
                return std::future::pending().await;
            }
        };
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
    stopping
}
