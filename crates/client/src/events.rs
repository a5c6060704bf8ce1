//! The live log: a stream of server-sent events that resumes by itself where it broke off, without a gap and without a repeat.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::ACCEPT;
use serde_json::Value;

use crate::client::{Call, Client};
use crate::error::{ClientError, Result};
use crate::retry::backoff;
use crate::sse::{Parser, RawEvent};

/// A stream that has been silent for so long is dead: the server sends something at least every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const RECONNECT_BASE_MS: u64 = 200;
const RECONNECT_MAX_MS: u64 = 10_000;

/// One entry of the log as it happens, or a position that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place, to resume after.
    pub id: Option<String>,
    /// What kind of event it is.
    pub name: Option<String>,
    /// What it says.
    pub data: Value,
}

/// What to listen to.
#[derive(Clone, Debug, Default)]
pub struct EventsFilter {
    /// One tenant only; for those who may see several.
    pub tenant_id: Option<String>,
    /// One collection only.
    pub collection_id: Option<String>,
    /// One item only.
    pub item_id: Option<String>,
    /// Begin after this event.
    pub after: Option<String>,
}

/// The stream. It ends only when it is dropped, or when the server refuses it.
#[derive(Debug)]
pub struct Events {
    client: Client,
    call: Call,
    last_id: Option<String>,
    response: Option<Response>,
    parser: Parser,
    ready: std::collections::VecDeque<RawEvent>,
    failed: u32,
}

impl Client {
    /// Listens to the log.
    pub fn events(&self, filter: EventsFilter) -> Events {
        let call = self
            .get(&["api", "v1", "events"])
            .query("tenantId", filter.tenant_id)
            .query("collectionId", filter.collection_id)
            .query("itemId", filter.item_id)
            .header("accept", "text/event-stream");
        Events {
            client: self.clone(),
            call,
            last_id: filter.after,
            response: None,
            parser: Parser::default(),
            ready: std::collections::VecDeque::new(),
            failed: 0,
        }
    }
}

impl Events {
    /// The next event. Connects and connects again as needed, for as long as it takes; a refusal is an error.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(raw) = self.ready.pop_front() {
                return self.event(raw);
            }
            let progress = match self.response.take() {
                None => self.connect().await,
                Some(response) => self.listen(response).await,
            };
            match progress {
                Ok(()) => {}
                Err(error) if error.is_passing() => self.pause(&error).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// The place after which the stream would resume.
    pub fn last_id(&self) -> Option<&str> {
        // An id also comes without an event: from there on nothing is missed, even if nothing has happened yet.
        let heard = self.parser.last_id.as_ref().filter(|_| self.ready.is_empty());
        heard.or(self.last_id.as_ref()).map(String::as_str)
    }

    fn event(&mut self, raw: RawEvent) -> Result<Event> {
        if raw.id.is_some() {
            self.last_id.clone_from(&raw.id);
        }
        let data = serde_json::from_str(&raw.data)
            .map_err(|problem| self.client.unreadable(&problem.to_string()))?;
        Ok(Event {
            id: raw.id,
            name: raw.name,
            data,
        })
    }

    async fn connect(&mut self) -> Result<()> {
        self.parser.begin_again();
        let mut request = self
            .client
            .request(self.call.method.clone(), self.call.url.clone())
            .header(ACCEPT, "text/event-stream");
        if let Some(id) = self.last_id() {
            request = request.header("last-event-id", id);
        }
        let sent = tokio::time::timeout(SILENCE_MAX, request.send()).await;
        let Ok(sent) = sent else { return Ok(()) };
        let response = sent.map_err(|error| self.client.transport(error))?;
        self.response = Some(self.client.accept(response).await?);
        Ok(())
    }

    async fn listen(&mut self, mut response: Response) -> Result<()> {
        match tokio::time::timeout(SILENCE_MAX, response.chunk()).await {
            // Silent for too long, or ended by a server that stops: connect again.
            Err(_) | Ok(Ok(None)) => {
                self.rest().await;
                Ok(())
            }
            Ok(Err(error)) => Err(self.client.transport(error)),
            Ok(Ok(Some(bytes))) => {
                self.failed = 0;
                let events = self
                    .parser
                    .push(&bytes)
                    .ok_or_else(|| self.client.unreadable("an event without end"))?;
                self.ready.extend(events);
                self.response = Some(response);
                Ok(())
            }
        }
    }

    async fn pause(&mut self, error: &ClientError) {
        tracing::debug!(%error, "the event stream broke off and is resumed");
        self.rest().await;
    }

    async fn rest(&mut self) {
        self.failed += 1;
        let base_ms = self
            .parser
            .retry_ms
            .unwrap_or(RECONNECT_BASE_MS)
            .min(RECONNECT_MAX_MS);
        tokio::time::sleep(backoff(
            self.failed,
            base_ms,
            RECONNECT_MAX_MS,
            self.client.random(),
        ))
        .await;
    }
}
