//! Whole numbers as JSON has them: `5.0` is as whole as `5`, and some languages write every number so.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// The largest whole number that every JSON reader keeps exact.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// A whole number.
pub(crate) fn whole<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    Whole::deserialize(deserializer).map(|whole| whole.0)
}

/// A whole number, or nothing.
pub(crate) fn whole_or_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let read = Option::<Whole<T>>::deserialize(deserializer)?;
    Ok(read.map(|whole| whole.0))
}

/// The whole number that this one is.
#[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
pub(crate) fn exact(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64)
}

struct Whole<T>(T);

impl<'de, T: TryFrom<i64>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData)).map(Self)
    }
}

struct Reader<T>(PhantomData<T>);

impl<T: TryFrom<i64>> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number within its range")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        let read = i64::try_from(number).ok().and_then(|n| T::try_from(n).ok());
        read.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        let read = exact(number).and_then(|n| T::try_from(n).ok());
        read.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Numbers {
        #[serde(deserialize_with = "whole")]
        one: u32,
        #[serde(default, deserialize_with = "whole_or_none")]
        other: Option<u32>,
    }

    #[test]
    fn a_number_without_a_fraction_is_whole_however_it_is_written() {
        for text in ["5", "5.0", "5e0", "0.5e1"] {
            let read: Numbers =
                serde_json::from_str(&format!("{{\"one\": {text}, \"other\": {text}}}")).unwrap();
            assert_eq!((read.one, read.other), (5, Some(5)), "{text}");
        }
        let read: Numbers = serde_json::from_str(r#"{"one": 0, "other": null}"#).unwrap();
        assert_eq!((read.one, read.other), (0, None));
    }

    #[test]
    fn what_is_not_whole_or_not_in_range_is_refused() {
        for text in [
            "5.5",
            "-1",
            "4294967296",
            "18446744073709551615",
            "1e300",
            "\"5\"",
            "true",
            "null",
            "[]",
        ] {
            assert!(
                serde_json::from_str::<Numbers>(&format!("{{\"one\": {text}}}")).is_err(),
                "{text}"
            );
        }
    }
}
