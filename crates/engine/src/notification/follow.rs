//! What follows from a decision: a collection's rule makes a notification in the transaction that decides (rule N11). It waits until the
//! decision can no longer be taken back. A rule that cannot be kept is logged and never holds a decision up.

use docket_core::log::Action;
use docket_core::notification::NotifyRule;
use docket_core::review::Outcome;
use docket_core::{Refused, Timestamp};
use docket_store::table::item;
use docket_store::table::log::NewEntry;
use docket_store::table::review::Review;
use docket_store::{Error, Result, Tx};
use serde_json::{Map, Value, json};

use super::config::OutboxConfig;
use super::create::{Creations, create_in};
use super::prepare::{NewNotification, Terms, prepare, render as render_message};
use super::template::{one_line, plain, render};
use crate::engine::Kernel;
use crate::review::Reviewed;
use crate::view::item::fields_of;

const SUBJECT: &str = "{{ item.name }} was {{ outcome }}";
const BODY: &str = "{{ item.name }} in {{ item.collectionId }} was {{ outcome }} by {{ decidedBy }}.
{% if reason %}
Reason: {{ reason }}
{% endif %}{% for correction in corrections %}
{{ correction.field }}: {{ correction.new }} (was {{ correction.old|default('empty') }}){% endfor %}
";

/// A decision to be told.
pub(crate) struct Told<'a> {
    pub(crate) owner: &'a Reviewed,
    pub(crate) review: &'a Review,
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<&'a str>,
    pub(crate) corrections: Vec<Value>,
    pub(crate) actor: &'a str,
    pub(crate) now: Timestamp,
}

/// Checks a rule: its recipients, its channels and its templates.
pub(crate) fn check_rule(outbox: &OutboxConfig, rule: &NotifyRule) -> Refused<()> {
    let sample = json!({
        "item": {
            "id": "01900000-0000-7000-8000-000000000000", "externalId": "sample", "name": "sample", "collectionId": "sample",
            "version": 1, "filename": null, "fields": {}, "metadata": {}, "payload": {},
        },
        "outcome": "approved", "reason": null, "decidedBy": "sample", "corrections": [],
    });
    let recipients = rule.check()?;
    let (subject, body) = words(rule, &sample)?;
    let message = docket_core::notify::Message::new("sample", 1, subject, body, Timestamp::default())?;
    for (place, recipient) in recipients.iter().enumerate() {
        let token = docket_core::notify::DeliveryToken::derive(&["sample"]);
        render_message(outbox, &message, recipient, &token).map_err(|refusal| match refusal {
            docket_core::Refusal::Invalid { problem, .. } => {
                docket_core::Refusal::invalid(format!("recipients[{place}]"), problem)
            }
            other => other,
        })?;
    }
    Ok(())
}

/// A subject may be all of fields that an item does not have; then it is as if there were no template for it.
fn words(rule: &NotifyRule, values: &Value) -> Refused<(String, String)> {
    let said = |template: &str| Ok(one_line(&render("subject", template, values)?));
    let subject = match &rule.subject {
        Some(template) => Some(said(template)?).filter(|subject| !subject.is_empty()),
        None => None,
    };
    let subject = subject.map_or_else(|| said(SUBJECT), Ok)?;
    let body = render("body", rule.body.as_deref().unwrap_or(BODY), values)?;
    Ok((subject, plain(&body)))
}

/// Makes the notification that the collection's rule asks for, if it does. What is to be written is added to `writes`.
pub(crate) async fn follow(
    tx: &mut Tx,
    kernel: &Kernel,
    told: &Told<'_>,
    writes: &mut Creations,
) -> Result<()> {
    let rule = match told.owner.notify.as_ref() {
        Some(rule) if rule.tells(told.outcome) => rule,
        _ => return Ok(()),
    };
    let values = values(tx, told).await?;
    let (owner, review) = (told.owner, told.review);
    let made = async {
        let (subject, body) = words(rule, &values)?;
        let new = NewNotification {
            idempotency_key: format!("review:{}:{}", review.id, review.hand.token.0),
            changelist_id: review.item.to_string(),
            review_version: review.item_version,
            recipients: rule.recipients.clone(),
            optional_recipients: Vec::new(),
            subject,
            body,
        };
        // A decision can be taken back up to that very moment.
        let undo_until = told.now.plus_ms(owner.policy.undo_ms());
        let terms = Terms {
            owner: &owner.collection.tenant_id,
            actor: told.actor,
            item: Some(review.item),
            not_before: undo_until.plus_ms(1),
            on_unknown: rule.on_unknown,
            now: told.now,
        };
        let prepared = prepare(&kernel.config.outbox, kernel.random.as_ref(), &terms, &new)?;
        create_in(tx, &prepared, writes).await
    };
    match made.await {
        Ok(_) => Ok(()),
        Err(Error::Refused(refusal)) => {
            tracing::warn!(collection = owner.collection.id, %refusal, "nobody is told of a decision");
            let details =
                json!({ "queueId": review.id, "problem": refusal.to_string(), "code": refusal.code() });
            let entry = NewEntry::new(Action::NotificationRefused, told.actor)
                .of_item(&owner.collection.tenant_id, review.item)
                .with(&details);
            writes.note(entry);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn values(tx: &mut Tx, told: &Told<'_>) -> Result<Value> {
    let review = told.review;
    let Some(found) = item::get(tx, review.item).await? else {
        return Ok(json!({}));
    };
    let mut fields = Map::new();
    for field in fields_of(tx, &found).await? {
        fields.insert(field.name, field.value);
    }
    let parsed = |text: Option<&String>| -> Value {
        text.and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null)
    };
    let id = review.item.to_string();
    let name = found.external_id.clone().or_else(|| found.filename.clone());
    Ok(json!({
        "item": {
            "id": id, "externalId": found.external_id, "name": name.unwrap_or_else(|| id.clone()),
            "collectionId": found.collection_id, "version": review.item_version, "filename": found.filename,
            "fields": fields, "metadata": parsed(found.metadata.as_ref()), "payload": parsed(found.payload.as_ref()),
        },
        "outcome": told.outcome.state().as_str(), "reason": told.reason, "decidedBy": review.hand.decided_by,
        "corrections": told.corrections,
    }))
}
