//! The outbox by plain SQL: what the tables say of deliveries, without any of Docket's own code.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Plain;

/// Where a delivery stands, as the number in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowState {
    /// 0
    Pending,
    /// 1
    Sending,
    /// 2
    Unknown,
    /// 3
    Held,
    /// 4
    Sent,
    /// 5
    Failed,
    /// 6
    Reconciling,
    /// 7
    Cancelled,
}

impl RowState {
    const ALL: [Self; 8] = [
        Self::Pending,
        Self::Sending,
        Self::Unknown,
        Self::Held,
        Self::Sent,
        Self::Failed,
        Self::Reconciling,
        Self::Cancelled,
    ];

    /// Whether nothing happens to it any more, or a person has to say what.
    pub const fn is_at_rest(self) -> bool {
        matches!(self, Self::Held | Self::Sent | Self::Failed | Self::Cancelled)
    }

    /// Whether a message may have left of which nothing is known yet.
    pub const fn is_in_doubt(self) -> bool {
        matches!(self, Self::Sending | Self::Unknown | Self::Reconciling)
    }
}

/// A delivery.
#[derive(Clone, Debug)]
pub struct DeliveryRow {
    /// What it tells of.
    pub changelist_id: String,
    /// What its message bears.
    pub token: String,
    /// Where it stands.
    pub state: RowState,
    /// Rises with every hold.
    pub lease: i64,
    /// Whether the provider's own answer is on record.
    pub has_evidence: bool,
    /// The hold of its last attempt that has ended; 0 for none.
    pub ended: i64,
}

/// The deliveries about changelists whose ids begin so.
pub async fn delivery_rows(plain: &Plain, begin: &str) -> Vec<DeliveryRow> {
    let sql = format!(
        "select n.changelist_id, d.token, d.state, d.lease, d.evidence_at_ms, \
         coalesce((select max(a.number) from delivery_attempt a where a.delivery_id = d.id), 0) \
         from delivery d join notification n on n.id = d.notification_id \
         where n.changelist_id like '{begin}%' order by n.changelist_id"
    );
    let number = |text: &str| -> i64 { text.parse().expect("a number") };
    let row = |row: Vec<String>| DeliveryRow {
        changelist_id: row[0].clone(),
        token: row[1].clone(),
        state: RowState::ALL[row[2].parse::<usize>().expect("a state is a number")],
        lease: number(&row[3]),
        has_evidence: !row[4].is_empty(),
        ended: number(&row[5]),
    };
    plain.rows(&sql).await.into_iter().map(row).collect()
}

/// How often the log says of each token that it is sent although it may have been before.
pub async fn logged_repeats(plain: &Plain) -> BTreeMap<String, usize> {
    let rows = plain
        .rows("select details from log where action = 'delivery.sending'")
        .await;
    let mut repeats = BTreeMap::new();
    for row in rows {
        let details: Value = serde_json::from_str(&row[0]).expect("details are JSON");
        if details["mayRepeat"]
            .as_bool()
            .expect("it says whether it may be a repeat")
        {
            let token = details["token"].as_str().expect("it names the token");
            *repeats.entry(token.to_owned()).or_default() += 1;
        }
    }
    repeats
}
