//! Templates of a collection's messages: text with the item's fields in it. They are tenants' texts, so they run without files, without other
//! templates and without functions, and with bounds on their steps (`FUEL`), on what they show (`Bounded`), on what they make on the way
//! (`filter`), on what they look at (`given`) and on what they may say at all (`grammar`). They run while a decision is recorded:
//! `worst_tests` shows what the worst of them cost.

mod filter;
mod given;
mod grammar;
#[cfg(test)]
mod worst_tests;

use std::io::{self, Write};

use docket_core::notify::{BODY_MAX, SUBJECT_MAX};
use docket_core::{Refusal, Refused};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, escape_formatter};
use serde_json::Value;

/// Steps that a template may take.
const FUEL: u64 = 25_000;
/// How much is said of what is wrong with a template, in characters.
const PROBLEM_MAX: usize = 400;

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_fuel(Some(FUEL));
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // What is null is as if it were not there.
    environment.set_formatter(|out, state, value| match value.is_none() {
        true => Ok(()),
        false => escape_formatter(out, state, value),
    });
    filter::add_to(&mut environment);
    environment
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

fn refused(path: &'static str, problem: &str) -> Refusal {
    let line = problem.lines().next().unwrap_or_default();
    let words: String = line.chars().take(PROBLEM_MAX).collect();
    Refusal::invalid(path, format!("the template cannot be used: {words}"))
}

/// What a template says with these values.
pub(crate) fn render(path: &'static str, template: &str, values: &Value) -> Refused<String> {
    let max = if path == "subject" {
        SUBJECT_MAX * 4
    } else {
        BODY_MAX
    };
    grammar::check(path, template).map_err(|problem| refused(path, &problem))?;
    let unfit = |error: minijinja::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        refused(path, &format!("{error}{}", cause.unwrap_or_default()))
    };
    let environment = environment();
    let compiled = environment
        .template_from_named_str(path, template)
        .map_err(unfit)?;
    let mut out = Bounded {
        text: Vec::new(),
        max,
    };
    let given = given::given(values, compiled.undeclared_variables(true)).ok_or_else(|| {
        let words = format!("what it names has more than {} values", given::VALUES_MAX);
        refused(path, &words)
    })?;
    compiled.render_captured_to(given, &mut out).map_err(unfit)?;
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
        let values = json!({ "item": { "id": "i-1", "fields": { "total": 12.5, "name": "<b>Ann</b>" } }, "outcome": "approved", "reason": null });
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
    fn a_filter_takes_whatever_a_field_holds() {
        for (template, text) in [
            ("{{ item.fields.name|lower|title }}", "<B>Ann</B>"),
            (
                "{{ item.fields.total|round }} {{ item.fields.name|round }}",
                "13.0 <b>Ann</b>",
            ),
            ("{{ item.fields|length }} {{ outcome|length }}", "2 8"),
            (
                "{{ [1, 'b']|join(', ') }} {{ outcome|join('-') }}",
                "1, b a-p-p-r-o-v-e-d",
            ),
            ("{{ reason|default('no reason') }}{{ reason }}", "no reason"),
            ("{{ '  x '|trim|upper }}", "X"),
            (
                "[{{ missing|upper }}{{ missing|round(2) }}{{ missing|join(',') }}{{ missing|trim }}{{ reason|title }}]",
                "[]",
            ),
            ("{{ missing|length }} {{ item.fields.total|length }}", "0 4"),
            ("{% for a, b in outcome|items %}{{ a }}{% endfor %}", ""),
            ("{{ item.fields.total|join(',') }}", "12.5"),
            (
                "{{ outcome in ['approved', 'rejected'] and 'ann' in item.fields.name|lower }}",
                "True",
            ),
            (
                "{{ item.id|trim == item.id and not -1 > item.fields.total }}",
                "True",
            ),
            ("{{ 'a' if 1 < item.fields.total < 100 else 'b' }}", "a"),
            ("{{ '}}' }}{# {{ #}{% raw %}{% set %}{% endraw %}", "}}{% set %}"),
        ] {
            assert_eq!(body(template).as_deref(), Ok(text), "{template}");
        }
    }

    #[test]
    fn a_template_that_loops_reaches_out_or_makes_too_much_is_refused() {
        let values = json!({ "list": vec![1; 1_000], "text": "x".repeat(10_000), "map": { "a": 1 } });
        for (template, said) in [
            (
                "{% for a in list %}{% for b in list %}{% for c in list %}{% endfor %}{% endfor %}{% endfor %}",
                "fuel",
            ),
            (
                "{% for a in list %}{{ text }}{% endfor %}",
                "more than 262144 bytes",
            ),
            (
                "{% for a in list %}{% if text|upper %}{% endif %}{% endfor %}",
                "more than 524288 bytes",
            ),
            (
                "{% for a in list %}{% if list|join(text) == 'x' %}{% endif %}{% endfor %}",
                "more than 524288 bytes",
            ),
            (
                "{% for a in list %}{% if text|length > 1 %}{% endif %}{% endfor %}",
                "more than 524288 bytes",
            ),
            ("{% for a in range(100000) %}{% endfor %}", "call functions"),
            ("{{ env('HOME') }}", "call functions"),
            (
                "{% for a in list recursive %}{{ loop(list) }}{% endfor %}",
                "recursive",
            ),
            ("{% set a = text %}", "not {% set %}"),
            ("{% set a %}{{ text }}{% endset %}", "not {% set %}"),
            ("{%- with a = text %}{% endwith %}", "not {% with %}"),
            ("{% filter upper %}{{ text }}{% endfilter %}", "not {% filter %}"),
            ("{% include 'x' %}", "unknown statement include"),
            ("{% import 'x' as x %}", "unknown statement import"),
            ("{% extends 'x' %}", "unknown statement extends"),
            (
                "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                "unknown statement macro",
            ),
            ("\n\n{{ text ~ text }}", "line 3: it can compare"),
            ("{{ text + text }}", "cannot calculate or join"),
            ("{{ 'x' * 100000 }}", "cannot calculate or join"),
            ("{{ 2 ** 100 }}", "cannot calculate or join"),
            ("{{ list[::-1] }}", "part of a value"),
            ("{{ [text, text] }}", "fixed texts"),
            ("{{ {'a': text} }}", "make a map"),
            ("{{ map == list }}", "a comparison needs"),
            ("{{ 1 < map < list }}", "a comparison needs"),
            ("{{ text in text }}", "`in` needs"),
            ("{{ map in 'x' }}", "`in` needs"),
            ("{{ text|replace('x', text) }}", "there are upper"),
            ("{{ text|join(d=text) }}", "by their place"),
            ("{{ text|join(*list) }}", "by their place"),
            ("{{ text is containing(text) }}", "there are defined"),
            ("{{ item.id", "end of input"),
            ("{{ map[text] }}", "what stands in [ ] needs"),
            (
                "{{ text in [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0] }}",
                "at most 32 fixed texts",
            ),
        ] {
            let refused = render("body", template, &values).unwrap_err();
            assert_eq!(refused.code(), "validation_failed", "{template}");
            assert!(refused.to_string().contains(said), "{template}: {refused}");
        }
        assert_eq!(
            render("body", "a * b ~ c", &values).as_deref(),
            Ok("a * b ~ c"),
            "text is text"
        );
    }

    /// Each makes gigabytes within a few hundred steps if it gets by.
    #[test]
    fn nothing_is_hidden_from_the_check() {
        let grown = |inner: &str| {
            let levels: String = (0..9)
                .map(|level| {
                    format!(
                        "{{% for a{} in [{}] %}}",
                        level + 1,
                        vec![format!("a{level}"); 10].join(inner)
                    )
                })
                .collect();
            format!(
                "{{% for a0 in ['x'] %}}{levels}{{{{ a9|length }}}}{}",
                "{% endfor %}".repeat(10)
            )
        };
        for template in [
            grown("+"),
            grown("~"),
            grown(","),
            "{{ '}}' ~ item.id }}".to_owned(),
            "{{ \"%}\" ~ item.id }}".to_owned(),
            "{# {{ #}{% set a = item.id %}{# }} #}".to_owned(),
            "{# {% if #}{{ item.id * 100 }}{# %} #}".to_owned(),
            "{% raw %}{{{% endraw %}{% set a = 1 %}".to_owned(),
            "{% if item.id == '%}' ~ item.id %}{% endif %}".to_owned(),
            "{%-\n\tset a = 1 -%}".to_owned(),
            "{{ item[item.id ~ item.id] }}".to_owned(),
            "{{ item.id|default(item.id ~ item.id) }}".to_owned(),
            "{% for a in item.fields|items if a ~ a %}{% endfor %}".to_owned(),
            "{% for a in item %}{% else %}{{ 'a' ~ 'b' }}{% endfor %}".to_owned(),
            "{% if item %}{% elif item ~ item %}{% endif %}".to_owned(),
        ] {
            assert!(body(&template).is_err(), "{template}");
        }
    }

    /// The parser calls itself: what is too deep would end the process.
    #[test]
    fn a_template_is_not_deeper_than_the_stack() {
        let many = 20_000;
        for template in [
            format!("{{{{ {}1 }}}}", "not ".repeat(many)),
            format!("{{{{ {}1 }}}}", "-".repeat(many)),
            format!("{{{{ {}1{} }}}}", "(".repeat(many), ")".repeat(many)),
            format!("{{{{ a{} }}}}", ".b".repeat(many)),
            format!("{{{{ a{} }}}}", "|trim".repeat(many)),
            format!("{{{{ a{} }}}}", " and a".repeat(many)),
            format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(many)),
            format!("{}{}", "{% if a %}".repeat(many), "{% endif %}".repeat(many)),
        ] {
            let refused = body(&template).unwrap_err().to_string();
            assert!(refused.contains("at most"), "{refused}");
        }
        let lines = "\n{{ item.id }}".repeat(5_000);
        assert!(body(&lines).is_ok(), "long is not deep");
    }

    #[test]
    fn a_subject_is_one_line_and_a_body_is_text() {
        assert_eq!(one_line("a\r\nBcc: b\0 c"), "a Bcc: b c");
        assert_eq!(one_line(&"x".repeat(2_000)).len(), SUBJECT_MAX);
        assert_eq!(plain("a\u{1b}[2J\nb\0"), "a[2J\nb");
    }
}
