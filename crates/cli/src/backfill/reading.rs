//! Single values as other systems write them: numbers as text, times without an offset or since 1970.

use docket_client::wire::Time;
use docket_core::Timestamp;
use serde_json::Value;

/// A number of seconds since 1970 is smaller than this until the year 5138, and one of milliseconds is larger since 1973.
const SECONDS_END: f64 = 1e11;
/// So much of a value is shown.
const SHOWN_MAX: usize = 60;

/// An id: a text or a number.
pub(super) fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A number, also one that is written as text.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

/// A whole number; of a list, how long it is.
pub(super) fn count(value: &Value) -> Option<u32> {
    let number = match value {
        Value::Array(values) => return u32::try_from(values.len()).ok(),
        other => number(other)?,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range was checked"
    )]
    let whole = (0.0..=f64::from(u32::MAX))
        .contains(&number)
        .then_some(number as u32)?;
    (f64::from(whole) == number).then_some(whole)
}

/// A time: RFC 3339; the same without an offset, which is taken for UTC; a day; or seconds or milliseconds since 1970.
pub(super) fn time(value: &Value) -> Option<Time> {
    match value {
        Value::String(text) => {
            let text = text.trim();
            let written = [text.to_owned(), format!("{text}Z"), format!("{text}T00:00:00Z")];
            written.iter().find_map(|text| text.parse().ok())
        }
        Value::Number(number) => {
            let number = number.as_f64()?;
            let ms = if number.abs() < SECONDS_END {
                number * 1_000.0
            } else {
                number
            };
            #[expect(
                clippy::cast_possible_truncation,
                reason = "what is beyond is moved to the end"
            )]
            let at = Timestamp::from_ms(ms as i64);
            Some(at.into())
        }
        _ => None,
    }
}

/// The beginning of a value.
pub(super) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_read_from_numbers_and_from_text() {
        for (value, expected) in [
            (json!(12.5), Some(12.5)),
            (json!(" 1234.50 "), Some(1234.5)),
            (json!("NaN"), None),
            (json!("1e999"), None),
            (json!("12,50"), None),
            (json!(true), None),
            (json!([1]), None),
        ] {
            assert_eq!(number(&value), expected, "{value}");
        }
    }

    #[test]
    fn a_count_is_whole_and_a_list_is_counted() {
        for (value, expected) in [
            (json!(3), Some(3)),
            (json!("3"), Some(3)),
            (json!(3.0), Some(3)),
            (json!([{}, {}]), Some(2)),
            (json!([]), Some(0)),
            (json!(3.5), None),
            (json!(-1), None),
            (json!(5_000_000_000_u64), None),
            (json!({}), None),
        ] {
            assert_eq!(count(&value), expected, "{value}");
        }
    }

    #[test]
    fn times_are_read_as_other_systems_write_them() {
        let expected = Time::from(Timestamp::from_ms(1_790_000_000_000));
        for value in [
            json!("2026-09-21T14:13:20Z"),
            json!("2026-09-21T16:13:20+02:00"),
            json!("2026-09-21T14:13:20"),
            json!("2026-09-21 14:13:20"),
            json!("2026-09-21 14:13:20+00"),
            json!(1_790_000_000),
            json!(1_790_000_000_000_i64),
        ] {
            assert_eq!(time(&value), Some(expected), "{value}");
        }
        assert_eq!(
            time(&json!("2026-09-21")).map(|time| time.to_string()).as_deref(),
            Some("2026-09-21T00:00:00.000Z")
        );
        for value in [json!("soon"), json!(""), json!({}), json!("infinity")] {
            assert_eq!(time(&value), None, "{value}");
        }
    }

    #[test]
    fn ids_are_texts_or_numbers() {
        assert_eq!(id(&json!("a")).as_deref(), Some("a"));
        assert_eq!(id(&json!(7)).as_deref(), Some("7"));
        for value in [json!(""), json!({"a": 1}), json!([1]), json!(true)] {
            assert_eq!(id(&value), None, "{value}");
        }
    }
}
