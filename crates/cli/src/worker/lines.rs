//! Lines of a stream, each bounded: what a line has beyond its bound is read and dropped, so that no child can fill our memory
//! and none waits for a reader that has given up.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A line without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawLine {
    pub(crate) bytes: Vec<u8>,
    /// Whether something was left out at its end.
    pub(crate) is_cut: bool,
}

/// Reads lines of at most `max` bytes.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    from: R,
    max: usize,
    buffer: Box<[u8]>,
    at: usize,
    filled: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(from: R, max: usize) -> Self {
        Self {
            from,
            max,
            buffer: vec![0; 32 * 1024].into_boxed_slice(),
            at: 0,
            filled: 0,
        }
    }

    /// The next line; none at the end. The last one needs no line feed. Not safe to drop half-way: the begun line is lost.
    pub(crate) async fn next(&mut self) -> io::Result<Option<RawLine>> {
        let mut line = RawLine {
            bytes: Vec::new(),
            is_cut: false,
        };
        let mut began = false;
        loop {
            if self.at == self.filled {
                self.filled = self.from.read(&mut self.buffer).await?;
                self.at = 0;
                if self.filled == 0 {
                    return Ok(began.then_some(line));
                }
            }
            began = true;
            let rest = &self.buffer[self.at..self.filled];
            let end = rest.iter().position(|byte| *byte == b'\n');
            let piece = &rest[..end.unwrap_or(rest.len())];
            let room = self.max.saturating_sub(line.bytes.len());
            line.is_cut |= piece.len() > room;
            line.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            self.at += piece.len() + usize::from(end.is_some());
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_at_their_bound_and_the_next_one_is_whole() {
        let text: &[u8] = b"one\n\nthree is long\nend";
        let mut lines = Lines::new(text, 5);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push((String::from_utf8(line.bytes).unwrap(), line.is_cut));
        }
        let expected = [("one", false), ("", false), ("three", true), ("end", false)];
        assert_eq!(read, expected.map(|(text, cut)| (text.to_owned(), cut)));
    }
}
