//! Keys as text: one block between `-----BEGIN …-----` and `-----END …-----`.
//!
//! A file with several blocks is rejected rather than searched: it must be clear which key was added.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// A PEM file of a key is a few hundred bytes; the longest accepted RSA key has under three thousand.
const MOST: usize = 16 * 1024;

/// Why a text is no PEM block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PemError {
    #[error("it is longer than {MOST} bytes, and no key is")]
    TooLong,
    #[error("it does not start with -----BEGIN and a label: a key in PEM form is expected")]
    NoBegin,
    #[error("its -----END line is missing or differs from its -----BEGIN line")]
    NoEnd,
    #[error("it contains more than one PEM block, or text after the first one: leave only the key in it")]
    Several,
    #[error("the text between its first and last line is not base64")]
    Base64,
}

/// Returns the label of the first block without parsing its content, to describe a rejected file.
pub(crate) fn label(text: &str) -> Option<&str> {
    text.trim_start().strip_prefix("-----BEGIN ")?.split_once("-----").map(|(label, _)| label)
}

/// Returns the content of the only block of this text.
pub(crate) fn read(text: &str) -> Result<Zeroizing<Vec<u8>>, PemError> {
    if text.len() > MOST {
        return Err(PemError::TooLong);
    }
    let label = label(text).ok_or(PemError::NoBegin)?;
    let (_, rest) = text.split_once("-----BEGIN ").ok_or(PemError::NoBegin)?;
    let rest = &rest[label.len() + "-----".len()..];
    let end = format!("-----END {label}-----");
    let (body, after) = rest.split_once(end.as_str()).ok_or(PemError::NoEnd)?;
    if !after.trim().is_empty() {
        return Err(PemError::Several);
    }
    // Reserved up front, so that no copy is left behind by a reallocation.
    let mut digits = Zeroizing::new(Vec::with_capacity(body.len()));
    digits.extend(body.bytes().filter(|byte| !byte.is_ascii_whitespace()));
    let mut der = Zeroizing::new(Vec::with_capacity(digits.len()));
    STANDARD.decode_vec(digits.as_slice(), &mut der).map_err(|_| PemError::Base64)?;
    Ok(der)
}

/// Writes a block in the format of OpenSSL: 64 characters to a line, with a final newline.
pub(crate) fn write(label: &str, der: &[u8]) -> Zeroizing<String> {
    let mut digits = Zeroizing::new(String::with_capacity(der.len().div_ceil(3) * 4));
    STANDARD.encode_string(der, &mut digits);
    let mut text = Zeroizing::new(String::with_capacity(digits.len() * 65 / 64 + 2 * label.len() + 64));
    text.push_str("-----BEGIN ");
    text.push_str(label);
    text.push_str("-----\n");
    let mut left = digits.as_str();
    while !left.is_empty() {
        let (line, rest) = left.split_at(left.len().min(64));
        text.push_str(line);
        text.push('\n');
        left = rest;
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_back_as_it_was_written() {
        for length in [0, 1, 47, 48, 49, 96, 500] {
            let der: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let text = write("PUBLIC KEY", &der);
            assert!(text.lines().all(|line| line.len() <= 64));
            for text in [text.to_string(), text.replace('\n', "\r\n"), format!("\n  {}\n\n", text.as_str())] {
                assert_eq!(label(&text), Some("PUBLIC KEY"));
                assert_eq!(read(&text).unwrap().as_slice(), der.as_slice());
            }
        }
    }

    #[test]
    fn pem_other_than_a_single_block_is_refused() {
        let good = write("A", b"content");
        let cases = [
            (String::new(), PemError::NoBegin),
            ("content".into(), PemError::NoBegin),
            (format!("words\n{}", good.as_str()), PemError::NoBegin),
            ("-----BEGIN A".into(), PemError::NoBegin),
            (good.replace("END A", "END B"), PemError::NoEnd),
            (good.replace("-----END A-----", ""), PemError::NoEnd),
            (format!("{0}{0}", good.as_str()), PemError::Several),
            (format!("{}words", good.as_str()), PemError::Several),
            (good.replace("Y29u", "Y29*"), PemError::Base64),
            (format!("{}{}", good.as_str(), " ".repeat(MOST)), PemError::TooLong),
        ];
        for (text, why) in cases {
            assert_eq!(read(&text).err(), Some(why), "{text:.80}");
        }
    }
}
