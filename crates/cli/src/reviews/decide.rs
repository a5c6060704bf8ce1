//! `docket reviews decide`: one decision.

use std::process::ExitCode;

use anyhow::Result;
use docket_client::wire::collection::ReviewOutcome;
use docket_client::wire::json as wire_json;
use docket_client::wire::review::{Decision, FieldCorrection};
use docket_core::lease::LeaseToken;
use serde_json::Value;

use super::{each, review_id, words};
use crate::remote::{Session, moment};

/// What `docket reviews decide` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The review
    id: String,
    /// What is decided: approved, corrected, rejected
    #[arg(value_parser = super::word::<ReviewOutcome>)]
    outcome: ReviewOutcome,
    /// Why; a rejection needs it
    #[arg(long)]
    reason: Option<String>,
    /// A corrected field and its right value, as JSON or else as text: total=12.5, vendor='Acme Corp', code='"007"'
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = correction)]
    corrections: Vec<FieldCorrection>,
    /// The token that the pop gave; whatever hold you have counts where it is left out
    #[arg(long)]
    token: Option<i64>,
}

fn correction(text: &str) -> Result<FieldCorrection, String> {
    let (field, value) = text
        .split_once('=')
        .ok_or_else(|| "needs a field and a value, as total=12.5".to_owned())?;
    // A number that would be rounded stays what it is as text.
    let value = wire_json::read(value.as_bytes()).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok(FieldCorrection {
        field: field.to_owned(),
        value,
    })
}

pub(super) async fn run(session: &Session, args: &Args) -> Result<ExitCode> {
    let decision = Decision {
        queue_id: review_id(&args.id)?.uuid(),
        generation_id: None,
        lease_token: args.token.map(LeaseToken),
        outcome: args.outcome,
        reason: args.reason.clone(),
        corrections: args.corrections.clone(),
    };
    let answers = session.client.review_commit(vec![decision]).await?;
    each(
        session,
        std::slice::from_ref(&args.id),
        &answers,
        |id, decided| {
            let status = words::status(decided.status);
            match decided.repeated {
                true => format!("Review {id} was {status} already, by you: nothing was changed."),
                false => format!(
                    "Review {id} is {status}.\nUntil {} you can take that back with: docket reviews undo {id}",
                    moment(decided.undo_until)
                ),
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_json_where_it_can_be_and_text_else() {
        for (text, field, value) in [
            ("total=12.5", "total", json!(12.5)),
            ("vendor=Acme Corp", "vendor", json!("Acme Corp")),
            ("zip=01234", "zip", json!("01234")),
            ("code=\"7\"", "code", json!("7")),
            ("note=a=b", "note", json!("a=b")),
            ("gone=null", "gone", json!(null)),
        ] {
            let read = correction(text).unwrap();
            assert_eq!((read.field.as_str(), read.value), (field, value), "{text}");
        }
        assert!(correction("total").is_err());
    }
}
