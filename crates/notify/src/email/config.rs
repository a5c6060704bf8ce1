//! How to reach the mail server, and as whom to write.

use std::fmt;
use std::time::Duration;

use docket_core::notify::{EmailAddress, OnUnknown};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use url::{Host, Url};

use crate::{ConfigError, Secret, check_timeout};

const TIMEOUT: Duration = Duration::from_secs(20);
/// The usual ports: submission, and submission over TLS.
const SUBMISSION: u16 = 587;
const SUBMISSIONS: u16 = 465;

/// When an `smtp://` connection is encrypted by STARTTLS. (`smtps://` always is, from its first byte.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    /// Always: nothing is sent to a server that does not offer it.
    Required,
    /// Where the server offers it. A password is sent in the clear only to this machine.
    #[default]
    Offered,
    /// Never, not even a password.
    Never,
}

/// The settings of `[channels.email]`.
#[derive(Clone, Debug)]
pub struct EmailConfig {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// TLS from the first byte.
    pub(crate) implicit_tls: bool,
    pub(crate) login: Option<Login>,
    pub(crate) from: Sender,
    /// STARTTLS or not.
    pub encryption: Encryption,
    /// What is done with what is unknown, unless the collection says otherwise.
    pub on_unknown: OnUnknown,
    /// How long all up to the message may take, and then again the message and its answer.
    pub timeout: Duration,
    /// Certificates (PEM) that are trusted besides the system's.
    pub trusted_pem: Option<Vec<u8>>,
}

/// User and password.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: Secret,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Whom the mails are from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) name: Option<String>,
    pub(crate) address: EmailAddress,
}

impl EmailConfig {
    /// Settings by `smtp://user:password@host:587` (or `smtps://`) and `Name <name@example.com>`; the rest is as usual.
    pub fn new(url: &Secret, from: &str) -> Result<Self, ConfigError> {
        let wrong = |problem: &str| ConfigError::new("url", problem);
        // What the parser says of a wrong URL may hold a part of the password: it is left out.
        let url = Url::parse(url.reveal())
            .map_err(|_| wrong("must look like smtp://user:password@mail.example.com:587, or smtps://…"))?;
        let (implicit_tls, usual_port) = match url.scheme() {
            "smtp" => (false, SUBMISSION),
            "smtps" => (true, SUBMISSIONS),
            _ => return Err(wrong("must start with smtp:// or smtps://")),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("must end after the port"));
        }
        // A scheme that the parser does not know keeps the host as it was written.
        let host = url
            .host_str()
            .and_then(|host| Host::parse(host).ok())
            .ok_or_else(|| wrong("must name the mail server"))?;
        let host = match host {
            Host::Domain(name) => name,
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        Ok(Self {
            host,
            port: url.port().unwrap_or(usual_port),
            implicit_tls,
            login: login(&url)?,
            from: Sender::parse(from)?,
            encryption: Encryption::default(),
            on_unknown: OnUnknown::default(),
            timeout: TIMEOUT,
            trusted_pem: None,
        })
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_timeout(self.timeout)
    }

    /// Whether the password may be sent over a connection that is encrypted or not.
    pub(crate) fn password_may_go(&self, encrypted: bool) -> bool {
        let address: Option<std::net::IpAddr> = self.host.parse().ok();
        let local = self.host == "localhost" || address.is_some_and(|address| address.is_loopback());
        encrypted || local || self.encryption == Encryption::Never
    }
}

fn login(url: &Url) -> Result<Option<Login>, ConfigError> {
    let decode = |text: &str| {
        percent_decode_str(text)
            .decode_utf8()
            .map(String::from)
            .map_err(|_| ConfigError::new("url", "user and password must be UTF-8"))
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        ("", Some(_)) | (_, None) => Err(ConfigError::new(
            "url",
            "must have both a user and a password, or neither",
        )),
        (user, Some(password)) => Ok(Some(Login {
            user: decode(user)?,
            password: Secret::new(decode(password)?),
        })),
    }
}

/// A name with a comma is often written in quotes; it needs none here.
fn unquoted(name: &str) -> &str {
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    inner.unwrap_or(name)
}

impl Sender {
    fn parse(text: &str) -> Result<Self, ConfigError> {
        let wrong = |problem: String| ConfigError::new("from", problem);
        if text.chars().any(char::is_control) {
            return Err(wrong("must not contain control characters".to_owned()));
        }
        let (name, address) = match text
            .trim()
            .strip_suffix('>')
            .and_then(|text| text.rsplit_once('<'))
        {
            Some((name, address)) => (unquoted(name.trim()), address),
            None => ("", text.trim()),
        };
        let address = EmailAddress::parse(address)
            .map_err(|refusal| wrong(format!("must look like Docket <docket@example.com>: {refusal}")))?;
        Ok(Self {
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str, from: &str) -> Result<EmailConfig, ConfigError> {
        EmailConfig::new(&Secret::new(url), from)
    }

    #[test]
    fn a_url_says_server_port_encryption_and_login() {
        let config = config(
            "smtp://ann%40example.com:p%40ss@mail.example.com",
            "Dökét <docket@example.com>",
        )
        .unwrap();
        assert_eq!((config.host.as_str(), config.port), ("mail.example.com", 587));
        assert!(!config.implicit_tls);
        let login = config.login.as_ref().unwrap();
        assert_eq!(
            (login.user.as_str(), login.password.reveal()),
            ("ann@example.com", "p@ss")
        );
        assert_eq!(config.from.name.as_deref(), Some("Dökét"));
        let config =
            super::EmailConfig::new(&Secret::new("smtps://[::1]:2465/"), "docket@example.com").unwrap();
        assert_eq!((config.host.as_str(), config.port), ("::1", 2465));
        assert!(config.implicit_tls && config.login.is_none());
    }

    #[test]
    fn a_password_goes_in_the_clear_only_to_this_machine_or_by_order() {
        for (host, encryption, clear) in [
            ("localhost", Encryption::Offered, true),
            ("127.0.0.1", Encryption::Offered, true),
            ("[::1]", Encryption::Offered, true),
            ("mail.example.com", Encryption::Offered, false),
            ("10.0.0.1", Encryption::Offered, false),
            ("mail.example.com", Encryption::Never, true),
        ] {
            let mut config = config(&format!("smtp://ann:hunter2@{host}"), "a@b.example").unwrap();
            config.encryption = encryption;
            assert_eq!(config.password_may_go(false), clear, "{host} {encryption:?}");
            assert!(config.password_may_go(true));
        }
    }

    #[test]
    fn wrong_settings_are_refused_without_showing_the_password() {
        for (url, from, key) in [
            ("mail.example.com", "a@b.example", "url"),
            ("http://mail.example.com", "a@b.example", "url"),
            ("smtp://user@mail.example.com", "a@b.example", "url"),
            ("smtp://:hunter2@mail.example.com", "a@b.example", "url"),
            ("smtp://user:hunter2@mail.example.com/inbox", "a@b.example", "url"),
            ("smtp://user:hunter2@mail.example.com:99999", "a@b.example", "url"),
            ("smtp://mail.example.com", "nobody", "from"),
            (
                "smtp://mail.example.com",
                "A <a@b.example>\r\nBcc: <c@d.example>",
                "from",
            ),
        ] {
            let error = config(url, from).unwrap_err();
            assert_eq!(error.key, key, "{url}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let config = config("smtp://user:hunter2@mail.example.com", "a@b.example").unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
