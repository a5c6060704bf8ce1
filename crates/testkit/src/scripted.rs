//! Providers for tests: they keep a ledger of what they took, do what they are told to do next, and never forget. The ledger is the truth
//! that rows are compared with.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use docket_core::notify::{ChannelKind, DeliveryToken, Message, OnUnknown, Recipient};
use docket_core::{Refusal, Refused};
use docket_engine::OutboxConfig;
use docket_notify::{Abilities, Channel, Channels, Found, Frozen, Lookup, Sent, Words};
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

/// What a provider does with the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Play {
    /// Takes it and says so.
    Accept,
    /// Takes it, and its answer is lost.
    AcceptInSilence,
    /// Loses it, and nobody can tell.
    LoseInSilence,
    /// Does not take it now; ask again after so long.
    NotNow(Option<Duration>),
    /// Never takes it.
    Refuse,
    /// Never takes it, nor anything else.
    Gone,
    /// Takes it, and answers when it is told to go on.
    AcceptLater,
    /// Takes it and never answers.
    AcceptAndHang,
}

/// What a provider does with the next question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// What it knows.
    Truth,
    /// Nothing that makes sense.
    Nonsense,
    /// What it knows, when it is let go on.
    TruthLater,
    /// That it knows nothing, whatever it knows, when it is let go on.
    NothingLater,
}

/// A message that a provider took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its token.
    pub token: String,
    /// For whom.
    pub recipient: String,
    /// What it says.
    pub body: Vec<u8>,
}

#[derive(Debug, Default)]
struct Book {
    ledger: Vec<Received>,
    plays: VecDeque<Play>,
    says: VecDeque<Say>,
    lookups: usize,
    repeats: usize,
    abilities: Option<Abilities>,
}

/// A provider behind a channel.
#[derive(Debug)]
pub struct Provider {
    kind: ChannelKind,
    book: Mutex<Book>,
    gate: Semaphore,
}

impl Provider {
    fn new(kind: ChannelKind, abilities: Abilities) -> Arc<Self> {
        let book = Book {
            abilities: Some(abilities),
            ..Book::default()
        };
        Arc::new(Self {
            kind,
            book: Mutex::new(book),
            gate: Semaphore::new(0),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it does with the next messages; then it accepts.
    pub fn plays(&self, plays: impl IntoIterator<Item = Play>) {
        self.book().plays.extend(plays);
    }

    /// What it answers to the next questions; then the truth.
    pub fn says(&self, says: impl IntoIterator<Item = Say>) {
        self.book().says.extend(says);
    }

    /// What it took, in order.
    pub fn ledger(&self) -> Vec<Received> {
        self.book().ledger.clone()
    }

    /// How often it took something for this recipient.
    pub fn told(&self, recipient: &str) -> usize {
        self.book()
            .ledger
            .iter()
            .filter(|received| received.recipient == recipient)
            .count()
    }

    /// How often it was asked.
    pub fn lookups(&self) -> usize {
        self.book().lookups
    }

    /// How often it saw a token again and took it for the same message.
    pub fn repeats(&self) -> usize {
        self.book().repeats
    }

    /// Forgets everything it took.
    pub fn forget(&self) {
        self.book().ledger.clear();
    }

    /// Lets one of those go on that wait for it, the first first.
    pub fn go_on(&self) {
        self.gate.add_permits(1);
    }

    /// Changes what it can promise.
    pub fn can(&self, abilities: Abilities) {
        self.book().abilities = Some(abilities);
    }

    /// Takes a message under the lock of its book.
    fn take(&self, frozen: &Frozen) -> Play {
        let mut book = self.book();
        let play = book.plays.pop_front().unwrap_or(Play::Accept);
        let takes = matches!(
            play,
            Play::Accept | Play::AcceptLater | Play::AcceptInSilence | Play::AcceptAndHang
        );
        if !takes {
            return play;
        }
        let dedupes = book.abilities.is_some_and(|can| can.idempotent_for.is_some());
        let token = frozen.token.to_string();
        match dedupes && book.ledger.iter().any(|known| known.token == token) {
            true => book.repeats += 1,
            false => book.ledger.push(Received {
                token,
                recipient: frozen.recipient.to_string(),
                body: frozen.body.clone(),
            }),
        }
        play
    }
}

fn words(text: &str) -> Words {
    Words::new(text)
}

fn receipt(token: &DeliveryToken) -> String {
    format!("receipt-of-{token}")
}

impl Channel for Provider {
    fn kind(&self) -> ChannelKind {
        self.kind
    }

    fn abilities(&self) -> Abilities {
        self.book().abilities.unwrap()
    }

    fn render(&self, message: &Message, recipient: &Recipient, token: &DeliveryToken) -> Refused<Frozen> {
        if recipient.channel() != self.kind {
            return Err(Refusal::invalid("recipient", "is another channel's"));
        }
        Ok(Frozen {
            token: token.clone(),
            recipient: recipient.clone(),
            headers: vec![("x-token".to_owned(), token.to_string())],
            body: format!("{}\n{}", message.subject(), message.body()).into_bytes(),
        })
    }

    fn send<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Sent> {
        Box::pin(async move {
            let play = self.take(frozen);
            if play == Play::AcceptLater {
                self.gate.acquire().await.unwrap().forget();
            }
            match play {
                Play::Accept | Play::AcceptLater => Sent::Accepted {
                    id: receipt(&frozen.token),
                    words: words("250 taken"),
                },
                Play::AcceptInSilence | Play::LoseInSilence => Sent::Unknown {
                    retry_after: None,
                    words: words("the connection broke"),
                },
                Play::NotNow(retry_after) => Sent::Transient {
                    retry_after,
                    words: words("450 later"),
                },
                Play::Refuse => Sent::Permanent {
                    gone: false,
                    words: words("550 no such recipient"),
                },
                Play::Gone => Sent::Permanent {
                    gone: true,
                    words: words("410 gone"),
                },
                Play::AcceptAndHang => std::future::pending().await,
            }
        })
    }

    fn lookup<'a>(&'a self, token: &'a DeliveryToken) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            let say = {
                let mut book = self.book();
                book.lookups += 1;
                book.says.pop_front().unwrap_or(Say::Truth)
            };
            if matches!(say, Say::TruthLater | Say::NothingLater) {
                self.gate.acquire().await.unwrap().forget();
            }
            match say {
                Say::Nonsense => Found::Unknown {
                    retry_after: None,
                    words: words("500 what?"),
                },
                Say::Truth | Say::TruthLater if self.knows(token) => Found::Found {
                    id: receipt(token),
                    words: words("it is here"),
                },
                Say::Truth | Say::TruthLater | Say::NothingLater => Found::Absent {
                    words: words("never heard of it"),
                },
            }
        })
    }
}

impl Provider {
    fn knows(&self, token: &DeliveryToken) -> bool {
        self.book()
            .ledger
            .iter()
            .any(|known| known.token == token.as_str())
    }
}

/// The providers of a world: one that can be asked, one that can do nothing, one that takes a token once.
#[derive(Clone, Debug)]
pub struct Providers {
    /// Can be asked, a second after a send.
    pub webhook: Arc<Provider>,
    /// Can neither tell nor dedupe, as plain SMTP; what is unknown is held.
    pub email: Arc<Provider>,
    /// Takes a token once, for an hour.
    pub file: Arc<Provider>,
}

impl Default for Providers {
    fn default() -> Self {
        let neither = Abilities {
            idempotent_for: None,
            lookup: None,
            on_unknown: OnUnknown::Hold,
        };
        let lag = Duration::from_secs(1);
        Self {
            webhook: Provider::new(
                ChannelKind::Webhook,
                Abilities {
                    lookup: Some(Lookup { lag }),
                    ..neither
                },
            ),
            email: Provider::new(ChannelKind::Email, neither),
            file: Provider::new(
                ChannelKind::File,
                Abilities {
                    idempotent_for: Some(Duration::from_secs(3_600)),
                    ..neither
                },
            ),
        }
    }
}

impl Providers {
    /// An outbox over these providers.
    pub fn outbox(&self) -> OutboxConfig {
        let all = [&self.webhook, &self.email, &self.file];
        OutboxConfig {
            channels: Channels::new(all.map(|provider| Arc::clone(provider) as Arc<dyn Channel>)),
            ..OutboxConfig::default()
        }
    }
}
