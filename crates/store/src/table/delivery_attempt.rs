//! What was tried for a delivery, and what the provider said.

use docket_core::Timestamp;
use docket_core::id::DeliveryId;

use crate::error::Result;
use crate::params;
use crate::tx::{Driver, Tx};
use crate::value::Value;

crate::statements! {
    INSERT = sqlite "delivery_attempt_insert" "
insert into delivery_attempt (delivery_id, number, kind, token, began_at_ms, ended_at_ms, outcome, words)
values ($1, $2, $3, $4, $5, $6, $7, $8)";
    INSERT_MANY = postgres "delivery_attempt_insert_many" "
insert into delivery_attempt (delivery_id, number, kind, token, began_at_ms, ended_at_ms, outcome, words)
select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[])";
    OF = portable "delivery_attempt_of" "
select delivery_id, number, kind, token, began_at_ms, ended_at_ms, outcome, words from delivery_attempt
where delivery_id = $1 order by number desc limit $2";
    HAS_TOKEN = portable "delivery_attempt_has_token" "
select count(*) from delivery_attempt where delivery_id = $1 and token = $2";
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// Of which delivery.
    pub delivery: DeliveryId,
    /// Its number among the delivery's holds.
    pub number: i64,
    /// `send` or `lookup`.
    pub kind: String,
    /// The token that was sent or asked for.
    pub token: String,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended; none where nobody knows.
    pub ended_at: Option<Timestamp>,
    /// What came of it, in a word.
    pub outcome: String,
    /// What the provider said.
    pub words: String,
}

/// Writes tries that have ended.
pub async fn insert(tx: &mut Tx, attempts: &[DeliveryAttempt]) -> Result<()> {
    if attempts.is_empty() {
        return Ok(());
    }
    if let Driver::Postgres(_) = tx.driver {
        let texts = |of: fn(&DeliveryAttempt) -> &String| {
            Value::Texts(attempts.iter().map(|a| Some(of(a).clone())).collect())
        };
        let ints = |of: fn(&DeliveryAttempt) -> Option<i64>| Value::Ints(attempts.iter().map(of).collect());
        let params = params![
            Value::Uuids(attempts.iter().map(|a| a.delivery.uuid()).collect()),
            ints(|a| Some(a.number)),
            texts(|a| &a.kind),
            texts(|a| &a.token),
            ints(|a| Some(a.began_at.ms())),
            ints(|a| a.ended_at.map(Timestamp::ms)),
            texts(|a| &a.outcome),
            texts(|a| &a.words),
        ];
        return tx.execute(&INSERT_MANY, params).await.map(drop);
    }
    for a in attempts {
        let params = params![
            a.delivery, a.number, &a.kind, &a.token, a.began_at, a.ended_at, &a.outcome, &a.words
        ];
        tx.execute_one(&INSERT, params).await?;
    }
    Ok(())
}

/// The last tries of a delivery, newest first.
pub async fn of(tx: &mut Tx, id: DeliveryId, limit: u64) -> Result<Vec<DeliveryAttempt>> {
    let rows = tx.rows(&OF, params![id, limit]).await?;
    rows.into_iter()
        .map(|mut row| {
            Ok(DeliveryAttempt {
                delivery: DeliveryId::from_uuid(row.uuid(0)?),
                number: row.int(1)?,
                kind: row.text(2)?,
                token: row.text(3)?,
                began_at: row.time(4)?,
                ended_at: row.opt_time(5)?,
                outcome: row.text(6)?,
                words: row.text(7)?,
            })
        })
        .collect()
}

/// Whether anything was ever tried under this token.
pub async fn has_token(tx: &mut Tx, id: DeliveryId, token: &str) -> Result<bool> {
    Ok(tx.row(&HAS_TOKEN, params![id, token]).await?.count(0)? > 0)
}
