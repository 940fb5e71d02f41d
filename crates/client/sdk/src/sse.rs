//! Wire format of server-sent events (WHATWG HTML, section 9.2), as far as a client needs it: bytes in, events out.
//!
//! A crate was rejected: existing ones bring their own HTTP client or reconnection policy, and the format is thirty
//! lines.

/// One event, as sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    /// The `event:` field; empty means an ordinary message.
    pub(crate) event: String,
    /// The `data:` lines.
    pub(crate) data: String,
    /// The `id:` field of this event.
    pub(crate) id: Option<String>,
}

/// Buffers bytes until an event is complete.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    buffer: Vec<u8>,
    frame: Frame,
    has_data: bool,
    /// A line may end in CR LF, split across two chunks.
    after_cr: bool,
}

impl Parser {
    /// Adds a chunk; returns the events it completed.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<Frame> {
        let mut whole = Vec::new();
        for &byte in piece {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => whole.extend(self.end_of_line()),
                other => self.buffer.push(other),
            }
        }
        whole
    }

    fn end_of_line(&mut self) -> Option<Frame> {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.buffer)).into_owned();
        let line = line.trim_start_matches('\u{feff}');
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.frame.event = value.to_owned(),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            "id" if !value.contains('\0') => self.frame.id = Some(value.to_owned()),
            // An empty field name is a comment, used as a keep-alive; unknown fields are ignored, as the standard
            // requires.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE: &str = ": hello\n\nid: 7\nevent: note\ndata: {\"a\":\ndata: 1}\n\ndata\r\n\r\nid: 8\rdata:x\r\rid: 9\n\ndata: cut";

    fn expected() -> Vec<Frame> {
        let frame = |event: &str, data: &str, id: Option<&str>| Frame {
            event: event.to_owned(),
            data: data.to_owned(),
            id: id.map(str::to_owned),
        };
        vec![frame("note", "{\"a\":\n1}", Some("7")), frame("", "", None), frame("", "x", Some("8"))]
    }

    #[test]
    fn events_are_read_and_what_is_not_whole_is_not() {
        assert_eq!(Parser::default().push(WIRE.as_bytes()), expected());
    }

    #[test]
    fn it_does_not_matter_where_the_pieces_are_cut() {
        for size in 1..WIRE.len() {
            let mut parser = Parser::default();
            let frames: Vec<Frame> =
                WIRE.as_bytes().chunks(size).flat_map(|piece| parser.push(piece)).collect();
            assert_eq!(frames, expected(), "pieces of {size}");
        }
    }
}
