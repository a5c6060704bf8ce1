//! Templates of a collection's messages: text with the item's fields in it. They are tenants' texts, so they run without files, without other
//! templates, and with bounds on their steps and on what they make.

use std::io::{self, Write};

use docket_core::notify::{BODY_MAX, SUBJECT_MAX};
use docket_core::{Refusal, Refused};
use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

/// Steps that a template may take.
const FUEL: u64 = 50_000;

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_fuel(Some(FUEL));
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.add_filter("upper", minijinja::filters::upper);
    environment.add_filter("lower", minijinja::filters::lower);
    environment.add_filter("title", minijinja::filters::title);
    environment.add_filter("trim", minijinja::filters::trim);
    environment.add_filter("default", minijinja::filters::default);
    environment.add_filter("length", minijinja::filters::length);
    environment.add_filter("join", minijinja::filters::join);
    environment.add_filter("items", minijinja::filters::items);
    environment.add_filter("round", minijinja::filters::round);
    environment.add_test("defined", minijinja::tests::is_defined);
    environment.add_test("none", minijinja::tests::is_none);
    environment
}

/// What a template may do: choose and repeat. Whatever keeps a value, or joins texts into longer ones, could make gigabytes in a few steps.
const STATEMENTS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];

/// Refuses what could make more than it shows.
fn check(path: &'static str, template: &str) -> Refused<()> {
    let mut rest = template;
    while let Some(begin) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
        let (is_statement, inside) = (rest[begin..].starts_with("{%"), &rest[begin + 2..]);
        let end = inside
            .find(if is_statement { "%}" } else { "}}" })
            .unwrap_or(inside.len());
        let tag = &inside[..end];
        if tag.contains(['~', '*']) {
            return Err(Refusal::invalid(
                path,
                "the operators ~ and * are not taken in a template",
            ));
        }
        let words = tag.trim_start_matches(['-', '+']);
        let word = words.split_whitespace().next().unwrap_or_default();
        if is_statement && !STATEMENTS.contains(&word) {
            let problem = format!("a template takes {{% if %}} and {{% for %}}, not {{% {word} %}}");
            return Err(Refusal::invalid(path, problem));
        }
        rest = &inside[end..];
    }
    Ok(())
}

/// Takes text up to a bound.
struct Bounded {
    text: Vec<u8>,
    max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > self.max {
            return Err(io::Error::other(format!("it makes more than {} bytes", self.max)));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a template says with these values.
pub(crate) fn render(path: &'static str, template: &str, values: &Value) -> Refused<String> {
    let max = if path == "subject" {
        SUBJECT_MAX * 4
    } else {
        BODY_MAX
    };
    let refused = |error: minijinja::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let problem = format!(
            "the template cannot be used: {error:#}{}",
            cause.unwrap_or_default()
        );
        Refusal::invalid(path, problem.lines().next().unwrap_or_default().to_owned())
    };
    check(path, template)?;
    let environment = environment();
    let compiled = environment
        .template_from_named_str(path, template)
        .map_err(refused)?;
    let mut out = Bounded {
        text: Vec::new(),
        max,
    };
    compiled.render_captured_to(values, &mut out).map_err(refused)?;
    Ok(String::from_utf8_lossy(&out.text).into_owned())
}

/// A subject is one line, whatever the fields hold.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    line.chars().take(SUBJECT_MAX).collect()
}

/// A body is text, whatever the fields hold.
pub(crate) fn plain(text: &str) -> String {
    let allowed = |c: &char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().filter(allowed).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(template: &str) -> Refused<String> {
        let values = json!({ "item": { "id": "i-1", "fields": { "total": 12.5, "name": "<b>Ann</b>" } }, "outcome": "approved" });
        render("body", template, &values)
    }

    #[test]
    fn a_template_has_the_items_fields_and_does_not_mind_what_is_missing() {
        for (template, text) in [
            ("{{ item.fields.total }} {{ outcome|upper }}", "12.5 APPROVED"),
            ("{{ item.fields.name }}", "<b>Ann</b>"),
            ("[{{ item.nothing.there }}]", "[]"),
            (
                "{% for name, value in item.fields|items %}{{ name }} {% endfor %}",
                "name total ",
            ),
            ("{% if outcome == 'approved' %}yes{% endif %}", "yes"),
        ] {
            assert_eq!(body(template).as_deref(), Ok(text), "{template}");
        }
    }

    #[test]
    fn a_template_that_loops_reaches_out_or_makes_too_much_is_refused() {
        let values = json!({ "list": vec![1; 1_000], "text": "x".repeat(10_000) });
        for template in [
            "{% for a in list %}{% for b in list %}{% for c in list %}{% endfor %}{% endfor %}{% endfor %}",
            "{% for a in list %}{{ text }}{% endfor %}",
            "{% for a in range(100000) %}{% endfor %}",
            "{% set a = text %}",
            "{%- with a = text %}{% endwith %}",
            "{{ text ~ text }}",
            "{{ 'x' * 100000 }}",
            "{% include 'x' %}",
            "{% import 'x' as x %}",
            "{% extends 'x' %}",
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "{{ item.id",
            "{{ item.id|unknown }}",
            "{{ env('HOME') }}",
        ] {
            let refused = render("body", template, &values).unwrap_err();
            assert_eq!(refused.code(), "validation_failed", "{template}");
        }
        assert_eq!(
            render("body", "a * b ~ c", &values).as_deref(),
            Ok("a * b ~ c"),
            "text is text"
        );
    }

    #[test]
    fn a_subject_is_one_line_and_a_body_is_text() {
        assert_eq!(one_line("a\r\nBcc: b\0 c"), "a Bcc: b c");
        assert_eq!(one_line(&"x".repeat(2_000)).len(), SUBJECT_MAX);
        assert_eq!(plain("a\u{1b}[2J\nb\0"), "a[2J\nb");
    }
}
