//! The checkpoint: how far a run has come, so that the next one goes on there.
//!
//! It is written whole and put in place in one step, after what it says has happened on the server. So it is never ahead: what a run had
//! under way when it was killed is done again, and known again by its id.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::batch::Position;
use super::lines::Head;
use super::refused::Kept;
use super::sum::Sum;

const FORMAT: u32 = 1;
/// Larger than this no checkpoint is.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What a run is about: only the same goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Task {
    pub(super) server: String,
    pub(super) collection: String,
    /// A table in words; a file is known by its head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) table: Option<String>,
    /// The digest of the mapping.
    pub(super) mapping: String,
}

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct State {
    format: u32,
    pub(super) task: Task,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<Head>,
    pub(super) position: Option<Position>,
    /// The file of refused records, and how long it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Kept>,
    pub(super) sum: Sum,
}

impl State {
    /// A run that has not begun.
    pub(super) fn new(task: Task, head: Option<Head>) -> Self {
        Self {
            format: FORMAT,
            task,
            head,
            position: None,
            refused: None,
            sum: Sum::default(),
        }
    }
}

/// The file of the checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
}

impl Checkpoint {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What an earlier run has left, if anything. What is no checkpoint is refused: it is somebody's file.
    pub(super) fn read(&self) -> Result<Option<State>> {
        let shown = self.path.display();
        let size = match std::fs::metadata(&self.path) {
            Ok(about) => about.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("the checkpoint {shown} cannot be read"));
            }
        };
        if size > BYTES_MAX {
            bail!("{shown} is no checkpoint: it has {size} bytes; name another file with --state");
        }
        let text =
            std::fs::read(&self.path).with_context(|| format!("the checkpoint {shown} cannot be read"))?;
        let state: State = serde_json::from_slice(&text).with_context(|| {
            format!("{shown} is no checkpoint of this version; name another file with --state")
        })?;
        if state.format != FORMAT {
            bail!("the checkpoint {shown} is of another version of docket; name another file with --state");
        }
        Ok(Some(state))
    }

    /// Refuses to go on with another run.
    pub(super) fn check(&self, state: &State, task: &Task) -> Result<()> {
        let shown = self.path.display();
        let (was, is) = (&state.task, task);
        let again = "begin again with --restart (what was taken is known and not taken twice), or name another checkpoint with --state";
        for (what, was, is) in [
            ("the collection", &was.collection, &is.collection),
            ("the server", &was.server, &is.server),
        ] {
            if was != is {
                bail!("the checkpoint {shown} is of another run: {what} was {was} and is {is} now; {again}");
            }
        }
        if was.table != is.table {
            let name = |table: &Option<String>| table.clone().unwrap_or_else(|| "a file".to_owned());
            bail!(
                "the checkpoint {shown} is of another run: the source was {} and is {} now; {again}",
                name(&was.table),
                name(&is.table)
            );
        }
        if was.mapping != is.mapping {
            bail!("the checkpoint {shown} is of a run with another mapping; {again}");
        }
        Ok(())
    }

    /// Puts a new checkpoint in place of the old one, in one step.
    pub(super) fn write(&self, state: &State) -> Result<()> {
        let written = || -> std::io::Result<()> {
            let folder = match self.path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let mut file = tempfile::Builder::new()
                .prefix(".backfill-")
                .tempfile_in(folder)?;
            serde_json::to_writer_pretty(&mut file, state)?;
            file.as_file().sync_data()?;
            file.persist(&self.path)?;
            Ok(())
        };
        written().with_context(|| format!("the checkpoint {} cannot be written", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task {
            server: "http://a".to_owned(),
            collection: "docs".to_owned(),
            table: None,
            mapping: "m".to_owned(),
        }
    }

    #[test]
    fn a_checkpoint_is_read_back_by_the_same_run_only() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::new(folder.path().join("state.json"));
        assert_eq!(checkpoint.read().unwrap(), None);
        let mut state = State::new(task(), None);
        state.position = Some(Position::Key("17".to_owned()));
        state.sum.taken = 5;
        checkpoint.write(&State::new(task(), None)).unwrap();
        checkpoint.write(&state).unwrap();
        assert_eq!(checkpoint.read().unwrap().as_ref(), Some(&state));
        checkpoint.check(&state, &task()).unwrap();
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing else is left behind");
        for (other, said) in [
            (
                Task {
                    collection: "other".to_owned(),
                    ..task()
                },
                "the collection was docs and is other now",
            ),
            (
                Task {
                    server: "http://b".to_owned(),
                    ..task()
                },
                "the server was http://a",
            ),
            (
                Task {
                    table: Some("table t".to_owned()),
                    ..task()
                },
                "the source was a file and is table t now",
            ),
            (
                Task {
                    mapping: "n".to_owned(),
                    ..task()
                },
                "another mapping",
            ),
        ] {
            let problem = checkpoint.check(&state, &other).unwrap_err().to_string();
            assert!(
                problem.contains(said) && problem.contains("--restart"),
                "{problem}"
            );
        }
    }

    #[test]
    fn what_is_no_checkpoint_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious.txt");
        std::fs::write(&path, "mine").unwrap();
        let problem = Checkpoint::new(path).read().unwrap_err().to_string();
        assert!(
            problem.contains("is no checkpoint") && problem.contains("--state"),
            "{problem}"
        );
    }
}
