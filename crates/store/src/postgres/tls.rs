//! TLS to PostgreSQL, by the words that every PostgreSQL client knows: `sslmode` and `sslrootcert` of the URL.
//!
//! `disable`: none. `prefer`, which is the default: where the server offers it, to whoever it is. `require`: always, to whoever it is.
//! `verify-ca`: to somebody whom a trusted authority vouches for. `verify-full`: and whose name is the one in the URL. The
//! authorities are those of `sslrootcert=FILE`, else the system's; with a file `require` looks at them too, as libpq does.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;

use super::connect::CONNECT_TIMEOUT;
use super::flight::Flights;
use crate::error::{Error, Result};

/// A message of eight bytes: its length, and what no version of the protocol is called.
const ASK_FOR_TLS: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Whom a connection is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    /// Whoever answers.
    Nobody,
    /// Somebody whom an authority vouches for.
    Authority,
    /// The one whose name was given, vouched for.
    Name,
}

/// What a URL says of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) mode: SslMode,
    checked: Checked,
    roots: Option<PathBuf>,
}

/// Takes what is said of TLS out of a URL: the driver knows fewer words.
pub(super) fn split(url: &str) -> Result<(String, Wanted)> {
    let (mut word, mut roots) = (None, None);
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => word = Some(value),
            Some(("sslrootcert", value)) => roots = Some(path(value)?),
            _ => rest.push(pair),
        }
    }
    // As with libpq, the word for the system's own authorities.
    let roots = roots.filter(|roots| roots.as_os_str() != "system");
    let (mode, checked) = match word {
        Some("disable") => (SslMode::Disable, Checked::Nobody),
        None | Some("prefer") => (SslMode::Prefer, Checked::Nobody),
        Some("require") if roots.is_some() => (SslMode::Require, Checked::Authority),
        Some("require") => (SslMode::Require, Checked::Nobody),
        Some("verify-ca") => (SslMode::Require, Checked::Authority),
        Some("verify-full") => (SslMode::Require, Checked::Name),
        Some(other) => {
            return Err(Error::Open(format!(
                "sslmode is disable, prefer, require, verify-ca or verify-full, not '{other}'"
            )));
        }
    };
    let wanted = Wanted { mode, checked, roots };
    match rest.is_empty() {
        true => Ok((base.to_owned(), wanted)),
        false => Ok((format!("{base}?{}", rest.join("&")), wanted)),
    }
}

fn path(value: &str) -> Result<PathBuf> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    decoded
        .map(|path| PathBuf::from(path.as_ref()))
        .map_err(|_| Error::Open("sslrootcert is no path".to_owned()))
}

/// Makes connections safe, where that is wanted.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    mode: SslMode,
}

impl Tls {
    pub(super) fn new(wanted: &Wanted) -> Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let cannot =
            |problem: &dyn std::error::Error| Error::Open(format!("TLS cannot be set up: {problem}"));
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|problem| cannot(&problem))?;
        let inner = match wanted.checked {
            Checked::Nobody => None,
            Checked::Authority | Checked::Name => {
                let roots = Arc::new(authorities(wanted.roots.as_ref())?);
                let inner = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
                Some(inner.map_err(|problem| cannot(&problem))?)
            }
        };
        let verifier = Verifier {
            inner,
            by_name: wanted.checked == Checked::Name,
            provider,
        };
        let config = config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            mode: wanted.mode,
        })
    }
}

fn authorities(file: Option<&PathBuf>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(file) => {
            let problem = |why: &str| Error::Open(format!("sslrootcert {}: {why}", file.display()));
            let read = CertificateDer::pem_file_iter(file).map_err(|error| problem(&error.to_string()))?;
            for certificate in read {
                let certificate = certificate.map_err(|error| problem(&error.to_string()))?;
                roots
                    .add(certificate)
                    .map_err(|error| problem(&error.to_string()))?;
            }
        }
    }
    if roots.is_empty() {
        return Err(Error::Open(
            "no certificate authority is known to check the database's certificate by; name a file with sslrootcert"
                .to_owned(),
        ));
    }
    Ok(roots)
}

/// Looks at the server's certificate as closely as is wanted. That the server holds its key is checked always.
#[derive(Debug)]
struct Verifier {
    /// Who vouches; none where nobody has to.
    inner: Option<Arc<WebPkiServerVerifier>>,
    by_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        revocation: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        match inner.verify_server_cert(certificate, between, name, revocation, now) {
            // The name is looked at last: all else was found good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.by_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

impl Tls {
    /// No handshake: over a Unix socket nobody is asked for one.
    pub(super) fn none(&self) -> Connect {
        let (connector, mode) = (self.connector.clone(), SslMode::Disable);
        Connect {
            tls: Self { connector, mode },
            name: ServerName::IpAddress(Ipv4Addr::LOCALHOST.into()),
        }
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Flights<Stream<S>>;
    type TlsConnect = Connect;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Connect, Self::Error> {
        Ok(Connect {
            tls: self.clone(),
            name: ServerName::try_from(domain)?.to_owned(),
        })
    }
}

/// A handshake to be made.
pub(super) struct Connect {
    tls: Tls,
    name: ServerName<'static>,
}

impl Connect {
    async fn stream<S>(self, mut stream: S) -> io::Result<Stream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if self.tls.mode == SslMode::Disable {
            return Ok(Stream::Plain(stream));
        }
        stream.write_all(&ASK_FOR_TLS).await?;
        match stream.read_u8().await? {
            b'S' => {
                let safe = self.tls.connector.connect(self.name, stream).await?;
                Ok(Stream::Safe(Box::new(safe)))
            }
            _ if self.tls.mode == SslMode::Prefer => Ok(Stream::Plain(stream)),
            _ => Err(io::Error::other(
                "the server does not support TLS, and sslmode requires it",
            )),
        }
    }
}

impl<S> TlsConnect<S> for Connect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Flights<Stream<S>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Stream>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            // One that takes connections and says nothing must not use up the time of the servers named after it.
            let made = tokio::time::timeout(CONNECT_TIMEOUT, self.stream(stream)).await;
            let made = made.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            made.map(Flights::new)
        })
    }
}

/// A connection, safe or not.
pub(super) enum Stream<S> {
    Plain(S),
    Safe(Box<tokio_rustls::client::TlsStream<S>>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Safe(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Safe(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Safe(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Safe(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_says_of_tls_is_taken_out_of_it() {
        use Checked::{Authority, Name, Nobody};
        for (query, rest, mode, checked, roots) in [
            ("", "", SslMode::Prefer, Nobody, None),
            ("?sslmode=disable", "", SslMode::Disable, Nobody, None),
            ("?sslmode=require", "", SslMode::Require, Nobody, None),
            (
                "?sslmode=require&sslrootcert=ca.pem",
                "",
                SslMode::Require,
                Authority,
                Some("ca.pem"),
            ),
            (
                "?sslmode=verify-ca&user=ann",
                "?user=ann",
                SslMode::Require,
                Authority,
                None,
            ),
            (
                "?a=1&sslmode=verify-full&b=2",
                "?a=1&b=2",
                SslMode::Require,
                Name,
                None,
            ),
            (
                "?sslmode=verify-full&sslrootcert=system",
                "",
                SslMode::Require,
                Name,
                None,
            ),
            (
                "?sslrootcert=%2Fetc%2Fca.pem&sslmode=verify-full",
                "",
                SslMode::Require,
                Name,
                Some("/etc/ca.pem"),
            ),
        ] {
            let (url, wanted) = split(&format!("postgres://db/docket{query}")).unwrap();
            assert_eq!(url, format!("postgres://db/docket{rest}"), "{query}");
            let roots = roots.map(PathBuf::from);
            assert_eq!(wanted, Wanted { mode, checked, roots }, "{query}");
        }
        let problem = split("postgres://db/docket?sslmode=maybe")
            .unwrap_err()
            .to_string();
        assert!(problem.contains("verify-full, not 'maybe'"), "{problem}");
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_its_name() {
        let (_, wanted) =
            split("postgres://db/docket?sslmode=verify-full&sslrootcert=/nowhere/ca.pem").unwrap();
        let problem = Tls::new(&wanted).err().map(|error| error.to_string());
        assert!(problem.is_some_and(|problem| problem.contains("/nowhere/ca.pem")));
    }
}
