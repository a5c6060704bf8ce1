//! How the server tells people, by its configuration.

use anyhow::{Context as _, Result, bail};
use docket_core::notify::Recipient;
use docket_engine::OutboxConfig;

use super::crash::CrashAt;
use crate::config::Config;

/// The longest lease of a send.
const LEASE_SECONDS_MAX: u32 = 3_600;

pub(super) fn outbox(config: &Config, crash_at: Option<CrashAt>) -> Result<OutboxConfig> {
    let file = &config.file.outbox;
    let mut outbox = OutboxConfig {
        channels: config.channels.clone(),
        alerts: file.alerts.clone(),
        probe: crash_at.map(CrashAt::probe),
        ..OutboxConfig::default()
    };
    for recipient in &file.alerts {
        let read = Recipient::parse(recipient);
        let read = read.with_context(|| format!("[outbox] alerts: '{recipient}' cannot be told"))?;
        if outbox.channels.get(read.channel()).is_none() {
            bail!("[outbox] alerts: there is no channel for '{recipient}'");
        }
    }
    if let Some(seconds) = file.lease_seconds {
        if !(1..=LEASE_SECONDS_MAX).contains(&seconds) {
            bail!("[outbox] lease_seconds is from 1 to {LEASE_SECONDS_MAX}");
        }
        outbox.lease_ms = i64::from(seconds) * 1_000;
    }
    for (name, set, value) in [
        ("per_channel", &mut outbox.per_channel, file.per_channel),
        (
            "per_destination",
            &mut outbox.per_destination,
            file.per_destination,
        ),
    ] {
        match value {
            None => {}
            Some(0) => bail!("[outbox] {name} is at least 1"),
            Some(value) => *set = usize::try_from(value)?,
        }
    }
    Ok(outbox)
}
