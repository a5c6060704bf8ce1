//! The provider itself.
//!
//! `POST /control` says how it behaves, `GET /lookup/{token}` what it took, and a `POST` anywhere else is a message.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use docket_core::clock::{Clock as _, SystemClock};
use tokio::net::{TcpListener, TcpStream};

use super::ledger::{Effect, Ledger};
use super::request::{self, Request, answer};
use super::{Control, Mode};

#[derive(Debug)]
struct State {
    ledger: Ledger,
    control: Control,
    attempts: BTreeMap<String, u64>,
}

type Shared = Arc<Mutex<State>>;

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.lock().expect("no request panics with the lock")
}

/// Serves until it is killed.
pub async fn serve(listener: TcpListener, ledger: &Path) -> std::io::Result<()> {
    let shared = Arc::new(Mutex::new(State {
        ledger: Ledger::open(ledger)?,
        control: Control::default(),
        attempts: BTreeMap::new(),
    }));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, Arc::clone(&shared)));
    }
}

async fn connection(mut stream: TcpStream, shared: Shared) {
    let Some(request) = request::read(&mut stream).await else {
        return;
    };
    match (request.method.as_str(), request.path.split_once("/lookup/")) {
        ("GET", Some((_, token))) => lookup(&mut stream, &shared, token).await,
        ("POST", None) if request.path == "/control" => control(&mut stream, &shared, &request.body).await,
        ("POST", None) => message(stream, &shared, request).await,
        _ => answer(&mut stream, "404 Not Found", "", "").await,
    }
}

async fn control(stream: &mut TcpStream, shared: &Shared, body: &str) {
    match serde_json::from_str(body) {
        Ok(control) => {
            lock(shared).control = control;
            answer(stream, "204 No Content", "", "").await;
        }
        Err(error) => answer(stream, "400 Bad Request", "", &error.to_string()).await,
    }
}

async fn lookup(stream: &mut TcpStream, shared: &Shared, token: &str) {
    let delay_ms = lock(shared).control.lookup_delay_ms;
    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    let (found, fails, babbles) = {
        let state = lock(shared);
        let visible_ms = SystemClock.now().ms() - state.control.lookup_lag_ms;
        let effect = state
            .ledger
            .first(token)
            .filter(|effect| effect.at_ms <= visible_ms);
        let found = effect.map(|effect| effect.id.clone());
        (found, state.control.lookup_fails, state.control.lookup_babbles)
    };
    match found {
        _ if fails => answer(stream, "503 Service Unavailable", "", "").await,
        _ if babbles => answer(stream, "200 OK", "", "<p>Let me see.").await,
        Some(id) => answer(stream, "200 OK", "", &id_json(&id)).await,
        None => answer(stream, "404 Not Found", "", "").await,
    }
}

fn id_json(id: &str) -> String {
    serde_json::json!({ "id": id }).to_string()
}

async fn message(mut stream: TcpStream, shared: &Shared, request: Request) {
    let (mode, id, retry_after) = {
        let mut guard = lock(shared);
        let state = &mut *guard;
        let token = request.headers.get("webhook-id").cloned().unwrap_or_default();
        let mode = match is_too_old(&state.control, &request) {
            true => Mode::Reset,
            false => state.control.mode(&token, &mut state.attempts),
        };
        let retry_after = state.control.retry_after.clone();
        let retry_after = retry_after.map(|value| format!("Retry-After: {value}\r\n"));
        let id = mode.takes().then(|| take(state, token, request));
        (mode, id.unwrap_or_default(), retry_after.unwrap_or_default())
    };
    let stream = &mut stream;
    match mode {
        Mode::Accept => answer(stream, "200 OK", "", &id_json(&id)).await,
        Mode::AcceptPlainly => answer(stream, "200 OK", "", "<p>Thank you!").await,
        Mode::AcceptThenFail => answer(stream, "500 Internal Server Error", "", "oh no").await,
        Mode::AcceptThenBabble => request::write(stream, "250 2.0.0 Ok: queued\r\n").await,
        Mode::Fail => answer(stream, "503 Service Unavailable", &retry_after, "later").await,
        Mode::RateLimit => answer(stream, "429 Too Many Requests", &retry_after, "slowly").await,
        Mode::Refuse => answer(stream, "400 Bad Request", "", "what is this?").await,
        Mode::Gone => answer(stream, "410 Gone", "", "nobody here").await,
        Mode::Redirect => answer(stream, "307 Temporary Redirect", "Location: /elsewhere\r\n", "").await,
        // Until the other side has had enough.
        Mode::Hang | Mode::AcceptThenHang => drop(request::read(stream).await),
        // Closed with no lingering is a reset.
        Mode::Reset | Mode::AcceptThenReset => stream.set_zero_linger().expect("a socket can be reset"),
    }
}

fn is_too_old(control: &Control, request: &Request) -> bool {
    let sent_at = request.headers.get("webhook-timestamp");
    let sent_at_ms = sent_at.and_then(|seconds| Some(seconds.parse::<i64>().ok()? * 1_000));
    control.age_max_ms > 0
        && sent_at_ms.is_none_or(|sent_at_ms| SystemClock.now().ms() - sent_at_ms > control.age_max_ms)
}

/// The effect, and the id that it has.
fn take(state: &mut State, token: String, request: Request) -> String {
    if state.control.dedupe
        && let Some(effect) = state.ledger.first(&token)
    {
        return effect.id.clone();
    }
    let effect = Effect {
        token,
        id: String::new(),
        at_ms: SystemClock.now().ms(),
        headers: request.headers,
        body: request.body,
    };
    state.ledger.add(effect).expect("the ledger can be written")
}
