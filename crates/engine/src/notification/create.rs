//! Create: a notification and its deliveries, in one transaction, once for each key (rules N1 to N3). Calls that come together are written
//! together.

use std::sync::Arc;

use docket_core::log::Action;
use docket_core::notification::{NotificationStatus, VersionStands, version_stands};
use docket_core::scope::Notifying;
use docket_core::{Refusal, Refused};
use docket_store::table::delivery::{self, NewDelivery, Origin};
use docket_store::table::log::NewEntry;
use docket_store::table::notification::{self, Notification};
use docket_store::table::record::record;
use docket_store::{Error, Hint, Result, Tx};
use serde_json::json;

use super::prepare::{NewNotification, Prepared, Terms, prepare};
use super::tenant_of;
use super::view::{NotificationView, viewed};
use crate::engine::{Engine, Kernel};

/// What became of a request to notify.
#[derive(Clone, Debug)]
pub struct CreatedNotification {
    /// The notification: the new one, or the one that was there.
    pub view: NotificationView,
    /// The key was used before: this is the notification first made.
    pub duplicate: bool,
    /// And something else was asked for then.
    pub request_differs: bool,
    /// This version was told already: nothing was done.
    pub noop: bool,
}

pub(crate) type CreateResult = Refused<CreatedNotification>;

impl Engine {
    /// Makes a notification, or gives the one that the same key made.
    pub async fn notification_create(
        &self,
        who: &Notifying,
        new: &NewNotification,
    ) -> Result<CreatedNotification> {
        let now = self.kernel.clock.now();
        let terms = Terms {
            owner: who.owner(),
            actor: who.actor().as_str(),
            item: None,
            not_before: now,
            on_unknown: None,
            now,
        };
        let outbox = &self.kernel.config.outbox;
        let prepared = prepare(outbox, self.kernel.random.as_ref(), &terms, new)?;
        let created = self.batches.notification_create.call(Arc::new(prepared)).await?;
        created.map_err(Error::Refused)
    }
}

/// Runs a batch of calls in one transaction.
pub(crate) async fn create_calls(
    kernel: &Arc<Kernel>,
    calls: Vec<Arc<Prepared>>,
) -> Result<Vec<CreateResult>> {
    let now = kernel.clock.now();
    let results = kernel
        .store
        .run("notification_create", calls, move |tx, calls| {
            Box::pin(async move {
                let mut writes = Creations::default();
                let mut results: Vec<Option<CreateResult>> = vec![None; calls.len()];
                // In one order, so that two batches wait for each other and not in a circle.
                let mut order: Vec<usize> = (0..calls.len()).collect();
                order.sort_by_key(|index| {
                    let new = &calls[*index].notification;
                    (&new.owner, &new.changelist_id, new.review_version)
                });
                for index in order {
                    results[index] = Some(create(tx, &calls[index], &mut writes).await?);
                }
                writes.write(tx, now).await?;
                Ok(results.into_iter().flatten().collect::<Vec<_>>())
            })
        })
        .await?;
    let is_new = |created: &&CreatedNotification| !created.duplicate && !created.noop;
    let made = results.iter().flatten().filter(is_new).count();
    crate::meter::notifications_created(made);
    if made > 0 {
        kernel.store.hints().send(Hint::Delivery);
    }
    Ok(results)
}

/// What a transaction has to write at its end.
#[derive(Default)]
pub(crate) struct Creations {
    deliveries: Vec<(Origin, NewDelivery)>,
    log: Vec<NewEntry>,
}

impl Creations {
    /// Whether anything is to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Notes that a notification could not be made.
    pub(crate) fn note(&mut self, entry: NewEntry) {
        self.log.push(entry);
    }

    /// Writes it.
    pub(crate) async fn write(self, tx: &mut Tx, now: docket_core::Timestamp) -> Result<()> {
        let rows: Vec<_> = self
            .deliveries
            .iter()
            .map(|(origin, new)| (origin, new))
            .collect();
        if !rows.is_empty() {
            delivery::insert(tx, &rows).await?;
        }
        record(tx, &self.log, &[], now).await
    }
}

async fn create(tx: &mut Tx, prepared: &Prepared, writes: &mut Creations) -> Result<CreateResult> {
    match create_in(tx, prepared, writes).await {
        Ok(created) => Ok(Ok(created)),
        Err(Error::Refused(refusal)) => Ok(Err(refusal)),
        Err(error) => Err(error),
    }
}

/// Makes a notification within a transaction. Its deliveries and its entry are written with [`Creations::write`], before the transaction ends.
/// A refusal leaves nothing behind.
pub(crate) async fn create_in(
    tx: &mut Tx,
    prepared: &Prepared,
    writes: &mut Creations,
) -> Result<CreatedNotification> {
    let new = &prepared.notification;
    let (owner, subject, version) = (&new.owner, &new.changelist_id, new.review_version);
    if let Some(first) = repeated(tx, new).await? {
        return Ok(first);
    }
    if !notification::raise(tx, owner, subject, version, new.id).await? {
        // Whoever raised it in this very moment may have had the same key.
        if let Some(first) = repeated(tx, new).await? {
            return Ok(first);
        }
        return not_raised(tx, new).await;
    }
    notification::insert(tx, new).await?;
    let deliveries = prepared
        .deliveries
        .iter()
        .map(|new| (prepared.origin.clone(), new.clone()));
    writes.deliveries.extend(deliveries);
    writes.log.push(created_entry(prepared));
    Ok(CreatedNotification {
        view: NotificationView {
            notification: new.clone(),
            status: NotificationStatus::Pending,
        },
        duplicate: false,
        request_differs: false,
        noop: false,
    })
}

/// The notification that the same key made.
async fn repeated(tx: &mut Tx, new: &Notification) -> Result<Option<CreatedNotification>> {
    let Some(first) = notification::by_key(tx, &new.owner, &new.idempotency_key).await? else {
        return Ok(None);
    };
    let request_differs = first.request != new.request;
    Ok(Some(CreatedNotification {
        view: viewed(tx, first).await?,
        duplicate: true,
        request_differs,
        noop: false,
    }))
}

/// The subject has this version or a higher one: nothing to do, or refused.
async fn not_raised(tx: &mut Tx, new: &Notification) -> Result<CreatedNotification> {
    let (owner, subject) = (&new.owner, &new.changelist_id);
    let found = notification::highest(tx, owner, subject).await?;
    let (highest, id) = found.ok_or_else(|| Refusal::not_found("notification", subject))?;
    let known = notification::get(tx, id).await?;
    let known = known.ok_or_else(|| Refusal::not_found("notification", &id))?;
    let view = viewed(tx, known).await?;
    match version_stands(new.review_version, Some((highest, view.status))) {
        VersionStands::Succeeded => Ok(CreatedNotification {
            view,
            duplicate: false,
            request_differs: false,
            noop: true,
        }),
        VersionStands::Higher | VersionStands::NotHigher => Err(Refusal::ReviewVersionNotHigher {
            changelist_id: subject.clone(),
            wanted: new.review_version,
            highest,
        }
        .into()),
    }
}

fn created_entry(prepared: &Prepared) -> NewEntry {
    let new = &prepared.notification;
    let details = json!({
        "notificationId": new.id, "changelistId": new.changelist_id, "reviewVersion": new.review_version,
        "idempotencyKey": new.idempotency_key, "recipients": prepared.deliveries.len(),
    });
    let mut entry = NewEntry::new(Action::NotificationCreated, &new.actor).with(&details);
    (entry.tenant_id, entry.item) = (tenant_of(&new.owner), new.item);
    entry
}
