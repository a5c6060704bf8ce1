//! What a template is given: what it names of an item's values and nothing else, so that a large payload costs those nothing that do not
//! look at it; and no more than a bound, as each value has its price before the first step.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// How many values a template may name, members and elements among them.
pub(super) const VALUES_MAX: usize = 10_000;

/// Those of the values that these names lead to, as `item.fields.total` does; none where they are too many.
pub(super) fn given(values: &Value, names: impl IntoIterator<Item = String>) -> Option<Value> {
    let names: BTreeSet<String> = names.into_iter().collect();
    let (mut given, mut left) = (Map::new(), VALUES_MAX);
    for name in &names {
        let is_part_of_another = name
            .match_indices('.')
            .any(|(end, _)| names.contains(&name[..end]));
        let found = name.split('.').try_fold(values, |value, part| value.get(part));
        let Some(found) = found.filter(|_| !is_part_of_another) else {
            continue;
        };
        left -= count(found, left)?;
        put(&mut given, name, found.clone());
    }
    Some(Value::Object(given))
}

/// How many values it is; none where it is more than so many.
fn count(value: &Value, max: usize) -> Option<usize> {
    let (mut count, mut open) = (1, vec![value]);
    while let Some(next) = open.pop() {
        count += next.as_array().map_or(0, Vec::len) + next.as_object().map_or(0, Map::len);
        if count > max {
            return None;
        }
        match next {
            Value::Array(all) => open.extend(all),
            Value::Object(all) => open.extend(all.values()),
            _ => {}
        }
    }
    (count <= max).then_some(count)
}

fn put(into: &mut Map<String, Value>, name: &str, value: Value) {
    let Some((first, rest)) = name.split_once('.') else {
        into.insert(name.to_owned(), value);
        return;
    };
    let inner = into.entry(first).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(inner) = inner {
        put(inner, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_is_given_what_it_names() {
        let values = json!({ "item": { "id": "i", "fields": { "a": 1, "b": [1, 2] }, "payload": { "x": { "y": null } } }, "reason": "r" });
        for (names, expected) in [
            (
                vec!["item.fields.a", "reason"],
                json!({ "item": { "fields": { "a": 1 } }, "reason": "r" }),
            ),
            (
                vec!["item.fields", "item.fields.a"],
                json!({ "item": { "fields": { "a": 1, "b": [1, 2] } } }),
            ),
            (
                vec!["item.payload.x.y", "item.id"],
                json!({ "item": { "id": "i", "payload": { "x": { "y": null } } } }),
            ),
            (vec!["item", "item.id"], json!({ "item": values["item"] })),
            (
                vec!["nothing", "item.nothing", "item.id.nothing", "reason.x"],
                json!({}),
            ),
        ] {
            let names = names.into_iter().map(str::to_owned);
            assert_eq!(given(&values, names), Some(expected));
        }
    }

    #[test]
    fn what_is_named_has_a_bound_and_the_rest_has_none() {
        let many = |count: usize| json!({ "list": vec![0; count], "deep": vec![vec![0; 9]; count / 10], "small": 1 });
        let named = |values: &Value, name: &str| given(values, [name.to_owned()]).is_some();
        let most = many(VALUES_MAX - 1);
        assert!(named(&most, "list") && named(&most, "deep") && !named(&many(VALUES_MAX), "list"));
        assert!(!named(&many(VALUES_MAX + 10), "deep") && named(&many(VALUES_MAX * 10), "small"));
        let empty = json!({ "lists": vec![json!([]); VALUES_MAX - 1], "more": vec![json!({}); VALUES_MAX] });
        assert!(named(&empty, "lists") && !named(&empty, "more"));
        let both = ["list".to_owned(), "small".to_owned()];
        assert_eq!(given(&most, both), None, "all that is named counts together");
    }
}
