//! What a load was told, as facts that can be written down and read back.
//!
//! A fact is noted after the engine's answer and never before: each of them must survive whatever happens next.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use docket_core::id::{ItemId, JobId};
use docket_core::lease::LeaseToken;

/// Something that the engine said has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// An item was taken.
    Submitted(ItemId, String),
    /// A file with this digest was taken.
    Uploaded(ItemId, String),
    /// A job was given out.
    Claimed(JobId, LeaseToken),
    /// A job was completed.
    Completed(JobId, LeaseToken),
    /// An attempt failed.
    Failed(JobId, LeaseToken),
    /// A job was handed back.
    Released(JobId, LeaseToken),
    /// The engine said something that it must never say.
    Wrong(String),
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted(item, external_id) => write!(f, "submitted {item} {external_id}"),
            Self::Uploaded(item, digest) => write!(f, "uploaded {item} {digest}"),
            Self::Claimed(job, token) => write!(f, "claimed {job} {}", token.0),
            Self::Completed(job, token) => write!(f, "completed {job} {}", token.0),
            Self::Failed(job, token) => write!(f, "failed {job} {}", token.0),
            Self::Released(job, token) => write!(f, "released {job} {}", token.0),
            Self::Wrong(what) => write!(f, "wrong {}", what.replace('\n', " ")),
        }
    }
}

impl FromStr for Fact {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let (word, rest) = line.split_once(' ').context("a fact has several words")?;
        if word == "wrong" {
            return Ok(Self::Wrong(rest.to_owned()));
        }
        let (id, more) = rest.split_once(' ').context("a fact has three words")?;
        let job = || -> anyhow::Result<_> { Ok((id.parse()?, LeaseToken(more.parse()?))) };
        Ok(match word {
            "submitted" => Self::Submitted(id.parse()?, more.to_owned()),
            "uploaded" => Self::Uploaded(id.parse()?, more.to_owned()),
            "claimed" => job().map(|(job, token)| Self::Claimed(job, token))?,
            "completed" => job().map(|(job, token)| Self::Completed(job, token))?,
            "failed" => job().map(|(job, token)| Self::Failed(job, token))?,
            "released" => job().map(|(job, token)| Self::Released(job, token))?,
            other => bail!("'{other}' is no fact"),
        })
    }
}

/// Takes a fact.
pub type Sink = Arc<dyn Fn(Fact) + Send + Sync>;

/// Facts gathered in memory.
#[derive(Clone, Debug, Default)]
pub struct Facts(Arc<Mutex<Vec<Fact>>>);

impl Facts {
    /// Where facts go.
    pub fn sink(&self) -> Sink {
        let facts = self.clone();
        Arc::new(move |fact| facts.add(fact))
    }

    /// Adds one.
    pub fn add(&self, fact: Fact) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fact);
    }

    /// All so far.
    pub fn all(&self) -> Vec<Fact> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
