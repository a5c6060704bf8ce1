//! What a command says on its standard output, read strictly and without side effects.
//!
//! A line that is a JSON object with a `step` and without an `error` reports a finished step. Of the rest, the answer is the
//! whole if that is one JSON value, or else the last line that is a JSON object or array. An answer whose properties are
//! all known ones is read by their names; any other JSON is the job's result as it stands.
//!
//! Deliberately absent: judging values. Whether a field or a result is acceptable is the server's word.

use std::collections::VecDeque;

use docket_client::wire::field::MachineField;
use docket_client::wire::json as wire_json;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest line that is read whole: a JSON value of the contract has at most 1 MiB, and its text may be escaped.
pub(crate) const LINE_MAX: usize = 4 * 1024 * 1024;
/// How much of standard output is remembered for its answer.
const KEPT_MAX: usize = LINE_MAX;

/// A step that a command has finished.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepLine {
    pub(crate) job_id: Option<String>,
    pub(crate) step: String,
    /// What came out of it; or why that cannot be kept.
    pub(crate) output: Result<Value, String>,
}

/// What a command made of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) result: Option<Value>,
    pub(crate) fields: Option<Vec<MachineField>>,
    pub(crate) display_payload: Option<Value>,
    pub(crate) line_item_count: Option<u32>,
    pub(crate) total_amount: Option<f64>,
    pub(crate) failure: Option<AnswerFailure>,
}

/// That it failed, in the command's own words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AnswerFailure {
    pub(crate) error: String,
    pub(crate) step: Option<String>,
    /// None where the command did not say.
    pub(crate) retryable: Option<bool>,
}

/// The known properties of an answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Known {
    result: Option<Value>,
    fields: Option<Vec<MachineField>>,
    display_payload: Option<Value>,
    line_item_count: Option<u32>,
    total_amount: Option<f64>,
    error: Option<Value>,
    retryable: Option<bool>,
    step: Option<String>,
}

const KNOWN: [&str; 8] = [
    "result",
    "fields",
    "displayPayload",
    "lineItemCount",
    "totalAmount",
    "error",
    "retryable",
    "step",
];

/// One line of standard output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// A finished step.
    Step(StepLine),
    /// Anything else.
    Other,
}

/// Tells a step from the rest.
pub(crate) fn read_line(line: &[u8]) -> Line {
    // Most output is no JSON at all, and a step's name stands in an object.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Line::Other;
    }
    match serde_json::from_slice::<Map<String, Value>>(line) {
        Ok(object) => step_of(&object, line).map_or(Line::Other, Line::Step),
        Err(_) => Line::Other,
    }
}

/// Why the numbers of a text would not stay what they are, where they would not.
fn inexact(text: &[u8]) -> Option<String> {
    let weighed = wire_json::weigh(text, usize::MAX);
    weighed.err().map(|problem| problem.to_string())
}

/// What a command has said: its answer, or why that cannot be kept.
pub(crate) type Given = Result<Value, String>;

/// An answer as it is; where a number of its text would be rounded, that.
fn exact(text: &[u8], answer: Value) -> Given {
    match inexact(text) {
        None => Ok(answer),
        Some(problem) => Err(format!("the command's answer cannot be kept: {problem}")),
    }
}

fn step_of(object: &Map<String, Value>, line: &[u8]) -> Option<StepLine> {
    let step = object.get("step")?.as_str()?.to_owned();
    let known = ["step", "output", "jobId"];
    if !object.keys().all(|key| known.contains(&key.as_str())) {
        return None;
    }
    Some(StepLine {
        job_id: object.get("jobId").and_then(Value::as_str).map(str::to_owned),
        step,
        output: match inexact(line) {
            None => Ok(object.get("output").cloned().unwrap_or(Value::Null)),
            Some(problem) => Err(problem),
        },
    })
}

/// Reads an answer; a known property with a value of the wrong kind is an error that says which.
pub(crate) fn read_answer(value: Value) -> Result<Answer, String> {
    let is_known = match &value {
        Value::Object(object) => !object.is_empty() && object.keys().all(|key| KNOWN.contains(&key.as_str())),
        _ => false,
    };
    if !is_known {
        return Ok(Answer {
            result: Some(value),
            ..Answer::default()
        });
    }
    let known: Known = serde_json::from_value(value)
        .map_err(|problem| format!("the command's answer cannot be read: {problem}"))?;
    let failure = known.error.map(|error| AnswerFailure {
        error: match error {
            Value::String(text) => text,
            other => other.to_string(),
        },
        step: known.step,
        retryable: known.retryable,
    });
    Ok(Answer {
        result: known.result,
        fields: known.fields,
        display_payload: known.display_payload,
        line_item_count: known.line_item_count,
        total_amount: known.total_amount,
        failure,
    })
}

/// Reads an answer that names its job, as in a batch and in a stream. The name is taken out.
pub(crate) fn read_named(line: &[u8]) -> Option<(Option<String>, Given)> {
    let mut object: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let job_id = match object.remove("jobId") {
        None => None,
        Some(Value::String(id)) => Some(id),
        Some(_) => return None,
    };
    Some((job_id, exact(line, Value::Object(object))))
}

/// The end of standard output, bounded: what the answer is looked for in.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    lines: VecDeque<Vec<u8>>,
    size: usize,
    dropped: bool,
}

impl Kept {
    /// Remembers a line, and forgets the oldest where there are too many.
    pub(crate) fn push(&mut self, line: Vec<u8>) {
        if line.trim_ascii().is_empty() {
            return;
        }
        self.size += line.len() + 1;
        self.lines.push_back(line);
        while self.size > KEPT_MAX {
            let Some(oldest) = self.lines.pop_front() else {
                return;
            };
            self.size -= oldest.len() + 1;
            self.dropped = true;
        }
    }

    /// The answer in it, as JSON; none where there is none.
    pub(crate) fn answer(&self) -> Option<Given> {
        if let Some(value) = self.whole() {
            return Some(value);
        }
        let is_composite = |value: &Value| value.is_object() || value.is_array();
        self.lines
            .iter()
            .rev()
            .filter_map(|line| Some((line, serde_json::from_slice(line).ok()?)))
            .find(|(_, value)| is_composite(value))
            .map(|(line, value)| exact(line, value))
    }

    fn whole(&self) -> Option<Given> {
        if self.dropped {
            return None;
        }
        let mut text = Vec::with_capacity(self.size);
        for line in &self.lines {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        let value = serde_json::from_slice(&text).ok()?;
        Some(exact(&text, value))
    }

    /// The last line that was said, for those who wonder why there was no answer.
    pub(crate) fn last_line(&self) -> Option<String> {
        let line = self.lines.back()?;
        Some(String::from_utf8_lossy(line).trim().chars().take(200).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(text: &str) -> Option<Given> {
        let mut kept = Kept::default();
        for line in text.lines() {
            kept.push(line.as_bytes().to_vec());
        }
        kept.answer()
    }

    #[test]
    fn the_answer_is_the_whole_or_the_last_line_of_json() {
        for (said, answer) in [
            ("", None),
            ("42\n", Some(json!(42))),
            ("\"done\"", Some(json!("done"))),
            ("{\n  \"a\": 1\n}\n", Some(json!({ "a": 1 }))),
            ("reading\n{\"a\": 1}\n", Some(json!({ "a": 1 }))),
            ("{\"a\": 1}\n{\"a\": 2}\n\n", Some(json!({ "a": 2 }))),
            ("{\"a\": 1}\nbye\n", Some(json!({ "a": 1 }))),
            ("pages\n42\n", None),
            ("[1]\n7", Some(json!([1]))),
            ("no json here", None),
        ] {
            assert_eq!(kept(said), answer.map(Ok), "{said:?}");
        }
    }

    #[test]
    fn a_flood_forgets_what_came_first_and_keeps_the_answer() {
        let mut kept = Kept::default();
        for _ in 0..3_000 {
            kept.push(vec![b'x'; 4_096]);
        }
        kept.push(b"{\"a\": 1}".to_vec());
        assert!(kept.size <= KEPT_MAX);
        assert_eq!(kept.answer(), Some(Ok(json!({ "a": 1 }))));
    }

    #[test]
    fn known_properties_are_read_by_name_and_other_json_is_the_result() {
        let read = |value| read_answer(value).unwrap();
        assert_eq!(read(json!({ "total": 5 })).result, Some(json!({ "total": 5 })));
        assert_eq!(read(json!({})).result, Some(json!({})));
        assert_eq!(read(json!([1])).result, Some(json!([1])));
        let mixed = json!({ "result": 1, "other": 2 });
        assert_eq!(read(mixed.clone()).result, Some(mixed));
        let answer = read(json!({
            "result": 1, "fields": [{ "name": "total", "value": 5, "confidence": 90 }], "totalAmount": 5.5
        }));
        assert_eq!(answer.result, Some(json!(1)));
        assert_eq!(answer.fields.unwrap()[0].name, "total");
        assert_eq!(answer.total_amount, Some(5.5));
        assert_eq!(answer.failure, None);
    }

    #[test]
    fn an_error_in_the_answer_is_a_failure() {
        let failure = |value| read_answer(value).unwrap().failure;
        let said = failure(json!({ "error": "torn page", "retryable": false, "step": "ocr" }));
        let expected = AnswerFailure {
            error: "torn page".to_owned(),
            step: Some("ocr".to_owned()),
            retryable: Some(false),
        };
        assert_eq!(said, Some(expected));
        assert_eq!(
            failure(json!({ "error": { "code": 7 } })).unwrap().error,
            "{\"code\":7}"
        );
        assert_eq!(failure(json!({ "error": null, "result": 1 })), None);
    }

    #[test]
    fn a_known_property_of_the_wrong_kind_is_told() {
        let problem = read_answer(json!({ "fields": { "total": 5 } })).unwrap_err();
        assert!(
            problem.contains("the command's answer cannot be read"),
            "{problem}"
        );
    }

    #[test]
    fn a_number_that_would_be_rounded_is_a_failure_that_says_where() {
        let long = "123456789012345678901";
        for (text, place) in [
            (format!("{{\"total\": {long}}}"), "total: "),
            (format!("reading\n{{\"result\": [1, {long}]}}"), "result[1]: "),
            (long.to_owned(), ""),
        ] {
            let error = kept(&text).unwrap().unwrap_err();
            let expected = format!("the command's answer cannot be kept: {place}the whole number {long} ");
            assert!(error.starts_with(&expected), "{error}");
        }
        let (job, answer) =
            read_named(format!("{{\"jobId\": \"a\", \"total\": {long}}}").as_bytes()).unwrap();
        assert_eq!(job.as_deref(), Some("a"));
        assert!(answer.unwrap_err().contains("total: "));
        let Line::Step(step) = read_line(format!("{{\"step\": \"ocr\", \"output\": {long}}}").as_bytes())
        else {
            panic!("it is a step");
        };
        assert!(step.output.unwrap_err().starts_with("output: "));
        assert_eq!(
            kept("{\"total\": 18446744073709551615}"),
            Some(Ok(json!({ "total": u64::MAX })))
        );
    }

    #[test]
    fn a_step_is_told_from_a_failure_that_names_one() {
        let step = |text: &str| match read_line(text.as_bytes()) {
            Line::Step(step) => Some((step.step, step.output.unwrap())),
            Line::Other => None,
        };
        assert_eq!(
            step(r#"{"step": "ocr", "output": [1]}"#),
            Some(("ocr".to_owned(), json!([1])))
        );
        assert_eq!(step(r#"{"step": "ocr"}"#), Some(("ocr".to_owned(), Value::Null)));
        assert_eq!(step(r#"{"step": "ocr", "error": "torn"}"#), None);
        assert_eq!(step(r#"{"step": 5}"#), None);
        assert_eq!(step("step"), None);
    }
}
