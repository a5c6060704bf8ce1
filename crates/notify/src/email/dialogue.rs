//! The dialogue with the mail server, and what a failure at each point of it proves.
//!
//! | it fails | it is |
//! |---|---|
//! | before MAIL: no connection, no TLS, no greeting, a login that is refused | not sent: nothing of the mail was said |
//! | at MAIL, RCPT or DATA, by a word of the server | transient by 4xx, permanent by 5xx |
//! | at MAIL, RCPT or DATA, by silence or a broken connection; or while the data is written | not sent: the server has no whole mail |
//! | after the data, by a word of the server | transient by 4xx, permanent by 5xx |
//! | after the data, by silence or a broken connection | **unknown** |
//!
//! The library writes the data part by part and then ends it. That it asks for another part when there is none is how we know
//! that the end is about to be written; whatever goes wrong from then on is unknown.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_core::notify::EmailAddress;
use docket_core::refusal::{Refusal, Refused};
use lettre::Address;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::{Response, Severity};

use super::config::{EmailConfig, Encryption};
use crate::{ConfigError, Sent, Words};

/// The data is written in parts of this size.
const PART_BYTES: usize = 64 << 10;
/// How long a server that has already answered gets for its goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

/// The server, and how to speak with it.
pub(super) struct Server {
    config: EmailConfig,
    from: Address,
    hello: ClientId,
    tls: TlsParameters,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// Where in the dialogue something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before the mail was spoken of.
    Opening,
    /// From MAIL to the last part of the data.
    Mail,
    /// From the end of the data on.
    Ended,
}

/// What went wrong.
struct Failure {
    stage: Stage,
    /// The server's code, if it was the server who said no.
    code: Option<u16>,
    words: String,
}

impl Server {
    pub(super) fn new(config: &EmailConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let wrong = |key, error: &dyn fmt::Display| ConfigError::new(key, error.to_string());
        let mut tls = TlsParameters::builder(config.host.clone());
        if let Some(pem) = &config.trusted_pem {
            let certificate = Certificate::from_pem(pem).map_err(|error| wrong("ca_file", &error))?;
            tls = tls.add_root_certificate(certificate);
        }
        let from = &config.from.address;
        Ok(Self {
            from: address(from).map_err(|error| wrong("from", &error))?,
            hello: ClientId::Domain(from.domain().to_owned()),
            tls: tls.build_rustls().map_err(|error| wrong("url", &error))?,
            config: config.clone(),
        })
    }

    /// Sends one mail; `id` is what it is known by once the server has it.
    pub(super) async fn send(&self, to: &EmailAddress, mail: &[u8], id: String) -> Sent {
        let to = match address(to) {
            Ok(to) => to,
            Err(refusal) => {
                return Sent::Permanent {
                    gone: false,
                    words: Words::new(refusal.to_string()),
                };
            }
        };
        match self.speak(to, mail).await {
            Ok(words) => Sent::Accepted {
                id,
                words: Words::new(words),
            },
            Err(failure) => failure.judged(),
        }
    }

    async fn speak(&self, to: Address, mail: &[u8]) -> Result<String, Failure> {
        let opened = self.in_time(Stage::Opening, self.open());
        let mut connection = opened.await?;
        let announced = self.in_time(Stage::Mail, announce(&mut connection, self.from.clone(), to));
        announced.await?;
        let ended = AtomicBool::new(false);
        // The line break before the final dot is the mail's own.
        let mut parts = mail.strip_suffix(b"\r\n").unwrap_or(mail).chunks(PART_BYTES);
        let parts = std::iter::from_fn(|| {
            let part = parts.next();
            ended.store(part.is_none(), Ordering::SeqCst);
            part
        });
        let answer = tokio::time::timeout(self.config.timeout, connection.message_iter(parts)).await;
        let stage = match ended.load(Ordering::SeqCst) {
            true => Stage::Ended,
            false => Stage::Mail,
        };
        let response = match answer {
            Ok(answer) => answer.map_err(|error| Failure::by(stage, &error))?,
            Err(_) => return Err(Failure::silence(stage)),
        };
        let words = said(&response);
        if response.code().severity != Severity::PositiveCompletion {
            return Err(Failure::words(
                stage,
                format!("the server answered the end of the data with {words}"),
            ));
        }
        // The mail is the server's. A slow goodbye must not delay the mark, nor a failed one undo it.
        tokio::spawn(async move { tokio::time::timeout(GOODBYE, connection.quit()).await.is_ok() });
        Ok(words)
    }

    async fn in_time<T>(
        &self,
        stage: Stage,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.config.timeout, step).await {
            Ok(done) => done,
            Err(_) => Err(Failure::silence(stage)),
        }
    }

    /// Connects, encrypts and logs in.
    async fn open(&self) -> Result<AsyncSmtpConnection, Failure> {
        let config = &self.config;
        let failure = |error: SmtpError| Failure::by(Stage::Opening, &error);
        let server = (config.host.as_str(), config.port);
        let implicit = config.implicit_tls.then(|| self.tls.clone());
        let connecting =
            AsyncSmtpConnection::connect_tokio1(server, Some(config.timeout), &self.hello, implicit, None);
        let mut connection = connecting.await.map_err(failure)?;
        let wanted = config.encryption == Encryption::Required
            || (config.encryption == Encryption::Offered && connection.can_starttls());
        if wanted && !config.implicit_tls {
            let started = connection.starttls(self.tls.clone(), &self.hello);
            started.await.map_err(failure)?;
        }
        let Some(login) = &config.login else {
            return Ok(connection);
        };
        if !config.password_may_go(connection.is_encrypted()) {
            let words = "the server does not offer STARTTLS, and the password is not sent in the clear";
            return Err(Failure::words(Stage::Opening, words.to_owned()));
        }
        let credentials = Credentials::new(login.user.clone(), login.password.reveal().to_owned());
        let mechanisms = [Mechanism::Plain, Mechanism::Login];
        connection
            .auth(&mechanisms, &credentials)
            .await
            .map_err(failure)?;
        Ok(connection)
    }
}

/// Says from whom and to whom, until the server is ready for the data.
async fn announce(connection: &mut AsyncSmtpConnection, from: Address, to: Address) -> Result<(), Failure> {
    let failure = |error: SmtpError| Failure::by(Stage::Mail, &error);
    connection
        .command(Mail::new(Some(from), Vec::new()))
        .await
        .map_err(failure)?;
    connection
        .command(Rcpt::new(to, Vec::new()))
        .await
        .map_err(failure)?;
    let ready = connection.command(Data).await.map_err(failure)?;
    if ready.code().severity != Severity::PositiveIntermediate {
        return Err(Failure::words(
            Stage::Mail,
            format!("the server answered DATA with {}", said(&ready)),
        ));
    }
    Ok(())
}

impl Failure {
    fn by(stage: Stage, error: &SmtpError) -> Self {
        Self {
            stage,
            code: error.status().map(u16::from),
            words: error.to_string(),
        }
    }

    fn silence(stage: Stage) -> Self {
        Self::words(stage, "the server did not answer in time".to_owned())
    }

    fn words(stage: Stage, words: String) -> Self {
        Self {
            stage,
            code: None,
            words,
        }
    }

    fn judged(self) -> Sent {
        let words = Words::new(self.words);
        let retry_after = None;
        match (self.stage, self.code) {
            (_, Some(400..=499)) => Sent::Transient { retry_after, words },
            (Stage::Mail | Stage::Ended, Some(500..=599)) => Sent::Permanent { gone: false, words },
            (Stage::Opening | Stage::Mail, _) => Sent::NotSent { words },
            (Stage::Ended, _) => Sent::Unknown { retry_after, words },
        }
    }
}

fn said(response: &Response) -> String {
    let lines: Vec<&str> = response.message().collect();
    format!("{} {}", response.code(), lines.join(" "))
}

/// The address as the library has it.
pub(super) fn address(address: &EmailAddress) -> Refused<Address> {
    Address::new(address.name(), address.domain())
        .map_err(|error| Refusal::invalid("recipient", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_silence_after_the_data_is_unknown() {
        for (stage, code, outcome) in [
            (Stage::Opening, None, "not_sent"),
            (Stage::Opening, Some(421), "transient"),
            (Stage::Opening, Some(535), "not_sent"),
            (Stage::Mail, None, "not_sent"),
            (Stage::Mail, Some(450), "transient"),
            (Stage::Mail, Some(550), "permanent"),
            (Stage::Ended, Some(452), "transient"),
            (Stage::Ended, Some(554), "permanent"),
            (Stage::Ended, None, "unknown"),
        ] {
            let failure = Failure {
                stage,
                code,
                words: String::new(),
            };
            assert_eq!(failure.judged().as_str(), outcome, "{stage:?} {code:?}");
        }
    }
}
