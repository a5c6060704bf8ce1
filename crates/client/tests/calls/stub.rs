//! A server made of a socket and a function: one request a connection, every request remembered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    head: String,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
    }
}

pub(crate) enum Reply {
    /// Status, further headers, body.
    Answer(u16, String, String),
    /// Bytes of an event stream, and then the end.
    Events(String),
    /// An answer after a while.
    Later(Duration, Box<Self>),
    HangUp,
}

impl Reply {
    pub(crate) fn json(status: u16, body: impl Into<String>) -> Self {
        Self::Answer(
            status,
            "content-type: application/json\r\n".to_owned(),
            body.into(),
        )
    }

    pub(crate) fn events(text: &str) -> Self {
        Self::Events(text.to_owned())
    }

    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        match self {
            Self::Answer(status, headers, body) => {
                Self::Answer(status, format!("{headers}{name}: {value}\r\n"), body)
            }
            other => other,
        }
    }
}

pub(crate) struct Stub {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    late_bytes: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Stub {
    pub(crate) async fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("the port has a number"));
        let (requests, late_bytes) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (answer, kept, counted) = (Arc::new(answer), Arc::clone(&requests), Arc::clone(&late_bytes));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, kept, counted) = (Arc::clone(&answer), Arc::clone(&kept), Arc::clone(&counted));
                tokio::spawn(async move {
                    serve(stream, &*answer, &kept, &counted).await.ok();
                });
            }
        });
        Self {
            url,
            requests,
            late_bytes,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("nobody panicked").clone()
    }

    /// Bytes that came after the head of requests whose body was not waited for.
    pub(crate) fn body_bytes(&self) -> usize {
        self.late_bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: &(impl Fn(&Request) -> Reply + ?Sized),
    kept: &Mutex<Vec<Request>>,
    late_bytes: &AtomicUsize,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let head_end = loop {
        let mut piece = [0; 4_096];
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&piece[..read]);
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut request = Request {
        path,
        head,
        body: String::new(),
    };
    // Who asks whether to go on is answered before the body; of the others it is read.
    if request.header("expect").is_none() {
        let length = request
            .header("content-length")
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        while bytes.len() < head_end + length {
            let mut piece = [0; 4_096];
            let read = stream.read(&mut piece).await?;
            if read == 0 {
                return Ok(());
            }
            bytes.extend_from_slice(&piece[..read]);
        }
        request.body = String::from_utf8_lossy(&bytes[head_end..]).into_owned();
    } else {
        late_bytes.fetch_add(bytes.len() - head_end, Ordering::SeqCst);
    }
    kept.lock().expect("nobody panicked").push(request.clone());
    reply(&mut stream, answer(&request)).await?;
    stream.shutdown().await?;
    let mut rest = [0; 65_536];
    while let Ok(read @ 1..) = stream.read(&mut rest).await {
        late_bytes.fetch_add(read, Ordering::SeqCst);
    }
    Ok(())
}

async fn reply(stream: &mut TcpStream, mut reply: Reply) -> std::io::Result<()> {
    while let Reply::Later(wait, then) = reply {
        tokio::time::sleep(wait).await;
        reply = *then;
    }
    let text = match reply {
        Reply::HangUp | Reply::Later(..) => return Ok(()),
        Reply::Events(text) => {
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{text}")
        }
        Reply::Answer(status, headers, body) => format!(
            "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ),
    };
    stream.write_all(text.as_bytes()).await
}

/// How long something took, and what it gave.
#[expect(clippy::disallowed_methods, reason = "a test that measures a real wait")]
pub(crate) async fn timed<T>(future: impl Future<Output = T>) -> (Duration, T) {
    let begin = Instant::now();
    let value = future.await;
    (begin.elapsed(), value)
}
