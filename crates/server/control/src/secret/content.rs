//! Content of a secret in a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::secret::Encoding;
use zeroize::Zeroizing;

use crate::{Error, Result};

/// Maximum size of a content: every cell that receives it holds it in memory.
const LONGEST: usize = 65_536;

/// Decodes the content. Errors describe the problem and never repeat the content.
pub(super) fn content(value: String, encoding: Option<Encoding>) -> Result<Zeroizing<Vec<u8>>> {
    let value = Zeroizing::new(value);
    let bytes = match encoding.unwrap_or_default() {
        Encoding::Text => Zeroizing::new(value.as_bytes().to_vec()),
        Encoding::Base64 => Zeroizing::new(
            STANDARD
                .decode(value.as_bytes())
                .map_err(|_| Error::field("/value", "it is not base64; send it as text, or encode it"))?,
        ),
    };
    if !(1..=LONGEST).contains(&bytes.len()) {
        let why = format!("the content must have 1 to {LONGEST} bytes; this one has {}", bytes.len());
        return Err(Error::field("/value", why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_text_or_base64_and_bounded() {
        let read = |value: &str, encoding| content(value.to_owned(), encoding);
        assert_eq!(**read("Zm9v", None).unwrap(), *b"Zm9v");
        assert_eq!(**read("Zm9v", Some(Encoding::Base64)).unwrap(), *b"foo");
        assert_eq!(**read("/wA=", Some(Encoding::Base64)).unwrap(), [255, 0]);
        assert_eq!(read(&"x".repeat(LONGEST), None).unwrap().len(), LONGEST);
        for (bad, encoding) in [
            (String::new(), None),
            (String::new(), Some(Encoding::Base64)),
            ("canary!".to_owned(), Some(Encoding::Base64)),
            ("canary".repeat(LONGEST), None),
            (STANDARD.encode("x".repeat(LONGEST + 1)), Some(Encoding::Base64)),
        ] {
            let error = content(bad, encoding).unwrap_err();
            assert_eq!(error.fields[0].pointer, "/value");
            assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        }
    }
}
