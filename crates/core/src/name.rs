//! The callers' own strings: ids of tenants, collections, pipelines, steps and workers. All of them keep the
//! same rule, so that none can break a query, a log line, a header or a page.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::refusal::{Refusal, Refused};

/// The longest name taken, in characters.
pub const NAME_MAX: usize = 128;
/// The longest externalId, filename or idempotency key taken, in characters.
pub const TEXT_MAX: usize = 512;

/// Checks a name: 1 to [`NAME_MAX`] characters, none of them white space or control characters.
pub fn check_name(path: &str, text: &str) -> Refused<()> {
    check_text(path, text, NAME_MAX)?;
    if text.chars().any(char::is_whitespace) {
        return Err(Refusal::invalid(path, "must not contain white space"));
    }
    Ok(())
}

/// Checks a short text: not empty, at most `max` characters, no control characters (NUL among them).
pub fn check_text(path: &str, text: &str, max: usize) -> Refused<()> {
    if text.is_empty() {
        return Err(Refusal::invalid(path, "must not be empty"));
    }
    // Bytes first: counting the characters of a hostile megabyte is not worth it.
    if text.len() > max * 4 || text.chars().count() > max {
        return Err(Refusal::invalid(
            path,
            format!("must have at most {max} characters"),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::invalid(path, "must not contain control characters"));
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $path:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes a caller's string, or says what is wrong with it.
            pub fn new(text: impl Into<String>) -> Refused<Self> {
                let text = text.into();
                check_name($path, &text)?;
                Ok(Self(text))
            }

            /// The string itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Refusal;

            fn try_from(text: String) -> Refused<Self> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

name!(
    /// Whose work it is.
    TenantId,
    "tenantId"
);
name!(
    /// A set of items of one tenant.
    CollectionId,
    "collectionId"
);
name!(
    /// How items are processed.
    PipelineName,
    "pipeline"
);
name!(
    /// One part of the processing.
    StepName,
    "step"
);
name!(
    /// Who processes.
    WorkerId,
    "workerId"
);
name!(
    /// Who decides.
    ReviewerId,
    "reviewerId"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_printable() {
        for good in ["acme", "agency-7", "Ünïcode", "a/b:c@d", &"x".repeat(NAME_MAX)] {
            assert!(TenantId::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            " ",
            "a b",
            "a\0b",
            "a\nb",
            &"x".repeat(NAME_MAX + 1),
            &"y".repeat(10_000),
        ] {
            let refusal = TenantId::new(bad).unwrap_err();
            assert_eq!(refusal.code(), "validation_failed", "{bad}");
        }
    }
}
