//! Uploads: a file, streamed, and only after the server has had time to refuse it.
//!
//! The digest and the size go ahead of the file. A larger file's first byte waits for a moment: a server that refuses by the
//! limit or knows the digest answers in that time, and nothing is sent. (`Expect: 100-continue` is sent along, for servers and
//! proxies that heed it; our HTTP library does not show the interim answer, so the moment is all we can wait for.)

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use docket_wire::item::Uploaded;
use futures_util::stream::{self, Stream};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use reqwest::{Body, Method};
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use crate::client::Client;
use crate::error::{ClientError, Result};

const PIECE: usize = 64 * 1024;
/// Files from this size on are worth the moment.
const LARGE: u64 = 256 * 1024;
const MOMENT: Duration = Duration::from_millis(250);
/// The slowest upload: an hour is how long the server keeps its place.
const UPLOAD_MAX: Duration = Duration::from_secs(3_600);

/// A file to be uploaded.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Where it is.
    pub path: PathBuf,
    /// What it is called there; its own name where nothing is said.
    pub filename: Option<String>,
    /// What it is; `application/octet-stream` where nothing is said.
    pub media_type: Option<String>,
    /// The caller's id.
    pub external_id: Option<String>,
    /// The same key makes the same item; one is made up where none is given.
    pub idempotency_key: Option<String>,
}

impl Upload {
    /// A file under its own name.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            filename: None,
            media_type: None,
            external_id: None,
            idempotency_key: None,
        }
    }

    fn filename(&self) -> String {
        let own = || {
            self.path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        self.filename
            .clone()
            .or_else(own)
            .unwrap_or_else(|| "file".to_owned())
    }
}

impl Client {
    /// Uploads a file into a collection. `sent` is told the bytes as they go. Repeated where it broke off: the key sees to it that
    /// there is one item.
    pub async fn upload(
        &self,
        collection_id: &str,
        upload: &Upload,
        sent: impl Fn(u64) + Clone + Send + Sync + 'static,
    ) -> Result<Uploaded> {
        let (size, digest) = digest(&upload.path).await?;
        let key = upload
            .idempotency_key
            .clone()
            .unwrap_or_else(|| self.idempotency_key());
        let mut made = 0;
        loop {
            made += 1;
            let error = match self
                .upload_once(collection_id, upload, size, &digest, &key, sent.clone())
                .await
            {
                Ok(uploaded) => return Ok(uploaded),
                Err(error) => error,
            };
            match self.retry().wait(made, true, &error, self.random()) {
                None => return Err(error),
                Some(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    async fn upload_once(
        &self,
        collection_id: &str,
        upload: &Upload,
        size: u64,
        digest: &str,
        key: &str,
        sent: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<Uploaded> {
        let file = File::open(&upload.path)
            .await
            .map_err(|source| unreadable(&upload.path, source))?;
        let moment = if size >= LARGE { MOMENT } else { Duration::ZERO };
        let mut url = self.url(&["api", "v1", "collections", collection_id, "documents"]);
        if let Some(id) = &upload.external_id {
            url.query_pairs_mut().append_pair("externalId", id);
        }
        let media_type = upload.media_type.as_deref().unwrap_or("application/octet-stream");
        let mut request = self
            .request(Method::POST, url)
            .header(CONTENT_TYPE, media_type)
            .header(CONTENT_LENGTH, size)
            .header("repr-digest", format!("sha-256=:{digest}:"))
            .header("content-disposition", disposition(&upload.filename()))
            .header("idempotency-key", key)
            .timeout(UPLOAD_MAX);
        if !moment.is_zero() {
            request = request.header(EXPECT, "100-continue");
        }
        let body = Body::wrap_stream(pieces(file, size, moment, sent));
        let response = request
            .body(body)
            .send()
            .await
            .map_err(|error| self.transport(error))?;
        let response = self.accept(response).await?;
        self.read(response).await
    }
}

fn unreadable(path: &Path, source: io::Error) -> ClientError {
    ClientError::File {
        what: format!("{} cannot be read", path.display()),
        source,
    }
}

/// A file's size, and its SHA-256 in base64.
async fn digest(path: &Path) -> Result<(u64, String)> {
    let failed = |source| unreadable(path, source);
    let mut file = File::open(path).await.map_err(failed)?;
    let (mut hash, mut size, mut piece) = (Sha256::new(), 0, vec![0; 4 * PIECE]);
    loop {
        let read = file.read(&mut piece).await.map_err(failed)?;
        if read == 0 {
            return Ok((size, BASE64.encode(hash.finalize())));
        }
        size += read as u64;
        hash.update(&piece[..read]);
    }
}

/// The file's bytes: no more than were counted, so that one that grows meanwhile does not spoil the request.
fn pieces(
    file: File,
    size: u64,
    moment: Duration,
    sent: impl Fn(u64) + Send + Sync + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::unfold(
        (file.take(size), moment, sent),
        async |(mut file, moment, sent)| {
            if !moment.is_zero() {
                tokio::time::sleep(moment).await;
            }
            let mut piece = vec![0; PIECE];
            match file.read(&mut piece).await {
                Ok(0) => None,
                Ok(read) => {
                    piece.truncate(read);
                    sent(read as u64);
                    Some((Ok(piece.into()), (file, Duration::ZERO, sent)))
                }
                Err(error) => Some((Err(error), (file, Duration::ZERO, sent))),
            }
        },
    )
}

/// A `Content-Disposition` that carries any name (RFC 6266, RFC 8187).
fn disposition(filename: &str) -> String {
    let mut escaped = String::with_capacity(filename.len());
    for byte in filename.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte))
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    format!("attachment; filename*=UTF-8''{escaped}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_name_goes_into_a_header() {
        assert_eq!(
            disposition("Rechnung \"März\"\r\n.pdf"),
            "attachment; filename*=UTF-8''Rechnung%20%22M%C3%A4rz%22%0D%0A.pdf"
        );
    }
}
