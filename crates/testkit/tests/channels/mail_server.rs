//! The channel to a real mail server.

use docket_notify::Secret;
use docket_notify::email::{EmailChannel, EmailConfig};

pub(crate) use docket_testkit::mail_server::{MailServer, Speech};

pub(crate) const FROM: &str = "Dökét, Inc. <docket@example.com>";

/// Settings for a server at this port of this machine.
pub(crate) fn config(scheme: &str, login: &str, port: u16) -> EmailConfig {
    let url = Secret::new(format!("{scheme}://{login}localhost:{port}"));
    EmailConfig::new(&url, FROM).unwrap()
}

/// A channel that speaks plainly to this port.
pub(crate) fn plain_channel(port: u16) -> EmailChannel {
    EmailChannel::new(config("smtp", "", port)).unwrap()
}
