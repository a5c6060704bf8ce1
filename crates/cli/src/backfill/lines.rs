//! The lines of a file or of standard input, each with its number and its place, so that a later run can go on behind it.
//!
//! **Invariant:** a line is never held beyond its bound; what is longer is read past and reported as too long.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use docket_core::content::Digest;
use serde::{Deserialize, Serialize};

/// The longest line that is taken: a payload of 1 MiB with all that goes with it.
pub(super) const LINE_MAX: usize = 8 * 1024 * 1024;
/// So much of the beginning tells one file from another.
const HEAD_MAX: usize = 64 * 1024;
const BUFFER: usize = 256 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The beginning of a file, by which it is known again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Head {
    bytes: usize,
    sha256: String,
}

/// The last line that was dealt with, by which its place is known again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LastLine {
    /// Its number, from 1.
    pub(super) line: u64,
    offset: u64,
    bytes: u64,
    sha256: String,
    /// Where the next one begins.
    pub(super) next: u64,
}

/// A line.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: u64,
    /// Without its end, and without the mark that some systems put before the first.
    pub(super) bytes: Vec<u8>,
    pub(super) is_too_long: bool,
    /// Whether it is the last, and nothing ended it.
    pub(super) is_open: bool,
    offset: u64,
    next: u64,
    marked: usize,
}

impl Line {
    /// Where it ends, in bytes from the beginning.
    pub(super) const fn end(&self) -> u64 {
        self.next
    }

    /// Its place.
    pub(super) fn place(&self) -> LastLine {
        LastLine {
            line: self.number,
            offset: self.offset + self.marked as u64,
            bytes: self.bytes.len() as u64,
            sha256: Digest::of(&self.bytes).to_string(),
            next: self.next,
        }
    }
}

/// Lines that are read one after the other.
pub(super) struct Lines {
    from: BufReader<Box<dyn Read + Send>>,
    /// None for standard input.
    file: Option<File>,
    name: String,
    head: Head,
    number: u64,
    offset: u64,
    /// How large the file is, where it is one.
    pub(super) size: Option<u64>,
}

impl Lines {
    /// The lines of this file; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Self::begin(Box::new(io::stdin()), None, "standard input".to_owned());
        }
        let shown = path.display().to_string();
        let file = File::open(path).with_context(|| format!("{shown} cannot be read"))?;
        let about = file
            .metadata()
            .with_context(|| format!("{shown} cannot be read"))?;
        if about.is_dir() {
            bail!("{shown} is a folder; name a file of JSON lines");
        }
        if !about.is_file() {
            return Self::begin(Box::new(file), None, shown);
        }
        let again = file
            .try_clone()
            .with_context(|| format!("{shown} cannot be read"))?;
        Self::begin(Box::new(file), Some((again, about.len())), shown)
    }

    fn begin(from: Box<dyn Read + Send>, file: Option<(File, u64)>, name: String) -> Result<Self> {
        let mut head = Vec::new();
        // What comes through a pipe may come slowly: nothing is waited for only to know it again.
        if let Some((file, _)) = &file {
            let mut again = file.try_clone()?;
            again.by_ref().take(HEAD_MAX as u64).read_to_end(&mut head)?;
            again.rewind()?;
        }
        let (file, size) = file.map_or((None, None), |(file, size)| (Some(file), Some(size)));
        Ok(Self {
            from: BufReader::with_capacity(BUFFER, from),
            file,
            name,
            head: head_of(&head),
            number: 0,
            offset: 0,
            size,
        })
    }

    /// What the lines come from, in words.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a later run can go on where this one stops.
    pub(super) const fn is_resumable(&self) -> bool {
        self.file.is_some()
    }

    /// The beginning of the file.
    pub(super) const fn head(&self) -> &Head {
        &self.head
    }

    /// Goes on behind the last line of an earlier run; refuses where the file is not that run's.
    pub(super) fn resume(&mut self, head: &Head, last: &LastLine) -> Result<()> {
        let Some(file) = &mut self.file else {
            bail!("{} cannot be gone on with", self.name);
        };
        let mut beginning = vec![0; head.bytes.min(HEAD_MAX)];
        file.rewind()?;
        let same = file.read_exact(&mut beginning).is_ok() && head_of(&beginning) == *head;
        if !same {
            bail!(
                "{} is not the file that was begun with: its beginning differs",
                self.name
            );
        }
        let mut line = vec![0; usize::try_from(last.bytes)?.min(LINE_MAX)];
        file.seek(io::SeekFrom::Start(last.offset))?;
        let same = file.read_exact(&mut line).is_ok() && Digest::of(&line).to_string() == last.sha256;
        if !same || self.size < Some(last.next) {
            bail!("{} was changed since: its line {} differs", self.name, last.line);
        }
        file.seek(io::SeekFrom::Start(last.next))?;
        (self.number, self.offset, self.head) = (last.line, last.next, head.clone());
        Ok(())
    }

    /// The next line; none at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Line {
            number: self.number + 1,
            bytes: Vec::new(),
            is_too_long: false,
            is_open: true,
            offset: self.offset,
            next: self.offset,
            marked: 0,
        };
        while line.is_open {
            let found = self.from.fill_buf()?;
            if found.is_empty() {
                break;
            }
            let end = found.iter().position(|byte| *byte == b'\n');
            let piece = &found[..end.unwrap_or(found.len())];
            let room = LINE_MAX - line.bytes.len();
            line.is_too_long |= piece.len() > room;
            line.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            line.is_open = end.is_none();
            let used = piece.len() + usize::from(end.is_some());
            line.next += used as u64;
            self.from.consume(used);
        }
        if line.next == line.offset {
            return Ok(None);
        }
        (self.number, self.offset) = (line.number, line.next);
        if line.bytes.last() == Some(&b'\r') && !line.is_open {
            line.bytes.pop();
        }
        if line.offset == 0 && line.bytes.starts_with(BOM) {
            line.bytes.drain(..BOM.len());
            line.marked = BOM.len();
        }
        Ok(Some(line))
    }
}

fn head_of(bytes: &[u8]) -> Head {
    Head {
        bytes: bytes.len(),
        sha256: Digest::of(bytes).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn all(lines: &mut Lines) -> Vec<(u64, String, bool)> {
        let mut read = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            read.push((line.number, String::from_utf8(line.bytes).unwrap(), line.is_open));
        }
        read
    }

    #[test]
    fn lines_end_in_both_ways_and_the_mark_at_the_beginning_is_left_out() {
        let (_folder, path) = file(b"\xef\xbb\xbfone\r\n\ntwo\nthree");
        let read = all(&mut Lines::open(&path).unwrap());
        let expected = [
            (1, "one", false),
            (2, "", false),
            (3, "two", false),
            (4, "three", true),
        ];
        assert_eq!(
            read,
            expected.map(|(number, text, open)| (number, text.to_owned(), open))
        );
    }

    #[test]
    fn a_line_beyond_its_bound_is_read_past() {
        let mut text = vec![b'x'; LINE_MAX + 5];
        text.extend_from_slice(b"\nnext\n");
        let (_folder, path) = file(&text);
        let mut lines = Lines::open(&path).unwrap();
        let long = lines.next().unwrap().unwrap();
        assert!(long.is_too_long && long.bytes.len() == LINE_MAX);
        assert_eq!(all(&mut lines), [(2, "next".to_owned(), false)]);
    }

    #[test]
    fn reading_goes_on_behind_a_line_also_in_a_file_that_has_grown() {
        let (_folder, path) = file(b"\xef\xbb\xbfone\r\ntwo\n");
        let mut lines = Lines::open(&path).unwrap();
        let head = lines.head().clone();
        let first = lines.next().unwrap().unwrap().place();
        let second = lines.next().unwrap().unwrap().place();
        std::fs::write(&path, b"\xef\xbb\xbfone\r\ntwo\nthree\n").unwrap();
        for (place, expected) in [
            (first, &[(2, "two"), (3, "three")][..]),
            (second, &[(3, "three")]),
        ] {
            let mut lines = Lines::open(&path).unwrap();
            lines.resume(&head, &place).unwrap();
            let read: Vec<_> = all(&mut lines)
                .into_iter()
                .map(|(number, text, _)| (number, text))
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(number, text)| (*number, (*text).to_owned()))
                .collect();
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn another_file_is_not_gone_on_with() {
        let (_folder, path) = file(b"one\ntwo\nthree\n");
        let mut lines = Lines::open(&path).unwrap();
        let head = lines.head().clone();
        lines.next().unwrap();
        let place = lines.next().unwrap().unwrap().place();
        for (other, said) in [
            (&b"one\nTWO\nthree\n"[..], "beginning differs"),
            (b"one\n", "beginning differs"),
            (b"", "beginning differs"),
        ] {
            std::fs::write(&path, other).unwrap();
            let problem = Lines::open(&path).unwrap().resume(&head, &place).unwrap_err();
            assert!(problem.to_string().contains(said), "{problem}");
        }
        // The same beginning, and then something else.
        let long = |end: &str| format!("{}\n{end}\n", "x".repeat(HEAD_MAX));
        std::fs::write(&path, long("last")).unwrap();
        let mut lines = Lines::open(&path).unwrap();
        let head = lines.head().clone();
        lines.next().unwrap();
        let place = lines.next().unwrap().unwrap().place();
        std::fs::write(&path, long("LAST")).unwrap();
        let problem = Lines::open(&path).unwrap().resume(&head, &place).unwrap_err();
        assert!(problem.to_string().contains("its line 2 differs"), "{problem}");
    }

    #[test]
    fn a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            Lines::open(folder.path())
                .err()
                .unwrap()
                .to_string()
                .contains("is a folder")
        );
    }
}
