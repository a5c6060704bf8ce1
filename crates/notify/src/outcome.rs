//! What a channel answers.

use std::time::Duration;

use crate::Words;

/// How a send went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The receiving end has it.
    Accepted {
        /// The `notificationId`: the provider's own id, or else what names the delivery there (the mail's Message-ID, the token).
        id: String,
        /// What it said.
        words: Words,
    },
    /// It is proven that nothing was sent: the connection did not come about, or broke before the message was whole.
    NotSent {
        /// What went wrong.
        words: Words,
    },
    /// The receiving end said: not now. It has not taken the message.
    Transient {
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
        /// What it said.
        words: Words,
    },
    /// The receiving end, or a rule of this channel, said: never like this. Nothing was taken.
    Permanent {
        /// The recipient wants nothing more, ever (410 from a webhook): later deliveries need not be tried.
        gone: bool,
        /// What it said.
        words: Words,
    },
    /// It may have been sent, and may not.
    Unknown {
        /// When it wants to be asked again, if it said so.
        retry_after: Option<Duration>,
        /// What is known.
        words: Words,
    },
}

impl Sent {
    /// The words for the attempt's history.
    pub const fn words(&self) -> &Words {
        match self {
            Self::Accepted { words, .. }
            | Self::NotSent { words }
            | Self::Transient { words, .. }
            | Self::Permanent { words, .. }
            | Self::Unknown { words, .. } => words,
        }
    }

    /// Its name, for metrics and the log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::NotSent { .. } => "not_sent",
            Self::Transient { .. } => "transient",
            Self::Permanent { .. } => "permanent",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// What a lookup found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was sent.
    Found {
        /// The `notificationId`, as [`Sent::Accepted`] would have given it.
        id: String,
        /// What the provider said.
        words: Words,
    },
    /// The provider knows nothing of it. Within the lookup's lag that proves nothing.
    Absent {
        /// What the provider said.
        words: Words,
    },
    /// It could not be asked, or its answer made no sense.
    Unknown {
        /// When it wants to be asked again, if it said so.
        retry_after: Option<Duration>,
        /// What is known.
        words: Words,
    },
}

impl Found {
    /// The words for the attempt's history.
    pub const fn words(&self) -> &Words {
        match self {
            Self::Found { words, .. } | Self::Absent { words } | Self::Unknown { words, .. } => words,
        }
    }

    /// Its name, for metrics and the log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Found { .. } => "found",
            Self::Absent { .. } => "absent",
            Self::Unknown { .. } => "unknown",
        }
    }
}
