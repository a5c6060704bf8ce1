//! MongoDB's extended JSON, as `mongoexport` writes it, made plain: canonical, relaxed and the older forms. What JSON has no word for
//! becomes text that a person would write.
//!
//! Only an object whose every key is of the notation is one; anything else is data and stays as it is.

use docket_client::wire::Time;
use docket_core::Timestamp;
use serde_json::{Map, Number, Value, json};

use super::reading::shortened;

/// From here on two decimal numbers may be the same number of JSON's.
const EXACT_DIGITS: usize = 15;

/// A value without the notation; what is wrong where it is used wrongly.
pub(super) fn plain(value: Value) -> Result<Value, String> {
    Ok(match value {
        Value::Object(map) => return plain_object(map),
        Value::Array(values) => Value::Array(values.into_iter().map(plain).collect::<Result<_, _>>()?),
        other => other,
    })
}

fn plain_object(map: Map<String, Value>) -> Result<Value, String> {
    if let Some(key) = map.keys().next().filter(|key| key.starts_with('$'))
        && let Some(read) = notation(key, &map)
    {
        return read.ok_or_else(|| {
            format!(
                "{} is no {key} of extended JSON",
                shortened(&Value::Object(map.clone()))
            )
        });
    }
    let mut made = Map::new();
    for (name, value) in map {
        made.insert(name, plain(value)?);
    }
    Ok(Value::Object(made))
}

/// The value that an object of the notation stands for; none where it is no such object, and no value where it is a wrong one.
/// Keys come sorted, so that the first of several is known.
fn notation(first: &str, map: &Map<String, Value>) -> Option<Option<Value>> {
    let value = map.get(first)?;
    match (first, map.len()) {
        (_, 1) => {}
        ("$code", 2) if map.contains_key("$scope") => return Some(text(value)),
        ("$binary", 2) if map.contains_key("$type") => return Some(text(value)),
        ("$options", 2) if map.contains_key("$regex") => {
            let both = map["$regex"].as_str().zip(value.as_str());
            return Some(both.map(|(pattern, options)| json!(format!("/{pattern}/{options}"))));
        }
        _ => return None,
    }
    Some(match first {
        "$oid" | "$uuid" | "$symbol" | "$code" => text(value),
        "$date" => date(value),
        "$numberInt" | "$numberLong" => value.as_str().and_then(whole),
        "$numberDouble" => value.as_str().and_then(double),
        "$numberDecimal" => value.as_str().and_then(decimal),
        "$binary" => binary(value),
        "$timestamp" => value
            .get("t")
            .and_then(Value::as_i64)
            .and_then(|seconds| moment(seconds.checked_mul(1_000)?)),
        "$regularExpression" => regular_expression(value),
        "$undefined" => Some(Value::Null),
        "$minKey" => Some(json!("MinKey")),
        "$maxKey" => Some(json!("MaxKey")),
        _ => return None,
    })
}

fn text(value: &Value) -> Option<Value> {
    value.is_string().then(|| value.clone())
}

fn whole(digits: &str) -> Option<Value> {
    digits.parse::<i64>().ok().map(Value::from)
}

/// Infinite and undefined numbers have no word in JSON; their names are kept.
fn double(digits: &str) -> Option<Value> {
    match digits {
        "Infinity" | "-Infinity" | "NaN" => Some(json!(digits)),
        digits => Number::from_f64(digits.parse().ok()?).map(Value::Number),
    }
}

/// A number where JSON's numbers hold it exactly, and else the text as it is: an amount is never rounded.
fn decimal(digits: &str) -> Option<Value> {
    if matches!(digits, "Infinity" | "-Infinity" | "NaN") {
        return Some(json!(digits));
    }
    let number: f64 = digits.parse().ok()?;
    let mantissa = digits.split(['e', 'E']).next().unwrap_or(digits);
    let significant = mantissa.chars().filter(char::is_ascii_digit).collect::<String>();
    let significant = significant.trim_matches('0');
    let vanished = number == 0.0 && !significant.is_empty();
    if significant.len() > EXACT_DIGITS || vanished || !number.is_finite() {
        return Some(json!(digits));
    }
    Number::from_f64(number).map(Value::Number)
}

/// `{"$date": "…"}` in relaxed form, `{"$date": {"$numberLong": "…"}}` in canonical, a number of milliseconds in the oldest.
fn date(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => Some(json!(text.parse::<Time>().ok()?.to_string())),
        Value::Number(ms) => moment(ms.as_i64()?),
        Value::Object(map) => moment(map.get("$numberLong")?.as_str()?.parse().ok()?),
        _ => None,
    }
}

fn moment(ms: i64) -> Option<Value> {
    let at = Timestamp::from_ms(ms);
    let time = Time::from(at);
    // Years that RFC 3339 cannot write would be moved to its ends.
    (time.timestamp() == at).then(|| json!(time.to_string()))
}

/// Base64 as it is, or a UUID in its own notation.
fn binary(value: &Value) -> Option<Value> {
    let base64 = match value {
        Value::String(_) => value,
        other => other.get("base64")?,
    };
    text(base64)
}

fn regular_expression(value: &Value) -> Option<Value> {
    let part = |name| value.get(name).and_then(Value::as_str);
    Some(json!(format!("/{}/{}", part("pattern")?, part("options")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_extended_json_becomes_plain() {
        for (extended, expected) in [
            (
                json!({"$oid": "5d505646cf6d4fe581014ab2"}),
                json!("5d505646cf6d4fe581014ab2"),
            ),
            // Dates: relaxed, canonical, before 1970, and as older tools wrote them.
            (
                json!({"$date": "2026-03-01T09:30:00.5Z"}),
                json!("2026-03-01T09:30:00.500Z"),
            ),
            (
                json!({"$date": "2026-03-01T09:30:00+02:00"}),
                json!("2026-03-01T07:30:00.000Z"),
            ),
            (
                json!({"$date": {"$numberLong": "1790000000000"}}),
                json!("2026-09-21T14:13:20.000Z"),
            ),
            (
                json!({"$date": {"$numberLong": "-1"}}),
                json!("1969-12-31T23:59:59.999Z"),
            ),
            (
                json!({"$date": 1_790_000_000_000_i64}),
                json!("2026-09-21T14:13:20.000Z"),
            ),
            (json!({"$numberInt": "-42"}), json!(-42)),
            (json!({"$numberLong": "9223372036854775807"}), json!(i64::MAX)),
            (json!({"$numberDouble": "3.25"}), json!(3.25)),
            (json!({"$numberDouble": "1.0E+3"}), json!(1000.0)),
            (json!({"$numberDouble": "NaN"}), json!("NaN")),
            (json!({"$numberDouble": "-Infinity"}), json!("-Infinity")),
            // A decimal that no JSON number holds exactly keeps its digits.
            (json!({"$numberDecimal": "1234.50"}), json!(1234.5)),
            (json!({"$numberDecimal": "0.1"}), json!(0.1)),
            (
                json!({"$numberDecimal": "12345678901234567.89"}),
                json!("12345678901234567.89"),
            ),
            (json!({"$numberDecimal": "1E+400"}), json!("1E+400")),
            (json!({"$numberDecimal": "1E-400"}), json!("1E-400")),
            (json!({"$numberDecimal": "NaN"}), json!("NaN")),
            (
                json!({"$uuid": "3b241101-e2bb-4255-8caf-4136c566a962"}),
                json!("3b241101-e2bb-4255-8caf-4136c566a962"),
            ),
            (
                json!({"$binary": {"base64": "aGk=", "subType": "00"}}),
                json!("aGk="),
            ),
            (json!({"$binary": "aGk=", "$type": "00"}), json!("aGk=")),
            (
                json!({"$timestamp": {"t": 1_790_000_000, "i": 1}}),
                json!("2026-09-21T14:13:20.000Z"),
            ),
            (
                json!({"$regularExpression": {"pattern": "^a", "options": "i"}}),
                json!("/^a/i"),
            ),
            (json!({"$regex": "^a", "$options": "i"}), json!("/^a/i")),
            (json!({"$symbol": "s"}), json!("s")),
            (json!({"$code": "f()"}), json!("f()")),
            (json!({"$code": "f()", "$scope": {}}), json!("f()")),
            (json!({"$undefined": true}), Value::Null),
            (json!({"$minKey": 1}), json!("MinKey")),
        ] {
            assert_eq!(plain(extended.clone()).unwrap(), expected, "{extended}");
        }
    }

    #[test]
    fn it_is_found_at_any_depth_and_nothing_else_is_touched() {
        let record = json!({
            "_id": {"$oid": "5d505646cf6d4fe581014ab2"},
            "lines": [{"amount": {"$numberDecimal": "9.90"}}, 7, null],
            "price": {"$ref": "prices", "$id": {"$oid": "5d505646cf6d4fe581014ab3"}},
            "$oid": "data beside other data",
            "odd": {"$unknown": 1},
        });
        let expected = json!({
            "_id": "5d505646cf6d4fe581014ab2",
            "lines": [{"amount": 9.9}, 7, null],
            "price": {"$ref": "prices", "$id": "5d505646cf6d4fe581014ab3"},
            "$oid": "data beside other data",
            "odd": {"$unknown": 1},
        });
        assert_eq!(plain(record).unwrap(), expected);
    }

    #[test]
    fn what_is_wrongly_written_is_refused_by_its_key() {
        for wrong in [
            json!({"$oid": 5}),
            json!({"$date": "yesterday"}),
            json!({"$date": {"$numberLong": "99999999999999999"}}),
            json!({"$numberLong": "9223372036854775808"}),
            json!({"$numberInt": "1.5"}),
            json!({"$numberDecimal": "much"}),
            json!({"$timestamp": 5}),
        ] {
            let problem = plain(json!({ "deep": [wrong.clone()] })).unwrap_err();
            let key = wrong.as_object().unwrap().keys().next().unwrap();
            assert!(problem.contains(key), "{problem}");
        }
    }
}
