//! A proxy before a mail server that breaks the dialogue at a chosen point. It reads plain SMTP, one mail for each connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Where the dialogue breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailCut {
    /// Nowhere.
    Never,
    /// The server's first word does not arrive: the connection is closed instead.
    Greeting,
    /// The connection is closed when the client says this word (`MAIL`, `RCPT`, `DATA`).
    Command(&'static str),
    /// The connection is closed when so many bytes of data have passed.
    Data(usize),
    /// The server gets all of the data and answers; its answer does not arrive, and the connection is closed.
    SwallowAnswer,
    /// The same, and the connection stays open in silence.
    WithholdAnswer,
}

/// A proxy before a mail server.
#[derive(Debug)]
pub struct MailProxy {
    /// Where it listens.
    pub port: u16,
    swallowed: Arc<AtomicU64>,
    cuts: Arc<Mutex<Vec<MailCut>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for MailProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MailProxy {
    /// A proxy before the server on this port that breaks every dialogue here.
    pub async fn before(behind: u16, cut: MailCut) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let swallowed = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&swallowed);
        let cuts = Arc::new(Mutex::new(vec![cut]));
        let in_turn = Arc::clone(&cuts);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let cut = next(&in_turn);
                tokio::spawn(pass(client, behind, cut, Arc::clone(&counted)));
            }
        });
        Self {
            port,
            swallowed,
            cuts,
            task,
        }
    }

    /// Breaks the dialogues to come at these points, in turns; with none it passes everything on.
    pub fn cut_at(&self, cuts: &[MailCut]) {
        *self.cuts.lock().expect("nobody panics with the lock") = cuts.to_vec();
    }

    /// How many answers to whole mails did not arrive. The server had answered.
    pub fn swallowed(&self) -> u64 {
        self.swallowed.load(Ordering::SeqCst)
    }
}

/// The first cut, which then is the last in turn.
fn next(cuts: &Mutex<Vec<MailCut>>) -> MailCut {
    let mut cuts = cuts.lock().expect("nobody panics with the lock");
    let first = cuts.first().copied().unwrap_or(MailCut::Never);
    if !cuts.is_empty() {
        cuts.rotate_left(1);
    }
    first
}

async fn pass(client: TcpStream, behind: u16, cut: MailCut, swallowed: Arc<AtomicU64>) {
    let server = TcpStream::connect(("127.0.0.1", behind)).await;
    let (from_server, to_server) = server.expect("the mail server listens").into_split();
    let (from_client, to_client) = client.into_split();
    let dialogue = Dialogue {
        from_client,
        to_client,
        from_server,
        to_server,
        cut,
    };
    // Whatever ends it, both sockets are closed.
    dialogue.run(&swallowed).await;
}

struct Dialogue {
    from_client: OwnedReadHalf,
    to_client: OwnedWriteHalf,
    from_server: OwnedReadHalf,
    to_server: OwnedWriteHalf,
    cut: MailCut,
}

impl Dialogue {
    /// Passes on, in turns: SMTP without pipelining is one word from the client, one answer from the server.
    async fn run(mut self, swallowed: &AtomicU64) -> Option<()> {
        let greeting = read_answer(&mut self.from_server).await?;
        if self.cut == MailCut::Greeting {
            return None;
        }
        self.to_client.write_all(&greeting).await.ok()?;
        loop {
            let command = read_until(&mut self.from_client, b"\r\n").await?;
            if matches!(self.cut, MailCut::Command(word) if command.starts_with(word.as_bytes())) {
                return None;
            }
            self.to_server.write_all(&command).await.ok()?;
            let answer = read_answer(&mut self.from_server).await?;
            self.to_client.write_all(&answer).await.ok()?;
            if command.starts_with(b"DATA") && answer.starts_with(b"354") {
                self.data(swallowed).await?;
            }
        }
    }

    async fn data(&mut self, swallowed: &AtomicU64) -> Option<()> {
        if let MailCut::Data(bytes) = self.cut {
            let mut buffer = vec![0; bytes];
            self.from_client.read_exact(&mut buffer).await.ok()?;
            self.to_server.write_all(&buffer).await.ok()?;
            return None;
        }
        let data = read_until(&mut self.from_client, b"\r\n.\r\n").await?;
        self.to_server.write_all(&data).await.ok()?;
        let answer = read_answer(&mut self.from_server).await?;
        if matches!(self.cut, MailCut::SwallowAnswer | MailCut::WithholdAnswer) {
            swallowed.fetch_add(1, Ordering::SeqCst);
            if self.cut == MailCut::WithholdAnswer {
                // Until the client has had enough.
                self.from_client.read_u8().await.ok()?;
            }
            return None;
        }
        self.to_client.write_all(&answer).await.ok()
    }
}

/// Reads up to an ending.
async fn read_until(from: &mut OwnedReadHalf, ending: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(ending) {
        bytes.push(from.read_u8().await.ok()?);
    }
    Some(bytes)
}

/// Reads an answer: lines with a hyphen after the code, and a last one without.
async fn read_answer(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    loop {
        let line = read_until(from, b"\r\n").await?;
        let last = line.get(3) != Some(&b'-');
        answer.extend(line);
        if last {
            return Some(answer);
        }
    }
}
