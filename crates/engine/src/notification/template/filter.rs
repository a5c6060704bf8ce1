//! The filters of templates. What they make is counted over the whole rendering, so that many small steps cannot make much. None minds what
//! kind of value it is given: what an item holds is known only when it is decided, and somebody is to be told of it then.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, filters, tests};

/// How many bytes all filters of a rendering may make, and look at, together.
pub(super) const MADE_MAX: usize = 1 << 19;
/// What an element costs that is joined, and what a pair of name and value does, in bytes.
const ELEMENT: usize = 16;
const PAIR: usize = 64;

/// What may still be made.
#[derive(Clone)]
struct Budget(Arc<AtomicUsize>);

impl Budget {
    fn spend(&self, bytes: usize) -> Result<(), Error> {
        let spend = |left: usize| left.checked_sub(bytes);
        let spent = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        spent.map(drop).map_err(|_| too_much())
    }

    /// A value as text.
    fn text(&self, value: &Value) -> Result<String, Error> {
        let mut text = self.counted();
        text.push(value)?;
        Ok(text.text)
    }

    const fn counted(&self) -> Counted<'_> {
        Counted {
            text: String::new(),
            budget: self,
        }
    }

    /// What this makes of a text. No letter becomes more than three, in either case.
    fn change(&self, value: &Value, change: impl Fn(&str) -> String) -> Result<Value, Error> {
        let changed = change(&self.text(value)?);
        self.spend(changed.len())?;
        Ok(Value::from(changed))
    }

    fn join(&self, values: &Value, between: Option<&Value>) -> Result<Value, Error> {
        let between = between.map_or(Ok(String::new()), |between| self.text(between))?;
        let mut joined = self.counted();
        match values.try_iter() {
            Ok(values) => {
                for (place, value) in values.enumerate() {
                    self.spend(ELEMENT)?;
                    joined.push_str(if place > 0 { &between } else { "" })?;
                    joined.push(&value)?;
                }
            }
            Err(_) => joined.push(values)?,
        }
        Ok(Value::from(joined.text))
    }

    /// How many characters, elements or members it has.
    fn length(&self, value: &Value) -> Result<usize, Error> {
        match value.kind() {
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => Ok(value.len().unwrap_or_default()),
            _ => Ok(self.text(value)?.chars().count()),
        }
    }

    /// A map's names and values; nothing else has any.
    fn items(&self, value: &Value) -> Result<Value, Error> {
        if value.kind() != ValueKind::Map {
            return Ok(Value::from(Vec::<Value>::new()));
        }
        self.spend(value.len().unwrap_or_default() * PAIR)?;
        filters::items(value)
    }

    fn round(&self, value: &Value, places: Option<i32>) -> Result<Value, Error> {
        match value.kind() {
            ValueKind::Number => filters::round(value.clone(), places),
            _ => self.text(value).map(Value::from),
        }
    }
}

/// Another value for one that is missing or null; with `lax` for one that is empty, zero or false as well.
fn default(value: &Value, other: Option<&Value>, lax: Option<bool>) -> Value {
    let is_missing = value.is_undefined() || value.is_none() || (lax == Some(true) && !value.is_true());
    match other {
        Some(other) if is_missing => other.clone(),
        None if is_missing => Value::from(""),
        _ => value.clone(),
    }
}

/// Text that grows as far as the budget goes.
struct Counted<'a> {
    text: String,
    budget: &'a Budget,
}

impl Counted<'_> {
    fn push(&mut self, value: &Value) -> Result<(), Error> {
        if value.is_none() {
            return Ok(());
        }
        write!(self, "{value}").map_err(|_| too_much())
    }

    fn push_str(&mut self, text: &str) -> Result<(), Error> {
        self.write_str(text).map_err(|_| too_much())
    }
}

impl fmt::Write for Counted<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.budget.spend(text.len()).map_err(|_| fmt::Error)?;
        self.text.push_str(text);
        Ok(())
    }
}

fn too_much() -> Error {
    let words = format!("its filters make more than {MADE_MAX} bytes");
    Error::new(ErrorKind::InvalidOperation, words)
}

/// Gives an environment the filters and tests that templates may use, with a budget for one rendering.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    let budget = Budget(Arc::new(AtomicUsize::new(MADE_MAX)));
    let change = |change: fn(&str) -> String| {
        let budget = budget.clone();
        move |value: &Value| budget.change(value, change)
    };
    environment.add_filter("upper", change(str::to_uppercase));
    environment.add_filter("lower", change(str::to_lowercase));
    environment.add_filter("title", change(|text| filters::title(text.into())));
    environment.add_filter("trim", change(|text| text.trim().to_owned()));
    let own = budget.clone();
    environment.add_filter("join", move |values: &Value, between: Option<&Value>| {
        own.join(values, between)
    });
    let own = budget.clone();
    environment.add_filter("length", move |value: &Value| own.length(value));
    let own = budget.clone();
    environment.add_filter("items", move |value: &Value| own.items(value));
    environment.add_filter("round", move |value: &Value, places: Option<i32>| {
        budget.round(value, places)
    });
    environment.add_filter("default", default);
    environment.add_test("defined", tests::is_defined);
    environment.add_test("none", tests::is_none);
}
