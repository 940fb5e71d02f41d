//! Byte ranges: of an upload's chunk (`Content-Range`) and of a fetched blob (`Range`).

use std::fmt;
use std::ops::Range;

/// An invalid `Content-Range`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid byte range {0:?}: write the numbers of the first and the last byte, such as 0-1023")]
pub struct ChunkError(String);

/// The position of a chunk in an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Offset of its first byte.
    pub start: u64,
    /// Number of bytes; at least one.
    pub length: u64,
}

/// Parses the `Content-Range` of a chunked push: `0-1023`, as in the distribution specification, or `bytes 0-1023/*`, as in
/// HTTP. The caller compares the length with that of the body.
pub fn chunk(text: &str) -> Result<Chunk, ChunkError> {
    let wrong = || ChunkError(text.chars().take(100).collect());
    let numbers = text.trim();
    let numbers = match numbers.split_once(' ') {
        Some((unit, numbers)) if unit.eq_ignore_ascii_case("bytes") => numbers.trim_start(),
        Some(_) => return Err(wrong()),
        None => numbers,
    };
    let (numbers, total) = match numbers.split_once('/') {
        Some((numbers, "*")) => (numbers, None),
        Some((numbers, total)) => (numbers, Some(number(total).ok_or_else(wrong)?)),
        None => (numbers, None),
    };
    let (first, last) = numbers.split_once('-').ok_or_else(wrong)?;
    let (start, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
    let length = last.checked_sub(start).and_then(|length| length.checked_add(1)).ok_or_else(wrong)?;
    if total.is_some_and(|total| last >= total) {
        return Err(wrong());
    }
    Ok(Chunk { start, length })
}

/// The part of a blob to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pull {
    /// All of it, with 200.
    Whole,
    /// These bytes, with 206 and `Content-Range`.
    Part(Range<u64>),
    /// Nothing, with 416 and `Content-Range`: the blob has no such bytes.
    Unsatisfiable,
}

/// Decides which part of content of this length to send for this `Range`, if any. Multiple ranges, other units and malformed
/// values are ignored, as HTTP allows: the client gets a 200 with the whole content.
pub fn pull(range: Option<&str>, length: u64) -> Pull {
    let Some(text) = range else { return Pull::Whole };
    let Some((unit, numbers)) = text.trim().split_once('=') else { return Pull::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Pull::Whole;
    }
    let Some((first, last)) = numbers.trim().split_once('-') else { return Pull::Whole };
    let (start, end) = match (first.trim(), last.trim()) {
        ("", last) => match clamped(last) {
            Some(0) => return Pull::Unsatisfiable,
            Some(wanted) => (length.saturating_sub(wanted), length),
            None => return Pull::Whole,
        },
        (first, "") => match clamped(first) {
            Some(start) => (start, length),
            None => return Pull::Whole,
        },
        (first, last) => match (clamped(first), clamped(last)) {
            (Some(start), Some(last)) if start <= last => (start, last.saturating_add(1).min(length)),
            _ => return Pull::Whole,
        },
    };
    if start >= length { Pull::Unsatisfiable } else { Pull::Part(start..end) }
}

impl Pull {
    /// Returns the HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Whole => 200,
            Self::Part(_) => 206,
            Self::Unsatisfiable => 416,
        }
    }

    /// Returns the matching `Content-Range`.
    pub fn content_range(&self, length: u64) -> Option<String> {
        match self {
            Self::Whole => None,
            Self::Part(range) => Some(format!("bytes {}-{}/{length}", range.start, range.end - 1)),
            Self::Unsatisfiable => Some(format!("bytes */{length}")),
        }
    }
}

/// The `Range` header of a response about an upload: the bytes received so far. The protocol has no empty range, so an empty
/// upload reports `0-0`, as every registry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received(pub u64);

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0-{}", self.0.saturating_sub(1))
    }
}

/// Parses digits only: no sign, no spaces.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// Does the same, but clamps a number that is too large to the maximum.
fn clamped(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chunks_are_read_in_both_spellings() {
        for (text, start, length) in [
            ("0-1023", 0, 1024),
            ("bytes 0-1023", 0, 1024),
            ("Bytes 0-1023/*", 0, 1024),
            ("bytes 10-10/11", 10, 1),
            (" 5-9 ", 5, 5),
        ] {
            assert_eq!(chunk(text), Ok(Chunk { start, length }), "{text}");
        }
        for text in [
            "",
            "-",
            "5",
            "5-",
            "-5",
            "9-5",
            "+1-2",
            "1-+2",
            "a-b",
            "0-18446744073709551615",
            "0-18446744073709551616",
            "items 0-1",
            "bytes=0-1",
            "bytes 0-9/9",
            "bytes 0-9/x",
            "0 - 1",
            "0-1,2-3",
            "0--1",
        ] {
            assert!(chunk(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pulls_follow_http() {
        let part = |range| Pull::Part(range);
        for (text, length, expected) in [
            ("bytes=0-0", 10, part(0..1)),
            ("bytes=0-9", 10, part(0..10)),
            ("bytes=2-", 10, part(2..10)),
            ("bytes=-3", 10, part(7..10)),
            ("bytes=-30", 10, part(0..10)),
            ("bytes=5-100", 10, part(5..10)),
            ("bytes=5-99999999999999999999999", 10, part(5..10)),
            ("BYTES = 5-6", 10, part(5..7)),
            ("bytes=10-", 10, Pull::Unsatisfiable),
            ("bytes=10-11", 10, Pull::Unsatisfiable),
            ("bytes=99999999999999999999999-", 10, Pull::Unsatisfiable),
            ("bytes=-0", 10, Pull::Unsatisfiable),
            ("bytes=0-", 0, Pull::Unsatisfiable),
            ("bytes=-1", 0, Pull::Unsatisfiable),
            ("bytes=6-5", 10, Pull::Whole),
            ("bytes=0-1,3-4", 10, Pull::Whole),
            ("bytes=-", 10, Pull::Whole),
            ("bytes=a-b", 10, Pull::Whole),
            ("bytes=--1", 10, Pull::Whole),
            ("items=0-1", 10, Pull::Whole),
            ("bytes", 10, Pull::Whole),
            ("", 10, Pull::Whole),
        ] {
            assert_eq!(pull(Some(text), length), expected, "{text:?} of {length}");
        }
        assert_eq!(pull(None, 10), Pull::Whole);
    }

    #[test]
    fn the_answer_s_headers_say_what_is_sent() {
        let found = |pull: Pull| (pull.status(), pull.content_range(10));
        assert_eq!(found(Pull::Whole), (200, None));
        assert_eq!(found(Pull::Part(7..10)), (206, Some("bytes 7-9/10".to_owned())));
        assert_eq!(found(Pull::Unsatisfiable), (416, Some("bytes */10".to_owned())));
        assert_eq!(
            (Received(0).to_string(), Received(1024).to_string()),
            ("0-0".to_owned(), "0-1023".to_owned())
        );
    }

    proptest! {
        #[test]
        fn a_part_lies_within_the_content(text in "bytes=[0-9]{0,22}-[0-9]{0,22}|.{0,40}", length: u64) {
            if let Pull::Part(range) = pull(Some(&text), length) {
                prop_assert!(range.start < range.end && range.end <= length);
            }
        }

        #[test]
        fn a_chunk_has_bytes_and_an_end(text in "(bytes )?[0-9]{0,22}-[0-9]{0,22}|.{0,40}") {
            if let Ok(Chunk { start, length }) = chunk(&text) {
                prop_assert!(length > 0 && start.checked_add(length - 1).is_some());
            }
        }
    }
}
