//! The committed document is what the code serves.

use std::collections::BTreeSet;
use std::path::Path;

use docket_server::openapi::document_text;
use serde_json::Value;

#[test]
fn the_committed_document_is_what_is_served() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi.json");
    let served = document_text();
    if std::env::var_os("DOCKET_WRITE_OPENAPI").is_some() {
        std::fs::write(&file, &served).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == served,
        "openapi.json is not what the code serves; write it anew by\n    \
         DOCKET_WRITE_OPENAPI=1 cargo test -p docket-server --test http\nand look at what changed"
    );
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                found.insert(reference.clone());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn the_document_is_whole() {
    let document: Value = serde_json::from_str(&document_text()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} is not there");
    }
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is there twice");
            assert!(operation["summary"].is_string(), "{method} {path} has no summary");
            let open = !path.starts_with("/api/") && !path.starts_with("/internal/");
            let statuses = operation["responses"].as_object().unwrap();
            let expected: &[&str] = if open {
                &["500"]
            } else {
                &["401", "403", "422", "429", "500", "503"]
            };
            assert!(
                expected.iter().all(|status| statuses.contains_key(*status)),
                "{method} {path}"
            );
            for (status, response) in statuses {
                assert!(
                    !response["description"].as_str().unwrap().is_empty(),
                    "{method} {path} {status}"
                );
            }
        }
    }
}
