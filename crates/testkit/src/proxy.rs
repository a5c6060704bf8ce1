//! A proxy before PostgreSQL that cuts connections at their commits, before the server has heard of them or after (rule A3).
//!
//! It reads the messages of the engine's side only: a commit is the prepared statement `commit`, as the store sends it, from where
//! it is bound to the Sync after it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What a proxy does to the connections through it.
#[derive(Debug, Default)]
pub struct Mood {
    /// Every so manieth commit is cut; 0 for none.
    pub every: AtomicU64,
    commits: AtomicU64,
    /// Commits that reached the server and whose answer did not reach the engine.
    pub cut_after: AtomicU64,
    /// Commits that did not reach the server.
    pub cut_before: AtomicU64,
    /// Cuts only after the server has the commit.
    pub only_after: AtomicBool,
    /// Cuts only before the server has the commit.
    pub only_before: AtomicBool,
    /// A commit that is to be cut before the server is held back, and its connection kept.
    pub holds: AtomicBool,
    /// After a cut, nobody gets through any more, on whatever connection.
    pub closes: AtomicBool,
    /// Nobody gets through.
    pub closed: AtomicBool,
    /// New connections are taken and kept, and nothing is ever said on them.
    pub silent: AtomicBool,
    /// How many are kept like that.
    pub kept: AtomicU64,
}

/// A proxy before PostgreSQL that can cut a connection at its commit.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    /// What it does.
    pub mood: Arc<Mood>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// A proxy before the server of this URL; it cuts nothing until it is told to.
    pub async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = port_of(url);
        let mood = Arc::new(Mood::default());
        let shared = Arc::clone(&mood);
        let task = tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((client, _)) = listener.accept().await {
                if shared.silent.load(Ordering::SeqCst) {
                    kept.push(client);
                    shared.kept.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                if shared.closed.load(Ordering::SeqCst) {
                    continue;
                }
                tokio::spawn(pass(client, behind, Arc::clone(&shared)));
            }
        });
        Self { port, mood, task }
    }

    /// Where it listens, on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The same URL, by way of the proxy, which reads along: nothing is asked to be encrypted.
    pub fn url(&self, url: &str) -> String {
        let through = url.replace(&format!(":{}/", port_of(url)), &format!(":{}/", self.port));
        let joint = if through.contains('?') { '&' } else { '?' };
        format!("{through}{joint}sslmode=disable")
    }
}

fn port_of(url: &str) -> u16 {
    let (_, rest) = url.rsplit_once(':').unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

async fn pass(client: TcpStream, behind: u16, mood: Arc<Mood>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", behind)).await else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mute = AtomicBool::new(false);
    let answered = tokio::sync::Notify::new();
    // Whatever ends the one way ends the other: both sockets are closed.
    tokio::select! {
        () = pass_back(from_server, to_client, &mute, &answered) => {}
        _ = pass_on(from_client, to_server, &mood, &mute, &answered) => {}
    }
}

/// From the server to the engine; a mute proxy swallows the answer and tells that there was one.
async fn pass_back(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mute: &AtomicBool,
    answered: &tokio::sync::Notify,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        if mute.load(Ordering::SeqCst) {
            // Answers of what was sent together with the commit come before its own; where one of them failed there is none.
            let says = |word: &[u8]| buffer[..n].windows(word.len()).any(|seen| seen == word);
            if says(b"COMMIT\0") || says(b"ROLLBACK\0") || says(b"Z\0\0\0\x05E") {
                answered.notify_one();
            }
        } else if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

/// From the engine to the server, message by message, until the end or a cut.
async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mood: &Mood,
    mute: &AtomicBool,
    answered: &tokio::sync::Notify,
) -> Option<()> {
    // The first message has a length and no type.
    let mut kind = None;
    let mut commits = HashSet::new();
    let mut cut = None;
    loop {
        let length = from.read_u32().await.ok()?;
        let mut body = vec![0; length as usize - 4];
        from.read_exact(&mut body).await.ok()?;
        let mut words = body.split(|byte| *byte == 0);
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match kind {
            Some(b'P') if second == b"commit" => {
                commits.insert(first.to_vec());
            }
            Some(b'B') if commits.contains(second) => cut = mood.cut(),
            _ => {}
        }
        if cut.is_none() && mood.closed.load(Ordering::SeqCst) {
            return None;
        }
        if cut == Some(Cut::Before) {
            mood.cut_before.fetch_add(1, Ordering::SeqCst);
            if mood.holds.load(Ordering::SeqCst) {
                // Until the server breaks the connection: it does not even learn that the commit is lost.
                std::future::pending::<()>().await;
            }
            return None;
        }
        if cut == Some(Cut::After) {
            mute.store(true, Ordering::SeqCst);
        }
        let mut message = Vec::with_capacity(length as usize + 1);
        message.extend(kind);
        message.extend(length.to_be_bytes());
        message.extend(body);
        to.write_all(&message).await.ok()?;
        if cut == Some(Cut::After) && kind == Some(b'S') {
            // Often the server has answered when the connection breaks, and sometimes it is still at work.
            if mood.cut_after.fetch_add(1, Ordering::SeqCst) % 4 != 3 {
                answered.notified().await;
            }
            return None;
        }
        kind = Some(from.read_u8().await.ok()?);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Before,
    After,
}

impl Mood {
    /// Whether this commit is cut, and how.
    fn cut(&self) -> Option<Cut> {
        let every = self.every.load(Ordering::SeqCst);
        let n = self.commits.fetch_add(1, Ordering::SeqCst);
        if every == 0 || !n.is_multiple_of(every) || self.closed.load(Ordering::SeqCst) {
            return None;
        }
        if self.closes.load(Ordering::SeqCst) {
            self.closed.store(true, Ordering::SeqCst);
        }
        let before = match (
            self.only_before.load(Ordering::SeqCst),
            self.only_after.load(Ordering::SeqCst),
        ) {
            (true, _) => true,
            (_, true) => false,
            _ => (n / every) % 3 == 2,
        };
        Some(if before { Cut::Before } else { Cut::After })
    }
}
