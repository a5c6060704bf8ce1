//! What the worst templates cost. Each has to come to its end by a bound; how long that took is shown and not asserted. On a build as it is
//! served:
//!
//!     cargo test --release -p docket-engine --lib worst -- --nocapture

#![expect(clippy::disallowed_methods, reason = "a measurement takes real time")]

use std::time::Instant;

use serde_json::{Value, json};

use super::{FUEL, render};

/// As much as a payload may have.
const LARGE: usize = 1 << 20;
/// More names than a template may be given, and nearly as many as it may.
const NAMES: [usize; 2] = [LARGE / 14, 9_000];

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// A map of so many names.
fn names(count: usize) -> Value {
    (0..count).map(|n| (format!("n{n:06}"), json!(n))).collect()
}

/// A loop without end, as far as steps go.
fn each(what: &str) -> String {
    format!("{{% for a in steps %}}{{% for b in steps %}}{what}{{% endfor %}}{{% endfor %}}")
}

/// What is looked at in each of its steps, for which of the payloads.
fn steps() -> Vec<(&'static str, String, Value)> {
    let (long, tail) = (text(990), text(LARGE / 4));
    let with = |what: &str| format!("{{% if {what} %}}{{% endif %}}");
    let fixed = vec!["'approvee'"; 32].join(",");
    let texts: Vec<String> = (0..32).map(|_| format!("'{long}'")).collect();
    let keys = json!({ "a": { (format!("{tail}a")): 1, (format!("{tail}b")): 1 }, "k": format!("{tail}c") });
    vec![
        ("nothing", String::new(), json!({})),
        ("a look-up", with("item.payload.n008999"), names(NAMES[1])),
        (
            "a comparison",
            with(&format!("item.payload < '{long}'")),
            json!(format!("{long}y")),
        ),
        ("a long name", with("item.payload.a[item.payload.k|trim]"), keys),
        ("a short list", with(&format!("outcome in [{fixed}]")), json!({})),
        (
            "a list of long texts",
            with(&format!("item.payload in [{}]", texts.join(","))),
            json!(format!("{}y", text(989))),
        ),
        ("items", with("item.payload|items"), names(NAMES[1])),
        (
            "a join of nothing",
            with("item.payload|join"),
            json!(vec![""; 9_000]),
        ),
        (
            "a join of numbers",
            with("item.payload|join"),
            json!(vec![1.5; 9_000]),
        ),
        (
            "a title",
            with("item.payload|title"),
            json!("ß x".repeat(LARGE / 64)),
        ),
        (
            "capitals",
            with("item.payload|upper"),
            json!("ß".repeat(LARGE / 16)),
        ),
        ("a length", with("item.payload|length > 1"), json!(text(1_000))),
        (
            "all of it as text",
            with("item.payload|trim"),
            json!(vec![json!([]); 9_000]),
        ),
    ]
}

fn cases() -> Vec<(&'static str, String, Value)> {
    let mut cases: Vec<_> = steps()
        .into_iter()
        .map(|(name, what, payload)| (name, each(&what), payload))
        .collect();
    let shows = |what: &str| format!("{{{{ {what} }}}}");
    cases.extend([
        (
            "a payload that is not named",
            shows("outcome"),
            json!(vec![json!([]); LARGE / 3]),
        ),
        (
            "one name of a large payload",
            shows("item.payload.n000001"),
            names(NAMES[0]),
        ),
        (
            "a payload that is too large",
            shows("item.payload"),
            names(NAMES[0]),
        ),
        ("a payload as text", shows("item.payload"), names(NAMES[1])),
        (
            "a payload of lists as text",
            shows("item.payload"),
            json!(vec![json!([]); 9_000]),
        ),
        ("many tags", "{{a.b}}".repeat(5_000), json!({})),
        ("too many tags", "{{a}}".repeat(50_000), json!({})),
    ]);
    cases
}

#[test]
fn the_worst_that_a_template_can_do_is_bounded() {
    for (name, template, payload) in cases() {
        let (room, all) = (vec![0; 100], template.contains("steps"));
        let values = json!({ "item": { "payload": payload }, "outcome": "approved", "steps": room });
        let begin = Instant::now();
        let came = render("body", &template, &values);
        let took_ms = begin.elapsed().as_secs_f64() * 1_000.0;
        let said = came
            .as_ref()
            .map_or_else(ToString::to_string, |text| format!("{} bytes", text.len()));
        println!(
            "{took_ms:>8.1} ms  {name}: {}",
            said.chars().take(120).collect::<String>()
        );
        assert!(!all || came.is_err(), "{name} takes no more than {FUEL} steps");
    }
}
