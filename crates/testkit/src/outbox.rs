//! An outbox in a world: somebody who notifies, and what became of it.

use docket_core::id::DeliveryId;
use docket_core::notification::NotificationStatus;
use docket_core::scope::Notifying;
use docket_engine::{CreatedNotification, DeliveryView, NewNotification, Result};

use crate::World;

/// A recipient that can be asked about.
pub const HOOK: &str = "webhook:https://receiver.example/hook";
/// A recipient of whom nobody can tell.
pub const MAIL: &str = "email:ann@example.com";
/// A recipient that takes a token once.
pub const FILE: &str = "file:ledger";

/// A notification of this version of a subject.
pub fn about(key: &str, changelist_id: &str, review_version: i64, recipients: &[&str]) -> NewNotification {
    NewNotification {
        idempotency_key: key.to_owned(),
        changelist_id: changelist_id.to_owned(),
        review_version,
        recipients: recipients.iter().map(|&to| to.to_owned()).collect(),
        subject: format!("{changelist_id} is reviewed"),
        body: "It is good.\n".to_owned(),
        ..NewNotification::default()
    }
}

/// What was refused, in a word.
pub trait Coded {
    /// The code of the refusal; a failure of the system has none.
    fn code(&self) -> &'static str;
}

impl Coded for docket_engine::Error {
    fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            other => panic!("it was not refused, it failed: {other}"),
        }
    }
}

impl World {
    /// Somebody who notifies for the deployment.
    pub fn notifying() -> Notifying {
        Notifying::deployment(&Self::operator())
    }

    /// Makes a notification.
    pub async fn notify(&self, new: &NewNotification) -> Result<CreatedNotification> {
        self.engine.notification_create(&Self::notifying(), new).await
    }

    /// Makes a notification to one recipient, which must be taken; its delivery.
    pub async fn deliver(&self, changelist_id: &str, recipient: &str) -> DeliveryId {
        let made = self
            .notify(&about(changelist_id, changelist_id, 1, &[recipient]))
            .await;
        made.expect("the notification is taken")
            .view
            .notification
            .id
            .delivery(0)
    }

    /// Runs the dispatcher until nothing is due.
    pub async fn dispatch(&self) {
        for _ in 0..100 {
            let done = self
                .engine
                .dispatcher_run_once()
                .await
                .expect("the dispatcher runs");
            if done.found == 0 {
                return;
            }
        }
        panic!("something is due for ever");
    }

    /// Lets time pass and runs the dispatcher.
    pub async fn dispatch_after(&self, ms: i64) {
        self.pass_ms(ms);
        self.dispatch().await;
    }

    /// A delivery.
    pub async fn delivery(&self, id: DeliveryId) -> DeliveryView {
        let view = self.engine.delivery(&Self::notifying(), id).await;
        view.expect("the delivery is there")
    }

    /// The word of its state.
    pub async fn delivery_state(&self, id: DeliveryId) -> &'static str {
        self.delivery(id).await.delivery.course.state.as_str()
    }

    /// What came of each of its tries, oldest first.
    pub async fn tries(&self, id: DeliveryId) -> Vec<String> {
        let view = self.delivery(id).await;
        let said = view.attempts.iter().rev();
        said.map(|attempt| format!("{} {}", attempt.kind, attempt.outcome))
            .collect()
    }

    /// The status of the notification of a delivery.
    pub async fn whole(&self, id: DeliveryId) -> NotificationStatus {
        let notification = self.delivery(id).await.delivery.notification;
        let view = self.engine.notification(&Self::notifying(), notification).await;
        view.expect("the notification is there").status
    }

    /// How often the log says this.
    pub async fn logged(&self, action: &str) -> i64 {
        self.number(&format!("select count(*) from log where action = '{action}'"))
            .await
    }
}
