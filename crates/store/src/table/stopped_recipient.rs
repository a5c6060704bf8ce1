//! Recipients that have said that they want nothing more.

use docket_core::Timestamp;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    INSERT = portable "stopped_recipient_insert" "
insert into stopped_recipient (owner, recipient, since_ms, words) values ($1, $2, $3, $4)
on conflict (owner, recipient) do nothing";
    DELETE = portable "stopped_recipient_delete" "delete from stopped_recipient where owner = $1 and recipient = $2";
}

/// Notes that a recipient wants nothing more. Whether that is new.
pub async fn insert(tx: &mut Tx, owner: &str, recipient: &str, words: &str, now: Timestamp) -> Result<bool> {
    Ok(tx.execute(&INSERT, params![owner, recipient, now, words]).await? > 0)
}

/// The recipient takes messages again. Whether it had been stopped.
pub async fn delete(tx: &mut Tx, owner: &str, recipient: &str) -> Result<bool> {
    Ok(tx.execute(&DELETE, params![owner, recipient]).await? > 0)
}
