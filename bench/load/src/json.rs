//! As much of JSON as it takes to find one text in an answer.

/// Returns the first string value with this name at this depth of braces; names inside strings are ignored.
pub(crate) fn text_at<'j>(json: &'j str, depth: usize, name: &str) -> Option<&'j str> {
    let (mut at, mut deep) = (0, 0);
    let bytes = json.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => deep += 1,
            b'}' | b']' => deep -= 1,
            b'"' => {
                let text = text_from(json, at + 1)?;
                let after = at + text.len() + 2;
                if deep == depth && text == name && json[after..].starts_with(":\"") {
                    return text_from(json, after + 2);
                }
                at = after;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The text that begins here, as it is written.
fn text_from(json: &str, start: usize) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = start;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    json.get(start..at)
}

#[cfg(test)]
mod tests {
    use super::text_at;

    #[test]
    fn only_the_name_at_its_depth_counts() {
        let json = r#"{"steps":[{"state":"done"}],"said":"a \"state\":\"odd\" word","state":"running"}"#;
        assert_eq!(text_at(json, 1, "state"), Some("running"));
        assert_eq!(text_at(json, 3, "state"), Some("done"));
        assert_eq!(text_at(json, 2, "state"), None);
    }
}
