//! A child process and all that it starts: a process group of its own, ended as a whole.
//!
//! Invariant: whatever way a child ends, its group is killed before the job is answered for. A process that it left behind
//! would work on without a lease.
//!
//! The key never reaches a child: its environment is ours without `DOCKET_KEY` and `DOCKET_ADMIN_KEY`.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// How long the output of a child that has ended is waited for.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);
const SECRETS: [&str; 3] = ["DOCKET_KEY", "DOCKET_ADMIN_KEY", "DOCKET_DATABASE_URL"];

/// A running child.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    id: Option<Pid>,
}

/// The ends of its pipes that are ours.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// Starts a command by the shell, in a group of its own.
pub(crate) fn start(command: &str, variables: &[(&str, OsString)]) -> io::Result<(Group, Pipes)> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command);
    shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for secret in SECRETS {
        shell.env_remove(secret);
    }
    shell.envs(variables.iter().map(|(name, value)| (*name, value)));
    shell.process_group(0).kill_on_drop(true);
    let mut child = shell.spawn()?;
    let id = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let missing = || io::Error::other("the child has no pipes");
    let pipes = Pipes {
        stdin: child.stdin.take().ok_or_else(missing)?,
        stdout: child.stdout.take().ok_or_else(missing)?,
        stderr: child.stderr.take().ok_or_else(missing)?,
    };
    Ok((Group { child, id }, pipes))
}

impl Group {
    /// Waits for the child's end. Safe to drop and to ask again.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends the group: asks it to end, waits as long as is allowed, and then kills what is left.
    pub(crate) async fn end(&mut self, patience: Duration) {
        if !patience.is_zero() {
            self.signal(Signal::TERM);
            if tokio::time::timeout(patience, self.child.wait()).await.is_ok() {
                self.kill();
                return;
            }
        }
        self.kill();
        if let Err(error) = self.child.wait().await {
            tracing::warn!(%error, "the end of a killed process could not be waited for");
        }
    }

    /// Kills what is left of the group.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let Some(id) = self.id else { return };
        match kill_process_group(id, signal) {
            // No such group: everything in it has ended.
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => {
                tracing::warn!(%error, group = id.as_raw_nonzero(), "a process group could not be signalled")
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A handler that is dropped half-way must not leave its processes behind.
        if self.child.id().is_some() {
            self.kill();
        }
    }
}
