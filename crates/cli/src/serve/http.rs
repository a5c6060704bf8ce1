//! Serving requests: the routes with their measuring, and the end of it all.

use std::net::SocketAddr;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::get;
use docket_access::Access;
use docket_engine::Engine;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::metrics::{self, Metrics};
use super::stop::{self, Stopping, stopped};

/// Requests are being served.
pub(crate) struct Server {
    task: JoinHandle<std::io::Result<()>>,
    stopping: Stopping,
}

/// Begins to answer.
pub(crate) fn start(
    listener: TcpListener,
    engine: Engine,
    access: Access,
    metrics: Metrics,
    stopping: Stopping,
) -> Server {
    let _ = (&engine, &access);
    let routes = Router::new()
        .route("/metrics", get(metrics::scrape).with_state(metrics))
        .route("/healthz", get(async || "ok"))
        .layer(from_fn(metrics::measure))
        .into_make_service_with_connect_info::<SocketAddr>();
    let told = stopped(stopping.clone());
    let task = tokio::spawn(async move { axum::serve(listener, routes).with_graceful_shutdown(told).await });
    Server { task, stopping }
}

impl Server {
    /// Lasts until the server is told to stop and every request under way is answered, or the time for that is over.
    pub(crate) async fn ended(self, engine: &Engine) {
        stopped(self.stopping).await;
        engine.stop_claims();
        let mut task = self.task;
        match tokio::time::timeout(stop::REQUESTS, &mut task).await {
            Ok(Ok(Ok(()))) => {}
            Ok(ended) => tracing::error!(?ended, "serving ended badly"),
            Err(_) => {
                tracing::warn!("some requests did not end in time and are given up");
                task.abort();
            }
        }
    }
}
