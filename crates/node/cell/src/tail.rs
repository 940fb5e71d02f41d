//! The end of a stream: all of it is read, so that the writer never blocks, and only the end is kept.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};

/// End of a stream.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    cut: bool,
}

impl Tail {
    /// Reads to the end, and keeps at most `most` bytes.
    pub(crate) fn read(mut stream: impl Read, most: usize) -> Self {
        let mut tail = Self::default();
        let mut buffer = vec![0; 64 << 10];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return tail,
                Ok(count) => tail.add(&buffer[..count], most),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A read error ends the stream; earlier data is kept.
                Err(_) => return tail,
            }
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8], most: usize) {
        self.bytes.extend(&bytes[bytes.len().saturating_sub(most)..]);
        let over = self.bytes.len().saturating_sub(most);
        self.cut |= over > 0 || bytes.len() > most;
        self.bytes.drain(..over);
    }

    /// Reports whether data was dropped.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the text, with invalid bytes replaced.
    pub(crate) fn text(mut self) -> String {
        String::from_utf8_lossy(self.bytes.make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Tail;

    #[test]
    fn the_end_is_kept_and_that_there_was_more_is_known() {
        let of = |text: &str, most| {
            let tail = Tail::read(text.as_bytes(), most);
            (tail.is_cut(), tail.text())
        };
        assert_eq!(of("", 4), (false, String::new()));
        assert_eq!(of("abcd", 4), (false, "abcd".to_owned()));
        assert_eq!(of("abcde", 4), (true, "bcde".to_owned()));
        let mut tail = Tail::default();
        for part in ["ab", "cd", "efg"] {
            tail.add(part.as_bytes(), 4);
        }
        assert_eq!((tail.is_cut(), tail.text()), (true, "defg".to_owned()));
    }
}
