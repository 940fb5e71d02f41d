//! Crockford's base 32 for 128 bits: 26 lower-case characters that sort like the number.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

pub(crate) fn encode(value: u128) -> String {
    (0..26).rev().map(|digit| ALPHABET[(value >> (digit * 5)) as usize & 31] as char).collect()
}

/// Strict: exactly 26 characters of the alphabet, and at most 128 bits of value.
pub(crate) fn decode(text: &str) -> Option<u128> {
    // Twenty-six digits hold 130 bits, so the first may only be 0 to 7.
    if text.len() != 26 || text.as_bytes()[0] > b'7' {
        return None;
    }
    text.bytes().try_fold(0u128, |value, byte| {
        let digit = ALPHABET.iter().position(|letter| *letter == byte)?;
        Some((value << 5) | digit as u128)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn encoding_round_trips_and_preserves_order(a: u128, b: u128) {
            prop_assert_eq!(decode(&encode(a)), Some(a));
            prop_assert_eq!(a.cmp(&b), encode(a).cmp(&encode(b)));
        }

        #[test]
        fn arbitrary_text_never_panics_and_only_canonical_text_is_taken(text in ".{0,30}") {
            if let Some(value) = decode(&text) {
                prop_assert_eq!(encode(value), text);
            }
        }
    }
}
