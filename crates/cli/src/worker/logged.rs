//! What a command says on standard error: into the log, with the job, and not without end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::io::AsyncRead;

use super::lines::Lines;

/// The longest line that is logged.
const LINE_MAX: usize = 4_096;
/// About what a line costs besides its text.
const LINE_COST: usize = 150;
/// How many bytes of one job's output are logged.
const LOGGED_MAX: usize = 256 * 1_024;

/// The log of a process.
#[derive(Debug)]
pub(crate) struct Logged {
    job: Mutex<String>,
    last: Mutex<Option<String>>,
    left: AtomicUsize,
}

impl Logged {
    pub(crate) fn new(job: impl Into<String>) -> Self {
        Self {
            job: Mutex::new(job.into()),
            last: Mutex::default(),
            left: AtomicUsize::new(LOGGED_MAX),
        }
    }

    /// From now on the process works on another job.
    pub(crate) fn begin(&self, job: impl Into<String>) {
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = job.into();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.left.store(LOGGED_MAX, Ordering::Relaxed);
    }

    /// The last line that had something in it.
    pub(crate) fn last(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Logs a line of standard output that is neither step nor answer.
    pub(crate) fn other_output(&self, bytes: &[u8]) {
        let cut = &bytes[..bytes.len().min(LINE_MAX)];
        self.write("stdout", String::from_utf8_lossy(cut).trim_end());
    }

    /// Logs standard error until its end.
    pub(crate) async fn pump(&self, stderr: impl AsyncRead + Unpin) {
        let mut lines = Lines::new(stderr, LINE_MAX);
        while let Ok(Some(line)) = lines.next().await {
            let text = String::from_utf8_lossy(&line.bytes);
            let text = text.trim_end();
            if text.is_empty() {
                continue;
            }
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
            self.write("stderr", text);
        }
    }

    fn write(&self, stream: &str, text: &str) {
        let size = text.len() + LINE_COST;
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
                0 => None,
                left => Some(left.saturating_sub(size)),
            });
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match taken {
            Ok(left) if left > size => tracing::info!(target: "docket::job", %job, stream, "{text}"),
            Ok(_) => tracing::warn!(target: "docket::job", %job, "the command says more than is logged"),
            Err(_) => {}
        }
    }
}
