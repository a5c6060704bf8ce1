//! Whom to tell: `email:a@example.com`, `webhook:https://receiver.example/hook`, `file:` or `file:name`.
//!
//! A recipient has one spelling: what parses equal is equal, prints equal and makes one delivery (rule N2). Parsing asks
//! nobody; whether a webhook's name leads to a private address is seen when it is resolved, by the channel.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::name::check_text;
use crate::refusal::{Refusal, Refused};

/// The longest recipient taken, in characters.
pub const RECIPIENT_MAX: usize = 1_000;
/// What RFC 5321 allows a mailbox: before the @, and in all.
const LOCAL_PART_MAX: usize = 64;
const MAILBOX_MAX: usize = 254;
const LABEL_MAX: usize = 128;

/// By what way a recipient is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// Mail by SMTP.
    Email,
    /// A signed HTTP request.
    Webhook,
    /// A line in a file.
    File,
}

impl ChannelKind {
    /// Every kind there is.
    pub const ALL: [Self; 3] = [Self::Email, Self::Webhook, Self::File];

    /// Its word: before the colon of a recipient, in configuration and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Webhook => "webhook",
            Self::File => "file",
        }
    }
}

impl fmt::Display for ChannelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A recipient of one delivery.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Recipient {
    /// `email:` and a mailbox.
    Email(EmailAddress),
    /// `webhook:` and a URL.
    Webhook(WebhookUrl),
    /// `file:` and a label, which may be empty.
    File(FileLabel),
}

/// A mailbox: `name@domain`, the domain in lower case and in ASCII.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EmailAddress {
    text: String,
    at: usize,
}

/// An http or https URL without user, password and fragment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookUrl(Url);

/// What a line in the file is addressed to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileLabel(String);

impl Recipient {
    /// Takes a caller's string, or says what is wrong with it.
    pub fn parse(text: &str) -> Refused<Self> {
        check_text("recipient", text, RECIPIENT_MAX)?;
        match text.split_once(':') {
            Some(("email", mailbox)) => EmailAddress::parse(mailbox).map(Self::Email),
            Some(("webhook", url)) => WebhookUrl::parse(url).map(Self::Webhook),
            Some(("file", label)) => FileLabel::parse(label).map(Self::File),
            _ => Err(refused(
                "must be email:name@example.com, webhook:https://… or file:",
            )),
        }
    }

    /// By what way it is told.
    pub const fn channel(&self) -> ChannelKind {
        match self {
            Self::Email(_) => ChannelKind::Email,
            Self::Webhook(_) => ChannelKind::Webhook,
            Self::File(_) => ChannelKind::File,
        }
    }
}

fn refused(problem: impl Into<String>) -> Refusal {
    Refusal::invalid("recipient", problem)
}

impl EmailAddress {
    /// Takes `name@domain`. Quoted names, comments, addresses in brackets and names outside ASCII are refused: few servers take
    /// them, and they are how headers are broken out of.
    pub fn parse(text: &str) -> Refused<Self> {
        let (name, domain) = text
            .rsplit_once('@')
            .ok_or_else(|| refused("an e-mail address looks like name@example.com"))?;
        let atom = |atom: &str| !atom.is_empty() && atom.bytes().all(is_atom_text);
        if name.len() > LOCAL_PART_MAX || !name.split('.').all(atom) {
            return Err(refused(format!(
                "before the @ of an e-mail address stand up to {LOCAL_PART_MAX} letters, digits and the characters \
                 .!#$%&'*+/=?^_`{{|}}~- of ASCII"
            )));
        }
        let Ok(Host::Domain(domain)) = Host::parse(domain) else {
            return Err(refused(
                "after the @ of an e-mail address stands the name of a domain",
            ));
        };
        // The parser of hosts is laxer than mail: it takes underscores, a dot at the end and more.
        let label = |label: &str| {
            let hyphen_at_an_end = label.starts_with('-') || label.ends_with('-');
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=63).contains(&label.len()) && !hyphen_at_an_end && label.bytes().all(plain)
        };
        if !domain.split('.').all(label) {
            return Err(refused(
                "the domain of the e-mail address is not one that mail can be sent to",
            ));
        }
        let text = format!("{name}@{domain}");
        if text.len() > MAILBOX_MAX {
            return Err(refused(format!(
                "an e-mail address has at most {MAILBOX_MAX} characters"
            )));
        }
        Ok(Self { at: name.len(), text })
    }

    /// `name@domain`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What stands before the @.
    pub fn name(&self) -> &str {
        &self.text[..self.at]
    }

    /// What stands after the @.
    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }
}

/// The characters of an atom, by RFC 5322.
const fn is_atom_text(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'/'
                | b'='
                | b'?'
                | b'^'
                | b'_'
                | b'`'
                | b'{'
                | b'|'
                | b'}'
                | b'~'
        )
}

impl WebhookUrl {
    /// Takes a URL, by the same parser that later sends to it.
    pub fn parse(text: &str) -> Refused<Self> {
        // The parser drops white space and line breaks in silence, which would let two spellings through.
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(refused("a webhook's URL must not contain white space"));
        }
        let url = Url::parse(text).map_err(|error| refused(format!("the webhook's URL is none: {error}")))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(refused("a webhook's URL starts with https:// or http://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("a webhook's URL must not contain a user or a password"));
        }
        if url.fragment().is_some() {
            return Err(refused("a webhook's URL must not contain a fragment (#…)"));
        }
        if url.port() == Some(0) || url.host().is_none() {
            return Err(refused("a webhook's URL names a host, and a port other than 0"));
        }
        Ok(Self(url))
    }

    /// The URL.
    pub const fn url(&self) -> &Url {
        &self.0
    }
}

impl FileLabel {
    fn parse(text: &str) -> Refused<Self> {
        if !text.is_empty() {
            check_text("recipient", text, LABEL_MAX)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// The label, which may be empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match self {
            Self::Email(email) => email.as_str(),
            Self::Webhook(webhook) => webhook.0.as_str(),
            Self::File(label) => label.as_str(),
        };
        write!(f, "{}:{address}", self.channel())
    }
}

impl FromStr for Recipient {
    type Err = Refusal;

    fn from_str(text: &str) -> Refused<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Recipient {
    type Error = Refusal;

    fn try_from(text: String) -> Refused<Self> {
        Self::parse(&text)
    }
}

impl From<Recipient> for String {
    fn from(recipient: Recipient) -> Self {
        recipient.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipient_has_one_spelling() {
        for (text, spelt) in [
            ("email:Ann@EXAMPLE.com", "email:Ann@example.com"),
            ("email:a.b+c@bücher.example", "email:a.b+c@xn--bcher-kva.example"),
            ("email:root@localhost", "email:root@localhost"),
            (
                "webhook:HTTPS://Receiver.Example:443/a/../hook?x=1",
                "webhook:https://receiver.example/hook?x=1",
            ),
            ("webhook:http://127.1/", "webhook:http://127.0.0.1/"),
            ("webhook:http://0x7f000001/", "webhook:http://127.0.0.1/"),
            ("file:", "file:"),
            ("file:legal team", "file:legal team"),
        ] {
            let recipient = Recipient::parse(text).unwrap();
            assert_eq!(recipient.to_string(), spelt);
            assert_eq!(Recipient::parse(spelt).unwrap(), recipient);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "ann@example.com",
            "Email:ann@example.com",
            "sms:+4912345",
            "email:",
            "email:ann",
            "email:@example.com",
            "email:ann@",
            "email:ann@@example.com",
            "email:ann@b@example.com",
            "email:a b@example.com",
            "email:.ann@example.com",
            "email:ann..b@example.com",
            "email:\"ann b\"@example.com",
            "email:Ann <ann@example.com>",
            "email:ann@example.com,eve@example.com",
            "email:ann@example.com\r\nBcc: eve@example.com",
            "email:ann@[127.0.0.1]",
            "email:ann@127.0.0.1",
            "email:ann@exa_mple.com",
            "email:ann@-example.com",
            "email:ann@example.com.",
            "email:änn@example.com",
            "webhook:",
            "webhook:/hook",
            "webhook:ftp://example.com/",
            "webhook:file:///etc/passwd",
            "webhook:https://user:secret@example.com/",
            "webhook:https://user@example.com/",
            "webhook:https://example.com/#part",
            "webhook:https://example.com:0/",
            "webhook:https://exa mple.com/",
            "webhook:https://example.com/a\r\nX: y",
            "file:a\nb",
        ] {
            let refusal = Recipient::parse(text).unwrap_err();
            assert_eq!(refusal.code(), "validation_failed", "{text:?}");
        }
        let long = format!("email:{}@example.com", "x".repeat(65));
        assert!(Recipient::parse(&long).is_err());
        assert!(Recipient::parse(&format!("webhook:https://a.example/{}", "x".repeat(1_000))).is_err());
    }

    #[test]
    fn an_address_knows_its_parts() {
        let address = EmailAddress::parse("ann.b@example.com").unwrap();
        assert_eq!((address.name(), address.domain()), ("ann.b", "example.com"));
    }
}
