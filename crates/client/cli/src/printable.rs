//! Sanitizes terminal output. Names, labels and reasons are untrusted: an escape sequence could move the cursor, rewrite
//! earlier lines, or disguise text.

use std::borrow::Cow;

/// Returns a text on one line, with control characters replaced.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().any(obeyed) {
        Cow::Owned(text.chars().map(|letter| if obeyed(letter) { '\u{fffd}' } else { letter }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns JSON with the few control characters escaped that JSON allows unescaped. They only occur inside strings, so
/// the meaning stays the same.
pub(crate) fn printable_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if obeyed(letter) && letter != '\n' {
            text.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            text.push(letter);
        }
    }
    text
}

/// Reports whether it is a control character of either set, or one that changes the writing direction.
fn obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        assert_eq!(printable("acme – Ümläute 漢字"), "acme – Ümläute 漢字");
        assert_eq!(printable("a\u{1b}[2Jb\u{9b}31mc\nd\u{202e}e\u{7f}"), "a�[2Jb�31mc�d�e�");
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({"name": "a\u{1b}[2J\u{9b}\u{202e}b"});
        let text = printable_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|letter| letter == '\n' || !obeyed(letter)), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
