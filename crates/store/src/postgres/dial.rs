//! Making a connection: over TCP by the driver's own ways, with all that a URL can say of several servers; over a Unix socket here.
//!
//! The driver is told to leave the negotiation of TLS to its connector, which is ours: so every connection, safe or not, is one on
//! which flights share a Sync.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use deadpool_postgres::Connect;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode, SslNegotiation, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Socket};

use super::flight::Flights;
use super::tls::{Stream, Tls};
use crate::error::{Error, Result};

const PORT: u16 = 5432;

/// Makes connections.
#[derive(Clone)]
pub(super) struct Dial {
    tls: Tls,
}

impl Dial {
    /// For this configuration, which is changed so that the driver goes along.
    pub(super) fn new(config: &mut Config, tls: Tls) -> Result<Self> {
        let hosts = config.get_hosts();
        if hosts.iter().any(|host| matches!(host, Host::Unix(_))) {
            let another = match config {
                _ if hosts.len() > 1 => Some("several hosts"),
                _ if !config.get_hostaddrs().is_empty() => Some("hostaddr"),
                _ => None,
            };
            if let Some(another) = another {
                return Err(Error::Open(format!(
                    "the PostgreSQL URL names a Unix socket and {another}; a Unix socket is named alone"
                )));
            }
        }
        if hosts.is_empty() {
            // The name that a certificate is made out to.
            for address in config.get_hostaddrs().to_vec() {
                config.host(address.to_string());
            }
        }
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(Error::Open(
                "the PostgreSQL URL asks for a server that only reads, and Docket has to write; leave target_session_attrs out"
                    .to_owned(),
            ));
        }
        // Of several servers, or of the several that a name stands for, the one that writes. Over a Unix socket there is one alone: the pool
        // looks at it.
        config
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .ssl_mode(SslMode::Require)
            .ssl_negotiation(SslNegotiation::Direct);
        Ok(Self { tls })
    }

    /// Makes one.
    pub(super) async fn dial(&self, config: &Config) -> Result<(Client, Driven), tokio_postgres::Error> {
        let [Host::Unix(folder)] = config.get_hosts() else {
            let (client, connection) = config.connect(self.tls.clone()).await?;
            return Ok((client, Driven::Tcp(connection)));
        };
        let port = config.get_ports().first().copied().unwrap_or(PORT);
        let socket = UnixSocket::open(&folder.join(format!(".s.PGSQL.{port}"))).await;
        let (client, connection) = config.connect_raw(socket, self.tls.none()).await?;
        Ok((client, Driven::Unix(connection)))
    }
}

impl Connect for Dial {
    fn connect(
        &self,
        config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>> + Send + '_>>
    {
        let config = config.clone();
        Box::pin(async move {
            let (client, mut connection) = self.dial(&config).await?;
            let driving = async move {
                while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                    if let Err(error) = message {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "a connection to PostgreSQL broke"
                        );
                        return;
                    }
                }
            };
            Ok((client, tokio::spawn(driving)))
        })
    }
}

/// A connection, which somebody has to drive.
pub(super) enum Driven {
    Tcp(Connection<Socket, Flights<Stream<Socket>>>),
    Unix(Connection<UnixSocket, Flights<Stream<UnixSocket>>>),
}

impl Driven {
    /// Drives it to the next message that nobody asked for, or to its end.
    pub(super) fn poll_message(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<AsyncMessage, tokio_postgres::Error>>> {
        match self {
            Self::Tcp(connection) => connection.poll_message(cx),
            Self::Unix(connection) => connection.poll_message(cx),
        }
    }
}

/// A Unix socket. One that could not be opened says so when it is first used: the driver knows of no error but its own.
pub(super) enum UnixSocket {
    Open(UnixStream),
    Shut(io::ErrorKind, String),
}

impl UnixSocket {
    async fn open(path: &Path) -> Self {
        match UnixStream::connect(path).await {
            Ok(stream) => Self::Open(stream),
            Err(error) => Self::Shut(error.kind(), format!("{}: {error}", path.display())),
        }
    }

    fn stream(self: Pin<&mut Self>) -> io::Result<Pin<&mut UnixStream>> {
        match self.get_mut() {
            Self::Open(stream) => Ok(Pin::new(stream)),
            Self::Shut(kind, why) => Err(io::Error::new(*kind, why.clone())),
        }
    }
}

impl AsyncRead for UnixSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for UnixSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::super::connect::parse;
    use super::super::tls::split;
    use super::*;

    fn dialled(url: &str) -> Result<TargetSessionAttrs> {
        let (url, wanted) = split(url)?;
        let mut config = parse(&url)?;
        Dial::new(&mut config, Tls::new(&wanted)?)?;
        Ok(config.get_target_session_attrs())
    }

    #[test]
    fn only_a_server_that_writes_will_do() {
        for url in [
            "postgres://docket@a,b/docket",
            "postgres://docket@a/docket?target_session_attrs=any",
            "postgres://docket@a/docket?target_session_attrs=read-write",
            "postgres://docket@%2Frun%2Fpostgresql/docket?target_session_attrs=read-write",
        ] {
            assert_eq!(dialled(url).unwrap(), TargetSessionAttrs::ReadWrite, "{url}");
        }
        for (url, words) in [
            (
                "postgres://docket@a/docket?target_session_attrs=read-only",
                "Docket has to write",
            ),
            ("postgres://docket@%2Frun%2Fpostgresql,a/docket", "several hosts"),
        ] {
            let problem = dialled(url).unwrap_err().to_string();
            assert!(problem.contains(words), "{url}: {problem}");
        }
    }
}
