//! `[channels]`: by which ways people are told.
//!
//! With nothing configured there is the file channel, in the data folder, so that deliveries can be seen without any server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use docket_core::clock::SystemClock;
use docket_core::notify::{OnUnknown, WebhookUrl};
use docket_notify::email::{EmailChannel, EmailConfig, Encryption};
use docket_notify::file::FileChannel;
use docket_notify::webhook::{WebhookChannel, WebhookConfig};
use docket_notify::{Channel, Secret};
use serde::Deserialize;

/// `[channels]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Channels {
    email: Option<EmailSection>,
    webhook: Option<WebhookSection>,
    file: FileSection,
}

/// `[channels.email]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmailSection {
    url: Secret,
    from: String,
    #[serde(default)]
    on_unknown: OnUnknown,
    #[serde(default)]
    starttls: Encryption,
    ca_file: Option<PathBuf>,
    timeout_seconds: Option<u32>,
}

/// `[channels.webhook]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSection {
    secret: Secret,
    #[serde(default)]
    previous_secrets: Vec<Secret>,
    #[serde(default)]
    allow_private: bool,
    lookup_url: Option<String>,
    lookup_lag_seconds: Option<u32>,
    idempotent_hours: Option<u32>,
    #[serde(default)]
    on_unknown: OnUnknown,
    ca_file: Option<PathBuf>,
    timeout_seconds: Option<u32>,
}

/// `[channels.file]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileSection {
    path: PathBuf,
}

impl Default for FileSection {
    fn default() -> Self {
        Self {
            path: PathBuf::from("outbox.jsonl"),
        }
    }
}

/// Where the channels of a server are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The configuration's folder, which paths in it start from.
    pub(super) folder: &'a Path,
    /// The data folder.
    pub(super) data: &'a Path,
    /// Whether this server is the only one.
    pub(super) alone: bool,
}

impl Channels {
    /// The channels, ready to send; or what is wrong with their settings.
    pub(super) fn open(&self, place: Place<'_>) -> Result<docket_notify::Channels> {
        let file = FileChannel::new(place.data.join(&self.file.path), place.alone);
        let mut channels: Vec<Arc<dyn Channel>> = vec![Arc::new(file)];
        if let Some(section) = &self.email {
            channels.push(section.open(place).context("[channels.email] cannot be used")?);
        }
        if let Some(section) = &self.webhook {
            channels.push(section.open(place).context("[channels.webhook] cannot be used")?);
        }
        Ok(docket_notify::Channels::new(channels))
    }
}

impl EmailSection {
    fn open(&self, place: Place<'_>) -> Result<Arc<dyn Channel>> {
        let mut config = EmailConfig::new(&self.url, &self.from)?;
        config.on_unknown = self.on_unknown;
        config.encryption = self.starttls;
        config.trusted_pem = read_certificates(self.ca_file.as_deref(), place)?;
        config.timeout = seconds(self.timeout_seconds).unwrap_or(config.timeout);
        Ok(Arc::new(EmailChannel::new(config)?))
    }
}

impl WebhookSection {
    fn open(&self, place: Place<'_>) -> Result<Arc<dyn Channel>> {
        let mut config = WebhookConfig::new(self.secret.clone());
        config.secrets.extend(self.previous_secrets.iter().cloned());
        config.allow_private = self.allow_private;
        config.lookup = self
            .lookup_url
            .as_deref()
            .map(WebhookUrl::parse)
            .transpose()
            .context("lookup_url")?;
        config.lookup_lag = seconds(self.lookup_lag_seconds).unwrap_or(config.lookup_lag);
        config.idempotent_for = self
            .idempotent_hours
            .map(|hours| Duration::from_secs(u64::from(hours) * 3_600));
        config.on_unknown = self.on_unknown;
        config.trusted_pem = read_certificates(self.ca_file.as_deref(), place)?;
        config.timeout = seconds(self.timeout_seconds).unwrap_or(config.timeout);
        // Receivers compare a request's time with their own clocks, so it is this machine's and not the database's.
        Ok(Arc::new(WebhookChannel::new(config, Arc::new(SystemClock))?))
    }
}

fn seconds(seconds: Option<u32>) -> Option<Duration> {
    seconds.map(|seconds| Duration::from_secs(seconds.into()))
}

fn read_certificates(path: Option<&Path>, place: Place<'_>) -> Result<Option<Vec<u8>>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let path = place.folder.join(path);
    let pem = std::fs::read(&path).with_context(|| format!("ca_file {} cannot be read", path.display()))?;
    Ok(Some(pem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use docket_core::notify::ChannelKind;

    const EMAIL: &str =
        "[email]\nurl = \"smtps://ann:hunter2@mail.example.com\"\nfrom = \"Docket <docket@example.com>\"\n";
    const WEBHOOK: &str = "[webhook]\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n";

    fn open(text: &str, alone: bool) -> Result<docket_notify::Channels> {
        let folder = Path::new("here");
        let channels: Channels = toml::from_str(text)?;
        assert!(!format!("{channels:?}").contains("hunter2") && !format!("{channels:?}").contains("MfKQ"));
        channels.open(Place {
            folder,
            data: folder,
            alone,
        })
    }

    #[test]
    fn with_nothing_configured_there_is_the_file() {
        let channels = open("", true).unwrap();
        assert!(channels.get(ChannelKind::Email).is_none() && channels.get(ChannelKind::Webhook).is_none());
        let file = channels.get(ChannelKind::File).unwrap();
        assert!(file.abilities().lookup.is_some());
        assert!(format!("{file:?}").contains("here/outbox.jsonl"), "{file:?}");
        // Servers with a folder each do not see one another's lines.
        let shared = open("", false).unwrap();
        let file = shared.get(ChannelKind::File).unwrap();
        assert_eq!(file.abilities().lookup, None);
    }

    #[test]
    fn channels_promise_what_their_settings_say() {
        let text = format!(
            "{EMAIL}on_unknown = \"resend\"\n{WEBHOOK}idempotent_hours = 24\nlookup_url = \"https://a.example/lookup\"\n\
             lookup_lag_seconds = 30\nprevious_secrets = [\"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\"]\n"
        );
        let channels = open(&text, true).unwrap();
        let email = channels.get(ChannelKind::Email).unwrap().abilities();
        assert_eq!((email.lookup, email.idempotent_for), (None, None));
        assert_eq!(email.on_unknown, OnUnknown::Resend);
        let webhook = channels.get(ChannelKind::Webhook).unwrap().abilities();
        assert_eq!(webhook.idempotent_for, Some(Duration::from_secs(86_400)));
        assert_eq!(webhook.lookup.unwrap().lag, Duration::from_secs(30));
        assert!(!format!("{channels:?}").contains("hunter2") && !format!("{channels:?}").contains("C2FV"));
    }

    #[test]
    fn settings_that_cannot_work_are_refused_by_name() {
        for (text, words) in [
            (format!("{EMAIL}timeout_seconds = 0"), "timeout_seconds"),
            (format!("{EMAIL}ca_file = \"not-there.pem\""), "not-there.pem"),
            (EMAIL.replace("smtps:", "imap:"), "url"),
            (EMAIL.replace("docket@example.com", "nobody"), "from"),
            (
                EMAIL.replace("smtps:", "smtp:") + "starttls = \"perhaps\"",
                "perhaps",
            ),
            ("[webhook]\nsecret = \"hunter2\"".to_owned(), "secret"),
            (format!("{WEBHOOK}timeout_seconds = 61"), "timeout_seconds"),
            (format!("{WEBHOOK}lookup_url = \"ftp://a.example\""), "lookup_url"),
        ] {
            let error = open(&text, true).unwrap_err();
            let said = format!("{error:#}");
            assert!(said.contains(words) && !said.contains("hunter2"), "{said}");
        }
    }
}
