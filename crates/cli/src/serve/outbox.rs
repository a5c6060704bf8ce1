//! How the server tells people, by its configuration.

use anyhow::{Context as _, Result, bail};
use docket_core::notify::Recipient;
use docket_engine::OutboxConfig;

use super::crash::CrashAt;
use crate::config::Config;

/// The longest lease of a send.
const LEASE_SECONDS_MAX: u32 = 3_600;
/// What is left of a hold for recording what came of a send.
const LEASE_MARGIN_SECONDS: u64 = 2;

pub(super) fn outbox(config: &Config, crash_at: Option<CrashAt>) -> Result<OutboxConfig> {
    let file = &config.file.outbox;
    let mut outbox = OutboxConfig {
        channels: config.channels.clone(),
        probe: crash_at.map(CrashAt::probe),
        ..OutboxConfig::default()
    };
    for recipient in &file.alerts {
        let read = Recipient::parse(recipient);
        let read = read.with_context(|| format!("[outbox] alerts: '{recipient}' cannot be told"))?;
        if outbox.channels.get(read.channel()).is_none() {
            bail!("[outbox] alerts: there is no channel for '{recipient}'");
        }
        // In its one spelling, by which an alert that cannot be told is known.
        outbox.alerts.push(read.to_string());
    }
    if let Some(seconds) = file.lease_seconds {
        if !(1..=LEASE_SECONDS_MAX).contains(&seconds) {
            bail!("[outbox] lease_seconds is from 1 to {LEASE_SECONDS_MAX}");
        }
        outbox.lease_ms = i64::from(seconds) * 1_000;
        check_lease(config, seconds)?;
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

/// A send that its hold cuts off is in doubt, so a hold has to outlast what the channels wait.
fn check_lease(config: &Config, seconds: u32) -> Result<()> {
    for kind in config.channels.kinds() {
        let Some(channel) = config.channels.get(kind) else {
            continue;
        };
        let needed = channel.patience().as_secs() + LEASE_MARGIN_SECONDS;
        if u64::from(seconds) < needed {
            bail!(
                "[outbox] lease_seconds is {seconds}, but a message by {kind} may take {needed} seconds: raise it, or lower \
                 [channels.{kind}] timeout_seconds"
            );
        }
    }
    Ok(())
}
