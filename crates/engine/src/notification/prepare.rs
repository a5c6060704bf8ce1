//! From a request to the rows that are written: recipients read, messages rendered and frozen, tokens derived. Pure, so that it can be done
//! before a transaction or within one.

use docket_core::content::Digest;
use docket_core::id::{ItemId, NotificationId};
use docket_core::name::{TEXT_MAX, check_text};
use docket_core::notification::{delivery_token, destination, read_recipients};
use docket_core::notify::{DeliveryToken, Message, OnUnknown, Recipient};
use docket_core::random::Random;
use docket_core::{Refusal, Refused, Timestamp};
use docket_notify::Frozen;
use docket_store::Weight;
use docket_store::table::delivery::{FrozenRow, NewDelivery, Origin};
use docket_store::table::notification::Notification;
use serde_json::json;

use super::config::OutboxConfig;

/// The most bytes that the messages of one notification have together.
const FROZEN_MAX: u64 = 16 << 20;
const VERSION_MAX: i64 = i64::MAX / 2;

/// What is to be told, to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewNotification {
    /// The caller's key: the same again makes no second notification.
    pub idempotency_key: String,
    /// What it is about.
    pub changelist_id: String,
    /// Which version of it.
    pub review_version: i64,
    /// Who has to be told.
    pub recipients: Vec<String>,
    /// Who is told too; the notification succeeds without them.
    pub optional_recipients: Vec<String>,
    /// One line.
    pub subject: String,
    /// Plain text.
    pub body: String,
}

impl NewNotification {
    /// What is asked for, whatever the key.
    fn digest(&self) -> Digest {
        Digest::of_json(&json!([
            self.changelist_id,
            self.review_version,
            self.recipients,
            self.optional_recipients,
            self.subject,
            self.body
        ]))
    }
}

/// A notification ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) notification: Notification,
    pub(crate) origin: Origin,
    pub(crate) deliveries: Vec<NewDelivery>,
}

impl Prepared {
    /// What it brings into a batch.
    pub(crate) fn weight(&self) -> Weight {
        Weight {
            entries: self.deliveries.len(),
            bytes: self.deliveries.iter().map(|new| new.frozen.body.len()).sum(),
        }
    }
}

/// For whom a notification is made, and when it may first be sent.
#[derive(Clone, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) owner: &'a str,
    pub(crate) actor: &'a str,
    pub(crate) item: Option<ItemId>,
    pub(crate) not_before: Timestamp,
    /// What becomes of what nobody can tell; none: as the channel has it.
    pub(crate) on_unknown: Option<OnUnknown>,
    pub(crate) now: Timestamp,
}

/// Checks and renders everything, or says what is wrong.
pub(crate) fn prepare(
    outbox: &OutboxConfig,
    random: &dyn Random,
    terms: &Terms<'_>,
    new: &NewNotification,
) -> Refused<Prepared> {
    check_text("idempotencyKey", &new.idempotency_key, TEXT_MAX)?;
    if !(0..=VERSION_MAX).contains(&new.review_version) {
        return Err(Refusal::invalid("reviewVersion", "must not be negative"));
    }
    let recipients = read_recipients(&new.recipients, &new.optional_recipients)?;
    let message = message(new, terms.now)?;
    let id = NotificationId::new(terms.now, random);
    let (mut deliveries, mut bytes) = (Vec::with_capacity(recipients.len()), 0_u64);
    for (place, (recipient, required)) in recipients.iter().enumerate() {
        let token = delivery_token(terms.owner, &new.changelist_id, recipient, new.review_version, "");
        let frozen =
            render(outbox, &message, recipient, &token).map_err(|refusal| at(new, place, refusal))?;
        bytes += (frozen.body.len() + frozen.headers.len()) as u64;
        if bytes > FROZEN_MAX {
            return Err(Refusal::TooLarge {
                what: "the messages to all recipients together".into(),
                size: bytes,
                limit: FROZEN_MAX,
            });
        }
        deliveries.push(NewDelivery {
            id: id.delivery(place),
            key: token.to_string(),
            recipient: recipient.to_string(),
            required: *required,
            channel: recipient.channel().as_str().to_owned(),
            destination: format!("{}:{}", recipient.channel(), destination(recipient)),
            token: token.to_string(),
            frozen,
            due: terms.not_before,
        });
    }
    Ok(Prepared {
        notification: Notification {
            id,
            owner: terms.owner.to_owned(),
            idempotency_key: new.idempotency_key.clone(),
            request: new.digest(),
            changelist_id: new.changelist_id.clone(),
            review_version: new.review_version,
            item: terms.item,
            subject: new.subject.clone(),
            body: new.body.clone(),
            actor: terms.actor.to_owned(),
            created_at: terms.now,
            expired_as: None,
        },
        origin: Origin {
            notification: id,
            owner: terms.owner.to_owned(),
            item: terms.item,
            created_at: terms.now,
            on_unknown: terms.on_unknown,
        },
        deliveries,
    })
}

fn at(new: &NewNotification, place: usize, refusal: Refusal) -> Refusal {
    let path = match place.checked_sub(new.recipients.len()) {
        None => format!("recipients[{place}]"),
        Some(place) => format!("optionalRecipients[{place}]"),
    };
    match refusal {
        Refusal::Invalid { problem, .. } => Refusal::invalid(path, problem),
        other => other,
    }
}

fn message(new: &NewNotification, created_at: Timestamp) -> Refused<Message> {
    let version = u64::try_from(new.review_version).unwrap_or(0);
    Message::new(&new.changelist_id, version, &new.subject, &new.body, created_at)
}

/// The message of a notification that is there already.
pub(crate) fn message_of(known: &Notification) -> Refused<Message> {
    let version = u64::try_from(known.review_version).unwrap_or(0);
    Message::new(
        &known.changelist_id,
        version,
        &known.subject,
        &known.body,
        known.created_at,
    )
}

/// What is sent to a recipient, frozen.
pub(crate) fn render(
    outbox: &OutboxConfig,
    message: &Message,
    recipient: &Recipient,
    token: &DeliveryToken,
) -> Refused<FrozenRow> {
    let kind = recipient.channel();
    let channel = outbox.channels.get(kind).ok_or_else(|| {
        Refusal::invalid(
            "recipient",
            format!("this server has no channel '{kind}': its configuration has no [channels.{kind}]"),
        )
    })?;
    let frozen = channel.render(message, recipient, token)?;
    Ok(FrozenRow {
        headers: json!(frozen.headers).to_string(),
        body: frozen.body,
    })
}

/// What was frozen, as the channel takes it.
pub(crate) fn thaw(recipient: &str, token: &str, row: FrozenRow) -> Refused<Frozen> {
    let headers =
        serde_json::from_str(&row.headers).map_err(|error| Refusal::invalid("headers", error.to_string()))?;
    Ok(Frozen {
        token: DeliveryToken::new(token)?,
        recipient: Recipient::parse(recipient)?,
        headers,
        body: row.body,
    })
}
