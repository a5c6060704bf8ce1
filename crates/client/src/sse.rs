//! Server-sent events, read from bytes as they come: the parser only, without a connection.

/// One event as it came over the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawEvent {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// What is said of an event that is longer than this: the stream is given up.
const EVENT_MAX: usize = 16 * 1024 * 1024;

/// Puts lines together to events.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    event: RawEvent,
    has_data: bool,
    ended_with_return: bool,
    /// How long to wait before connecting again, where the server said so.
    pub(crate) retry_ms: Option<u64>,
    /// The id that was said last, if only to be remembered: it may come without an event.
    pub(crate) last_id: Option<String>,
}

impl Parser {
    /// Takes bytes and gives the events that they complete. None where an event is too large to be true.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<Vec<RawEvent>> {
        let mut events = Vec::new();
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.ended_with_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => self.line.push(*byte),
            }
            if self.line.len() + self.event.data.len() > EVENT_MAX {
                return None;
            }
        }
        Some(events)
    }

    /// Forgets what was begun: the next bytes come from another connection.
    pub(crate) fn begin_again(&mut self) {
        *self = Self {
            retry_ms: self.retry_ms,
            last_id: self.last_id.take(),
            ..Self::default()
        };
    }

    fn end_line(&mut self) -> Option<RawEvent> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let mut event = std::mem::take(&mut self.event);
            let is_event = std::mem::take(&mut self.has_data);
            if event.id.is_some() {
                self.last_id.clone_from(&event.id);
            }
            event.data.pop();
            return is_event.then_some(event);
        }
        let line = String::from_utf8_lossy(&line);
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                self.event.data.push_str(value);
                self.event.data.push('\n');
                self.has_data = true;
            }
            "event" => self.event.name = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
            // A comment, or a field that is not known.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_from_any_pieces() {
        let text =
            ": hello\n\nid: 7\nevent: log\ndata: {\"a\":\ndata: 1}\n\nretry: 250\r\ndata:x\r\n\r\nid: 9\n\n";
        for size in [1, 2, 7, text.len()] {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                events.extend(parser.push(piece).unwrap());
            }
            let expected = [
                RawEvent {
                    id: Some("7".to_owned()),
                    name: Some("log".to_owned()),
                    data: "{\"a\":\n1}".to_owned(),
                },
                RawEvent {
                    data: "x".to_owned(),
                    ..RawEvent::default()
                },
            ];
            assert_eq!(events, expected, "pieces of {size}");
            assert_eq!(parser.retry_ms, Some(250));
            assert_eq!(
                parser.last_id.as_deref(),
                Some("9"),
                "an id without data is remembered"
            );
        }
    }
}
