//! Serving: connections, their bounds, and a clean end.
//!
//! HTTP/1.1, which is what every proxy speaks to what is behind it. A request whose body is not wanted (a refused upload) closes its
//! connection instead of reading what nobody needs.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use crate::stall::Stalling;
use crate::state::{AppState, ServerConfig};

/// How long to wait before accepting again when the machine has run out of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` resolves; then ends streams and waits, finishes the requests under way, and returns within
/// [`crate::ServerConfig::shutdown_timeout`].
pub async fn serve(listener: TcpListener, state: AppState, router: Router, stop: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(state.config().connections_max));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            accepted = accept => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok(accepted) => begin(&graceful, accepted, state.config(), router.clone(), place),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Who has connected already is answered still: a listener that is closed resets what it has not accepted.
    tokio::task::yield_now().await;
    while let Some(Ok(accepted)) = listener.accept().now_or_never() {
        begin(&graceful, accepted, state.config(), router.clone(), ());
    }
    drop(listener);
    state.begin_shutdown();
    if tokio::time::timeout(state.config().shutdown_timeout, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("requests that were still under way were cut off");
    }
}

/// Serves one connection; `place` is given back at its end.
fn begin(
    graceful: &GracefulShutdown,
    (stream, address): (TcpStream, SocketAddr),
    config: &ServerConfig,
    router: Router,
    place: impl Send + 'static,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection was gone at once");
        return;
    }
    let connection = graceful.watch(connection(stream, address, config, router));
    tokio::spawn(async move {
        // A connection that breaks is its client's affair.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
        drop(place);
    });
}

fn connection(
    stream: TcpStream,
    address: SocketAddr,
    config: &ServerConfig,
    router: Router,
) -> hyper::server::conn::http1::Connection<
    TokioIo<Stalling<TcpStream>>,
    impl hyper::service::Service<
        hyper::Request<Incoming>,
        Response = axum::response::Response,
        Error = Infallible,
        Future: Send,
    > + use<>,
> {
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(ConnectInfo(address));
        router.clone().oneshot(request)
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.head_timeout)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(Stalling::new(stream, config.idle_timeout)), service)
}
