//! The little of HTTP that a provider reads and writes by hand: a library would not let it misbehave.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// More than this no request has.
const BYTES_MAX: usize = 4 << 20;

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

/// Reads one request; none where the other side went away before it was whole.
pub(super) async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end;
        }
        read_more(stream, &mut bytes).await?;
    };
    let head = std::str::from_utf8(&bytes[..head_end]).ok()?.to_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: BTreeMap<String, String> = lines.filter_map(header).collect();
    let length: usize = headers
        .get("content-length")
        .map_or(Some(0), |length| length.parse().ok())?;
    while bytes.len() < head_end + 4 + length {
        read_more(stream, &mut bytes).await?;
    }
    Some(Request {
        method,
        path,
        headers,
        body: String::from_utf8(bytes[head_end + 4..][..length].to_vec()).ok()?,
    })
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 16 << 10];
    let n = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
    bytes.extend_from_slice(&buffer[..n]);
    (bytes.len() <= BYTES_MAX).then_some(())
}

/// Writes an answer and ends the connection.
pub(super) async fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let text =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}");
    write(stream, &text).await;
}

/// Writes a text as it is and ends the connection.
pub(super) async fn write(stream: &mut TcpStream, text: &str) {
    // Whoever does not wait for the answer does not get it.
    stream.write_all(text.as_bytes()).await.ok();
    stream.shutdown().await.ok();
}
