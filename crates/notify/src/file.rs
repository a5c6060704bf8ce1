//! Deliveries as lines in a file: what a deployment without a mail server shows, and a channel that can promise everything.
//!
//! A delivery is one line of JSON that ends with a line break and is on the disk before the answer. A line without its break was
//! torn by a crash: it does not count, and the next append cuts it off. The file is locked while it is written or searched, so
//! that processes on one machine can share it. A send that its caller gives up while it waits for the lock writes nothing: whoever looks
//! under the lock afterwards sees what will ever be there.
//!
//! Deliberately absent: an index in memory. Sending never searches; only a lookup reads the file, and lookups are rare.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_core::notify::{ChannelKind, DeliveryToken, Message, OnUnknown, Recipient};
use docket_core::refusal::{Refusal, Refused};
use docket_wire::Time;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{Abilities, Channel, Found, Frozen, Lookup, Sent, Words};

/// How much is read at once when the end of the last whole line is looked for.
const STEP: u64 = 64 << 10;

/// Deliveries as lines in a file.
#[derive(Clone, Debug)]
pub struct FileChannel {
    path: PathBuf,
    /// Whether this file holds every delivery of the deployment.
    complete: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    token: &'a DeliveryToken,
    recipient: &'a Recipient,
    changelist_id: &'a str,
    review_version: u64,
    subject: &'a str,
    body: &'a str,
    created_at: Time,
}

impl FileChannel {
    /// A channel into this file, which is made when it is first needed. It can be asked about deliveries only if it is
    /// `complete`: servers with a folder each do not see one another's lines.
    pub fn new(path: impl Into<PathBuf>, complete: bool) -> Self {
        Self {
            path: path.into(),
            complete,
        }
    }
}

impl Channel for FileChannel {
    fn kind(&self) -> ChannelKind {
        ChannelKind::File
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            idempotent_for: None,
            lookup: self.complete.then_some(Lookup { lag: Duration::ZERO }),
            on_unknown: OnUnknown::Hold,
        }
    }

    fn render(&self, message: &Message, recipient: &Recipient, token: &DeliveryToken) -> Refused<Frozen> {
        let Recipient::File(_) = recipient else {
            return Err(Refusal::invalid("recipient", "is no file"));
        };
        let line = Line {
            token,
            recipient,
            changelist_id: message.changelist_id(),
            review_version: message.review_version(),
            subject: message.subject(),
            body: message.body(),
            created_at: message.created_at().into(),
        };
        let mut body =
            serde_json::to_vec(&line).map_err(|error| Refusal::invalid("body", error.to_string()))?;
        body.push(b'\n');
        Ok(Frozen {
            token: token.clone(),
            recipient: recipient.clone(),
            headers: Vec::new(),
            body,
        })
    }

    fn send<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Sent> {
        let (path, line, id) = (self.path.clone(), frozen.body.clone(), frozen.token.to_string());
        async move {
            let caller = Waiting::default();
            let given_up = Arc::clone(&caller.given_up);
            let append = move || append(&path, &line, &given_up);
            match tokio::task::spawn_blocking(append).await {
                Ok(Ok(end)) => Sent::Accepted {
                    id,
                    words: Words::new(format!("written up to byte {end}")),
                },
                Ok(Err(Unwritten::Proven(error))) => Sent::NotSent {
                    words: Words::new(error.to_string()),
                },
                Ok(Err(Unwritten::Perhaps(error))) => unknown(&error),
                Err(error) => unknown(&error),
            }
        }
        .boxed()
    }

    fn lookup<'a>(&'a self, token: &'a DeliveryToken) -> BoxFuture<'a, Found> {
        let (path, token) = (self.path.clone(), token.clone());
        let unknown = |words: String| Found::Unknown {
            retry_after: None,
            words: Words::new(words),
        };
        if !self.complete {
            let words = "other servers have files of their own, which this one cannot see";
            return std::future::ready(unknown(words.to_owned())).boxed();
        }
        async move {
            let id = token.to_string();
            match tokio::task::spawn_blocking(move || contains(&path, &token)).await {
                Ok(Ok(true)) => Found::Found {
                    id,
                    words: Words::new("the file has its line"),
                },
                Ok(Ok(false)) => Found::Absent {
                    words: Words::new("the file has no such line"),
                },
                Ok(Err(error)) => unknown(error.to_string()),
                Err(error) => unknown(error.to_string()),
            }
        }
        .boxed()
    }
}

/// A caller who waits for an answer. Whoever goes away says so by dropping it.
#[derive(Default)]
struct Waiting {
    given_up: Arc<AtomicBool>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::SeqCst);
    }
}

fn unknown(error: &dyn std::error::Error) -> Sent {
    Sent::Unknown {
        retry_after: None,
        words: Words::new(error.to_string()),
    }
}

/// Why a line may not be there.
enum Unwritten {
    /// It is not there.
    Proven(io::Error),
    /// It may be there, and may vanish with the next power cut.
    Perhaps(io::Error),
}

/// Appends a line and waits for the disk; the size of the file afterwards. Nothing is written for a caller who has given up.
fn append(path: &Path, line: &[u8], given_up: &AtomicBool) -> Result<u64, Unwritten> {
    let (mut file, end) = open_healed(path).map_err(Unwritten::Proven)?;
    if given_up.load(Ordering::SeqCst) {
        let error = io::Error::new(
            io::ErrorKind::TimedOut,
            "it was given up before the file could be written",
        );
        return Err(Unwritten::Proven(error));
    }
    if let Err(error) = file.write_all(line) {
        // What was written of it has no line break, or is cut off here.
        return match file.set_len(end).and_then(|()| file.sync_all()) {
            Ok(()) => Err(Unwritten::Proven(error)),
            Err(_) => Err(Unwritten::Perhaps(error)),
        };
    }
    file.sync_all().map_err(Unwritten::Perhaps)?;
    Ok(end + line.len() as u64)
}

/// The file, locked, without a torn last line, and its size.
fn open_healed(path: &Path) -> io::Result<(File, u64)> {
    let is_new = !path.try_exists()?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    file.lock()?;
    let size = file.metadata()?.len();
    let end = end_of_lines(&mut file, size)?;
    if end < size {
        file.set_len(end)?;
    }
    if is_new && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        // A new file's name has to be on the disk too.
        File::open(folder)?.sync_all()?;
    }
    Ok((file, end))
}

/// Where the last whole line ends.
fn end_of_lines(file: &mut File, size: u64) -> io::Result<u64> {
    let mut end = size;
    let mut buffer = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        buffer.clear();
        (&*file).take(end - start).read_to_end(&mut buffer)?;
        if let Some(last) = buffer.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Whether a whole line bears this token.
fn contains(path: &Path, token: &DeliveryToken) -> io::Result<bool> {
    #[derive(Deserialize)]
    struct Tokened {
        token: String,
    }
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    file.lock_shared()?;
    let mut lines = BufReader::new(&file);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 || line.last() != Some(&b'\n') {
            return Ok(false);
        }
        // Most lines are told apart without reading them as JSON.
        let maybe = line
            .windows(token.as_str().len())
            .any(|part| part == token.as_str().as_bytes());
        let read = maybe
            .then(|| serde_json::from_slice::<Tokened>(&line).ok())
            .flatten();
        if read.is_some_and(|line| line.token == token.as_str()) {
            // The writer may have died between the line and the disk.
            file.sync_all()?;
            return Ok(true);
        }
    }
}
