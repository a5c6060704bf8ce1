//! The end of it: the other side's ledger beside the rows, neither of them read by Docket.

use std::collections::BTreeSet;

use docket_testkit::Plain;
use docket_testkit::outbox_rows::{RowState, delivery_rows, logged_repeats};

use super::round::OtherSide;

/// Compares the rows about changelists whose ids begin so, which are at rest, with what the other side has.
pub(super) async fn compare(plain: &Plain, other: &impl OtherSide, prefix: &str, asked: &[String]) {
    let effects = other.effects();
    let repeats = logged_repeats(plain).await;
    let rows = delivery_rows(plain, prefix).await;
    for row in &rows {
        let had = effects.get(&row.token).copied().unwrap_or(0);
        let repeats = repeats.get(&row.token).copied().unwrap_or(0);
        assert!(row.state.is_at_rest(), "final, or for a person: {row:?}");
        assert!(
            had <= other.effects_max(repeats),
            "told {had} times, {repeats} of them logged as repeats: {row:?}"
        );
        match row.state {
            RowState::Sent => assert!(row.has_evidence && had > 0, "sent, with {had} effects: {row:?}"),
            RowState::Failed | RowState::Cancelled => assert_eq!(had, 0, "not told: {row:?}"),
            _ => {}
        }
    }
    let of_rows: BTreeSet<&str> = rows.iter().map(|row| row.changelist_id.as_str()).collect();
    let of_asked: BTreeSet<&str> = asked.iter().map(String::as_str).collect();
    assert_eq!(
        (of_rows, rows.len()),
        (of_asked, asked.len()),
        "a row for each, and no other"
    );
    // Effects of other rounds have their rows too.
    let all: BTreeSet<String> = delivery_rows(plain, "")
        .await
        .into_iter()
        .map(|row| row.token)
        .collect();
    for token in effects.keys() {
        assert!(all.contains(token), "an effect without a row: {token}");
    }
}
