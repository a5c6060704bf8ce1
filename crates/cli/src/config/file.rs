//! `docket.toml`: what it may say. Every key is optional, and one that is not known is refused: a misspelt limit that is silently
//! left out would be worse than a server that does not start.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use docket_core::backoff::Backoff;
use docket_core::name::{PipelineName, StepName};
use docket_core::pipeline::{OnStale, Pipeline};
use docket_core::tenant::{Tier, UploadLimit};
use docket_server::{ForwardedBy, Network, Proxies};
use serde::Deserialize;

use super::channels::Channels;
use crate::logs::LogFormat;

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    pub(crate) listen: Option<String>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) database: Option<String>,
    pub(crate) log: Option<String>,
    pub(crate) log_format: Option<LogFormat>,
    pub(crate) server: Server,
    pub(crate) auth: Auth,
    pub(crate) tiers: BTreeMap<String, TierSection>,
    pub(crate) pipelines: BTreeMap<String, PipelineSection>,
    pub(crate) reaper: Reaper,
    pub(crate) files: Files,
    pub(crate) retention: Retention,
    pub(crate) channels: Channels,
    pub(crate) outbox: Outbox,
    pub(crate) compat: Compat,
}

/// `[server]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    trusted_proxies: Vec<String>,
    forwarded_by: Option<ForwardedHeader>,
}

/// Where proxies write whom they speak for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ForwardedHeader {
    XForwardedFor,
    Forwarded,
}

/// `[auth]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Auth {
    pub(crate) jwt: Option<JwtSection>,
}

/// `[auth.jwt]`
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct JwtSection {
    pub(crate) secret: Option<String>,
    pub(crate) public_key_file: Option<PathBuf>,
    pub(crate) jwks_url: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) audience: Option<String>,
}

impl std::fmt::Debug for JwtSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtSection").finish_non_exhaustive()
    }
}

/// `[tiers.NAME]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TierSection {
    uploads_per_hour: Option<PerHour>,
    concurrent_jobs: Option<u32>,
}

#[derive(Clone, Debug)]
struct PerHour(UploadLimit);

impl<'de> Deserialize<'de> for PerHour {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u32),
            Word(String),
        }
        match Form::deserialize(deserializer) {
            Ok(Form::Number(n)) => Ok(Self(UploadLimit::PerHour(n))),
            Ok(Form::Word(word)) if word == "unlimited" => Ok(Self(UploadLimit::Unlimited)),
            _ => Err(serde::de::Error::custom(
                "must be a number of uploads, or \"unlimited\"",
            )),
        }
    }
}

/// `[pipelines.NAME]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PipelineSection {
    #[serde(default)]
    steps: Vec<String>,
    lease_seconds: Option<u32>,
    on_stale: Option<OnStale>,
    max_attempts: Option<u32>,
    backoff: Option<BackoffSection>,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    review: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackoffSection {
    base_ms: Option<i64>,
    max_ms: Option<i64>,
}

/// `[reaper]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reaper {
    pub(crate) interval_seconds: u32,
}

impl Default for Reaper {
    fn default() -> Self {
        Self { interval_seconds: 15 }
    }
}

/// `[files]`
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Files {
    pub(crate) url: Option<String>,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) upload_seconds: Option<u32>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// `[retention]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retention {
    pub(crate) finished_days: Option<u32>,
    pub(crate) idempotency_hours: Option<u32>,
}

/// `[outbox]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Outbox {
    pub(crate) lease_seconds: Option<u32>,
    pub(crate) per_channel: Option<u32>,
    pub(crate) per_destination: Option<u32>,
    pub(crate) alerts: Vec<String>,
}

/// `[compat]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Compat {
    pub(crate) unreviewed: bool,
}

impl File {
    /// The tiers it names. What a section of a standard tier leaves out is the standard's.
    pub(crate) fn tiers(&self) -> Result<Vec<Tier>> {
        let standard = Tier::standard();
        let mut tiers = Vec::new();
        for (name, section) in &self.tiers {
            let known = standard.iter().find(|tier| tier.name == *name);
            let uploads = section.uploads_per_hour.as_ref().map(|limit| limit.0);
            let (uploads, jobs) = (
                uploads.or(known.map(|tier| tier.uploads)),
                section.concurrent_jobs.or(known.map(|tier| tier.concurrent_jobs)),
            );
            let (Some(uploads), Some(concurrent_jobs)) = (uploads, jobs) else {
                bail!("[tiers.{name}] is a new tier: it needs both uploads_per_hour and concurrent_jobs");
            };
            let tier = Tier {
                name: name.clone(),
                uploads,
                concurrent_jobs,
            };
            tier.check()
                .with_context(|| format!("[tiers.{name}] cannot be used"))?;
            tiers.push(tier);
        }
        Ok(tiers)
    }

    /// The proxies it trusts.
    pub(crate) fn proxies(&self) -> Result<Proxies> {
        let Server {
            trusted_proxies,
            forwarded_by,
        } = &self.server;
        let trusted = trusted_proxies.iter().map(|text| text.parse::<Network>());
        let trusted = trusted
            .collect::<Result<_, String>>()
            .map_err(|problem| anyhow::anyhow!("[server] trusted_proxies: {problem}"))?;
        let header = match forwarded_by {
            None | Some(ForwardedHeader::XForwardedFor) => ForwardedBy::XForwardedFor,
            Some(ForwardedHeader::Forwarded) => ForwardedBy::Forwarded,
        };
        Ok(Proxies { trusted, header })
    }

    /// The pipelines it defines.
    pub(crate) fn pipelines(&self) -> Result<Vec<(PipelineName, Pipeline)>> {
        let pipeline = |(name, section): (&String, &PipelineSection)| {
            section
                .definition(name)
                .with_context(|| format!("[pipelines.{name}] cannot be used"))
        };
        self.pipelines.iter().map(pipeline).collect()
    }
}

impl PipelineSection {
    fn definition(&self, name: &str) -> Result<(PipelineName, Pipeline)> {
        let usual = Pipeline::default();
        let steps = self.steps.iter().map(StepName::new);
        let backoff = self.backoff.as_ref();
        let definition = Pipeline {
            steps: steps.collect::<Result<_, _>>()?,
            lease_ms: self
                .lease_seconds
                .map_or(usual.lease_ms, |seconds| i64::from(seconds) * 1000),
            on_stale: self.on_stale.unwrap_or(usual.on_stale),
            max_attempts: self.max_attempts.unwrap_or(usual.max_attempts),
            backoff: Backoff {
                base_ms: backoff
                    .and_then(|backoff| backoff.base_ms)
                    .unwrap_or(usual.backoff.base_ms),
                max_ms: backoff
                    .and_then(|backoff| backoff.max_ms)
                    .unwrap_or(usual.backoff.max_ms),
            },
            strict: self.strict,
            review: self.review,
        };
        definition.check()?;
        Ok((PipelineName::new(name)?, definition))
    }
}
