//! What a provider does with a message.

use serde::{Deserialize, Serialize};

/// What a provider does with a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Takes it and says so.
    #[default]
    Accept,
    /// Takes it, and says so in words that are no JSON.
    AcceptPlainly,
    /// Takes it and never answers.
    AcceptThenHang,
    /// Takes it and breaks the connection.
    AcceptThenReset,
    /// Takes it and answers 500.
    AcceptThenFail,
    /// Takes it and answers with something that is not HTTP.
    AcceptThenBabble,
    /// Does not take it and never answers.
    Hang,
    /// Does not take it and breaks the connection.
    Reset,
    /// Does not take it and answers 503.
    Fail,
    /// Does not take it and answers 429 with `Retry-After`.
    RateLimit,
    /// Does not take it and answers 400.
    Refuse,
    /// Does not take it and answers 410.
    Gone,
    /// Does not take it and answers 307, to itself.
    Redirect,
}

impl Mode {
    /// Whether the message has an effect.
    pub const fn takes(self) -> bool {
        matches!(
            self,
            Self::Accept
                | Self::AcceptPlainly
                | Self::AcceptThenHang
                | Self::AcceptThenReset
                | Self::AcceptThenFail
                | Self::AcceptThenBabble
        )
    }
}
