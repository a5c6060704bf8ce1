//! Hints between servers: LISTEN and NOTIFY on one connection of their own, outside every transaction that matters, since a
//! notifying transaction would take a lock that all the others wait for.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use docket_core::id::{CollectionKey, PipelineKey};
use docket_core::random::{Random as _, SystemRandom};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config};

use super::connect::connect_limit;
use super::dial::{Dial, Driven};
use super::floor::{BOTTOM, Floors};
use crate::error::{Error, Result};
use crate::hint::{Gate, Hint, Hints};

const CHANNEL: &str = "docket_hint";
const RECONNECT_AFTER: Duration = Duration::from_millis(200);
/// Between two notices: what comes in between goes out together.
const BREATH: Duration = Duration::from_millis(4);
/// More pipelines than this at once are simply "anything"; a notice holds at most 8,000 bytes.
const NAMED_MAX: usize = 64;
/// The words for what is no pipeline.
const LOGGED: &str = "log";
const FOLLOWING: &str = "follow";
const DELIVERY: &str = "send";
/// How the word for a collection with reviews begins.
const REVIEW: &str = "r";

/// Connects this server's hints with the others'.
pub(crate) struct Listener {
    config: Config,
    dial: Dial,
    /// Is closed with the store.
    pool: Pool,
    floors: Arc<Floors>,
    gate: Gate,
    name: String,
}

impl Listener {
    /// Starts listening and telling; ends when the store is closed or its hints are gone.
    pub(crate) fn start(
        (config, dial): (Config, Dial),
        pool: Pool,
        floors: Arc<Floors>,
        hints: &Hints,
        outgoing: mpsc::Receiver<Hint>,
    ) {
        let listener = Self {
            config,
            dial,
            pool,
            floors,
            gate: hints.gate(),
            name: format!("{:016x}", SystemRandom.next_u64()),
        };
        tokio::spawn(listener.run(outgoing));
    }

    async fn run(self, mut outgoing: mpsc::Receiver<Hint>) {
        while !self.pool.is_closed() && !outgoing.is_closed() {
            match self.serve(&mut outgoing).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(
                        error = &error as &dyn std::error::Error,
                        "hints between servers are interrupted"
                    );
                    tokio::time::sleep(RECONNECT_AFTER).await;
                }
            }
        }
    }

    /// Serves one connection until it breaks (an error) or nobody sends hints any more.
    async fn serve(&self, outgoing: &mut mpsc::Receiver<Hint>) -> Result<()> {
        let (client, mut connection) = self.connect().await?;
        let (gate, floors, own) = (self.gate.clone(), Arc::clone(&self.floors), self.name.clone());
        let mut incoming = tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notice) = message? {
                    take(&gate, &floors, &own, notice.payload());
                }
            }
            Ok::<_, tokio_postgres::Error>(())
        });
        client
            .batch_execute(&format!("set synchronous_commit = off; listen {CHANNEL}"))
            .await
            .map_err(Error::postgres("listen"))?;
        // What was told while nobody listened is lost: look at everything once.
        self.floors.lower(None, BOTTOM);
        self.gate.arrives(Hint::Anything);
        let told = tokio::select! {
            told = self.tell(&client, outgoing) => told,
            // The connection broke: the other servers' hints are missed from now on, so it is mended at once.
            _ = &mut incoming => client.batch_execute("").await,
        };
        incoming.abort();
        told.map_err(Error::postgres("tell"))
    }

    /// A server that takes a connection and then says nothing is not waited for: it may be another by the next time.
    async fn connect(&self) -> Result<(Client, Driven)> {
        let dialled = tokio::time::timeout(connect_limit(&self.config), self.dial.dial(&self.config)).await;
        dialled
            .map_err(|elapsed| Error::no_connection(&elapsed, true))?
            .map_err(|error| Error::no_connection(&error, true))
    }

    async fn tell(
        &self,
        client: &Client,
        outgoing: &mut mpsc::Receiver<Hint>,
    ) -> Result<(), tokio_postgres::Error> {
        let statement = client.prepare("select pg_notify($1, $2)").await?;
        // What could not be told before is lost, too.
        let mut hints = vec![Hint::Anything];
        client
            .execute(&statement, &[&CHANNEL, &self.text(&mut hints)])
            .await?;
        while !self.pool.is_closed() {
            tokio::select! {
                taken = outgoing.recv_many(&mut hints, usize::MAX) => if taken == 0 { return Ok(()) },
                () = tokio::time::sleep(Duration::from_secs(5)) => {
                    // Finds out that the connection broke, or the store was closed, while there is nothing to tell.
                    client.batch_execute("").await?;
                    continue;
                }
            }
            hints.iter().for_each(|hint| self.gate.leaves(*hint));
            client
                .execute(&statement, &[&CHANNEL, &self.text(&mut hints)])
                .await?;
            tokio::time::sleep(BREATH).await;
        }
        Ok(())
    }

    /// Hints as the other servers are told of them.
    fn text(&self, hints: &mut Vec<Hint>) -> String {
        format!("{} {}", self.name, words(hints.drain(..)))
    }
}

fn words(hints: impl Iterator<Item = Hint>) -> String {
    let (mut named, mut anything) = (HashSet::new(), false);
    let mut words: Vec<String> = Vec::new();
    for hint in hints {
        let word = match hint {
            Hint::Ready(pipeline) if named.len() < NAMED_MAX => {
                named.insert(pipeline.0.to_string());
                continue;
            }
            Hint::Review(collection) if named.len() < NAMED_MAX => {
                named.insert(format!("{REVIEW}{}", collection.0));
                continue;
            }
            Hint::Ready(_) | Hint::Review(_) | Hint::Anything => {
                anything = true;
                continue;
            }
            Hint::Logged => LOGGED,
            Hint::Following => FOLLOWING,
            Hint::Delivery => DELIVERY,
        };
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    }
    match anything {
        true => words.push("*".to_owned()),
        false => words.extend(named),
    }
    words.join(" ")
}

fn named_hint(word: &str) -> Option<Hint> {
    match word.strip_prefix(REVIEW) {
        Some(key) => key.parse().ok().map(|key| Hint::Review(CollectionKey(key))),
        None => word.parse().ok().map(|key| Hint::Ready(PipelineKey(key))),
    }
}

fn take(gate: &Gate, floors: &Floors, own: &str, text: &str) {
    let mut words = text.split(' ');
    if words.next() == Some(own) {
        return;
    }
    for word in words {
        let hint = match word {
            LOGGED => Hint::Logged,
            FOLLOWING => Hint::Following,
            DELIVERY => Hint::Delivery,
            word => named_hint(word).unwrap_or(Hint::Anything),
        };
        // Where its lanes are ready, the other server has not said.
        match hint {
            Hint::Ready(pipeline) => floors.lower(Some(pipeline), BOTTOM),
            Hint::Anything => floors.lower(None, BOTTOM),
            Hint::Review(_) | Hint::Delivery | Hint::Logged | Hint::Following => {}
        }
        gate.arrives(hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_names_each_pipeline_once() {
        let (a, b) = (Hint::Ready(PipelineKey(1)), Hint::Review(CollectionKey(2)));
        let mut named: Vec<_> = words([a, b, a].into_iter())
            .split(' ')
            .map(str::to_owned)
            .collect();
        named.sort();
        assert_eq!(named, ["1", "r2"]);
        assert_eq!(words([a, Hint::Anything].into_iter()), "*");
        assert_eq!(words((0..1_000).map(|n| Hint::Ready(PipelineKey(n)))), "*");
        assert_eq!(
            words([Hint::Logged, Hint::Following, Hint::Logged, Hint::Anything].into_iter()),
            "log follow *"
        );
    }

    #[test]
    fn a_server_takes_the_others_hints_and_not_its_own() {
        let (hints, _outgoing) = Hints::new();
        let (gate, mut heard) = (hints.gate(), hints.subscribe());
        let floors = Floors::default();
        take(&gate, &floors, "me", "me 7");
        take(&gate, &floors, "me", "you log 8 r9 follow *");
        assert_eq!(heard.try_recv().unwrap(), Hint::Ready(PipelineKey(8)));
        assert_eq!(heard.try_recv().unwrap(), Hint::Review(CollectionKey(9)));
        assert_eq!(heard.try_recv().unwrap(), Hint::Anything);
        assert!(heard.try_recv().is_err());
    }
    #[test]
    fn a_commit_is_told_only_while_somebody_follows_and_once_until_it_has_left() {
        let (hints, mut outgoing) = Hints::new();
        let gate = hints.gate();
        hints.logged();
        assert!(outgoing.try_recv().is_err(), "nobody follows");
        take(&gate, &Floors::default(), "me", "you follow");
        (0..5).for_each(|_| hints.logged());
        assert_eq!(outgoing.try_recv(), Ok(Hint::Logged));
        assert!(outgoing.try_recv().is_err(), "one stands for all");
        gate.leaves(Hint::Logged);
        hints.logged();
        assert_eq!(outgoing.try_recv(), Ok(Hint::Logged));
    }
}
