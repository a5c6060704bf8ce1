//! What is too large to be held: downloads, piece by piece.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, Response};
use tokio::io::AsyncWriteExt as _;

use crate::client::{Call, Client};
use crate::error::{ClientError, Result};

/// A server that sends nothing for so long has gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// A whole download may take a day.
const DOWNLOAD_MAX: Duration = Duration::from_secs(86_400);
/// How often a download that broke off is begun again.
const ATTEMPTS: u32 = 4;

/// Bytes on their way.
#[derive(Debug)]
pub struct Download {
    client: Client,
    response: Response,
}

impl Download {
    /// The next piece; none at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        match tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await {
            Ok(piece) => piece.map_err(|error| self.client.transport(error)),
            Err(_) => Err(self.client.unreadable("the download has stopped half-way")),
        }
    }
}

impl Client {
    /// Makes a call and gives its answer out piece by piece.
    pub(crate) async fn open(&self, mut call: Call) -> Result<Download> {
        call.timeout = Some(DOWNLOAD_MAX);
        let response = self.send(call).await?;
        Ok(Download {
            client: self.clone(),
            response,
        })
    }

    /// The file of an item.
    pub async fn item_content(&self, id: &str) -> Result<Download> {
        self.open(self.get(&["api", "v1", "items", id, "content"])).await
    }

    /// Writes what is at a URL, absolute or relative to the server, to a file; how many bytes there were. The key goes along
    /// only to the server itself.
    pub async fn download(&self, url: &str, to: &Path) -> Result<u64> {
        let base = self.url(&[]);
        let url = base
            .join(url)
            .map_err(|problem| self.unreadable(&format!("the content's URL cannot be read: {problem}")))?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut call = self.call(Method::GET, &[]);
            call.url = url.clone();
            let done = match self.open(call).await {
                Ok(download) => write(download, to).await,
                Err(error) => Err(error),
            };
            match done {
                Err(error) if error.is_passing() && attempt < ATTEMPTS => {
                    tokio::time::sleep(crate::retry::backoff(attempt, 200, 5_000, self.random())).await;
                }
                done => return done,
            }
        }
    }
}

async fn write(mut download: Download, to: &Path) -> Result<u64> {
    let failed = |source| ClientError::File {
        what: format!("{} cannot be written", to.display()),
        source,
    };
    let mut file = tokio::fs::File::create(to).await.map_err(failed)?;
    let mut size = 0;
    while let Some(piece) = download.next().await? {
        file.write_all(&piece).await.map_err(failed)?;
        size += piece.len() as u64;
    }
    file.flush().await.map_err(failed)?;
    Ok(size)
}
