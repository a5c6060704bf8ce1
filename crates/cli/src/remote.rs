//! Commands that ask a server: where it is, with which key, and how its answers are shown.
//!
//! Exit codes: 0 done; 1 the server said no; 2 it could not be asked, or failed.

use std::fmt::Display;
use std::process::ExitCode;

use anyhow::Result;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{ContentArrangement, Table};
use docket_client::wire::{Page, Time};
use docket_client::{Client, ClientError, RetryPolicy};
use serde::Serialize;

use crate::screen::Screen;

/// The exit code for a no.
pub(crate) const REFUSED: u8 = 1;
/// The most entries of one page of the server's.
const PAGE_MAX: u64 = 200;

/// The flags that name a server. Flags win over the environment.
#[derive(Clone, clap::Args)]
pub(crate) struct ServerArgs {
    /// Where the server is
    #[arg(
        long,
        value_name = "URL",
        env = "DOCKET_URL",
        default_value = "http://127.0.0.1:7700",
        global = true
    )]
    url: String,
    /// An API key or a JWT. Better in the environment: others can see a command's flags
    #[arg(
        long,
        value_name = "KEY",
        env = "DOCKET_KEY",
        hide_env_values = true,
        global = true
    )]
    key: Option<String>,
}

impl std::fmt::Debug for ServerArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerArgs")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl ServerArgs {
    /// A client for long work: it repeats calls as is usual.
    pub(crate) fn client(&self) -> Result<Client> {
        Ok(Client::new(
            self.url.clone(),
            self.key.clone().filter(|key| !key.is_empty()),
        )?)
    }
}

/// The server, and how to show what it says.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RemoteArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Answer in JSON, for programs
    #[arg(long, global = true)]
    json: bool,
}

impl RemoteArgs {
    /// A client of the same server with another key.
    pub(crate) fn client_with(&self, key: &str) -> Result<Client> {
        Ok(Client::new(self.server.url.clone(), Some(key.to_owned()))?)
    }

    pub(crate) fn session(&self) -> Result<Session> {
        // Somebody waits for the answer: a server that is away is told of soon.
        let retry = RetryPolicy {
            attempts: 3,
            base_ms: 100,
            max_ms: 2_000,
        };
        Ok(Session {
            client: self.server.client()?.with_retry(retry),
            screen: Screen::new(),
            json: self.json,
        })
    }
}

/// A server to ask and a screen to show things on.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) screen: Screen,
    pub(crate) json: bool,
}

impl Session {
    /// Shows an answer: as it is to programs, in words to people.
    pub(crate) fn show<T: Serialize>(
        &self,
        answer: &T,
        words: impl FnOnce(&T) -> String,
    ) -> Result<ExitCode> {
        let text = match self.json {
            true => serde_json::to_string(answer)?,
            false => words(answer),
        };
        self.screen.line(text.trim_end())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Shows a page as a table.
    pub(crate) fn show_page<T: Serialize, const N: usize>(
        &self,
        page: &Page<T>,
        heads: [&str; N],
        row: impl Fn(&T) -> [String; N],
    ) -> Result<ExitCode> {
        self.show(page, |page| {
            if page.items.is_empty() {
                return "There are none.".to_owned();
            }
            let mut shown = table(heads, page.items.iter().map(row));
            if let Some(cursor) = &page.next_cursor {
                shown.push_str(&format!("\nThere are more: --limit, or --cursor {cursor}"));
            }
            shown
        })
    }
}

/// How much of a list.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) limit: u64,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

impl PageArgs {
    /// The whole list, within reason.
    pub(crate) const fn all() -> Self {
        Self {
            limit: 1_000,
            cursor: None,
        }
    }

    /// Gathers pages of the server's until there are enough.
    pub(crate) async fn gather<T>(
        &self,
        fetch: impl AsyncFn(Option<u64>, Option<&str>) -> docket_client::Result<Page<T>>,
    ) -> docket_client::Result<Page<T>> {
        let mut gathered = Page {
            items: Vec::new(),
            next_cursor: self.cursor.clone(),
        };
        loop {
            let missing = self.limit.saturating_sub(gathered.items.len() as u64);
            let page = fetch(Some(missing.min(PAGE_MAX)), gathered.next_cursor.as_deref()).await?;
            gathered.items.extend(page.items);
            gathered.next_cursor = page.next_cursor;
            if gathered.next_cursor.is_none() || gathered.items.len() as u64 >= self.limit {
                return Ok(gathered);
            }
        }
    }
}

/// A table as wide as the terminal at the most.
pub(crate) fn table<const N: usize>(heads: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(heads);
    for row in rows {
        table.add_row(row);
    }
    table.to_string()
}

/// Names and values, one a line, the values under each other.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("{name:width$}  {value}\n"));
    }
    text
}

/// A value, or nothing.
pub(crate) fn or_nothing(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A time without its fractions: nobody reads those in a table.
pub(crate) fn moment(time: Time) -> String {
    let text = time.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

/// The word of the contract for a value.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// The exit code for an error: whether the server said no, or nothing could be done.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let refused = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<ClientError>())
        .any(|error| match error {
            ClientError::Problem(problem) => problem.status < 500,
            _ => false,
        });
    if refused { REFUSED } else { 2 }
}

/// What brought an error about, for people. Of a server that was not reached only the last cause tells something; those before it
/// are layers of a library.
pub(crate) fn causes(error: &anyhow::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let is_transport = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(ClientError::Transport { .. }))
    };
    let (count, transport) = (error.chain().count(), error.chain().position(is_transport));
    error
        .chain()
        .enumerate()
        .skip(1)
        .filter_map(move |(index, cause)| {
            let told = transport.is_none_or(|transport| index <= transport || index + 1 == count);
            told.then_some(cause)
        })
}

/// What somebody can do about an error, where we know.
pub(crate) fn advice(error: &anyhow::Error) -> Option<String> {
    let error = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<ClientError>())?;
    match error {
        ClientError::Transport { reached: false, .. } => {
            Some("is the server running? Name it with --url or DOCKET_URL".to_owned())
        }
        ClientError::Problem(problem) => match problem.status {
            401 => Some(
                "name a key with DOCKET_KEY or --key; `docket keys create --data DIR` makes one".to_owned(),
            ),
            409 => problem
                .more
                .get("leaseExpiresAt")
                .and_then(|until| serde_json::from_value(until.clone()).ok())
                .map(|until| format!("it is held until {}", moment(until))),
            403 => Some("the key's role does not allow it; use another key".to_owned()),
            500.. => problem
                .request_id
                .as_ref()
                .map(|id| format!("the server's log tells more, by request {id}")),
            _ => problem
                .retry_after
                .map(|wait| format!("try again in {} seconds", wait.as_secs())),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_a_server_that_is_away_only_what_matters_is_told() {
        let client = Client::new("http://127.0.0.1:1", None).unwrap();
        let retry = RetryPolicy {
            attempts: 1,
            base_ms: 1,
            max_ms: 1,
        };
        let error = client.with_retry(retry).pauses().await.unwrap_err();
        let error = anyhow::Error::new(error).context("the pauses cannot be listed");
        let told: Vec<_> = causes(&error).map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(told[0], "http://127.0.0.1:1 cannot be reached");
        assert!(told[1].to_lowercase().contains("refused"), "{told:?}");
    }
}
