//! Pagination: `?n=…&last=…`, and the `Link` to the next page.

use crate::error::{Code, Refusal};

/// Maximum and default number of entries in a response.
pub const MOST: u32 = 1000;

/// Maximum length of `last`: the length of the longest listed entry.
const LONGEST_LAST: usize = crate::path::LONGEST_NAME;

/// An invalid query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `n` is not a number.
    #[error("n={0:?} is not a count: write a number from 0 to 1000, or leave n out")]
    Count(String),
    /// `last` is longer than any listed entry.
    #[error("last is longer than any listed name: take it from the Link header of the previous response")]
    Last,
}

impl Error {
    /// Returns the response for the client.
    pub fn refusal(&self) -> Refusal {
        Refusal::new(Code::Unsupported, self.to_string()).with_status(400)
    }
}

/// A requested page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Maximum number of entries; a client can request zero.
    pub n: u32,
    /// Only entries after this one, in byte order.
    pub last: Option<String>,
}

impl Page {
    /// Parses the decoded `n` and `last` of a query. Caps `n` at [`MOST`].
    pub fn parse(n: Option<&str>, last: Option<&str>) -> Result<Self, Error> {
        let n = match n {
            None | Some("") => MOST,
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map_or(MOST, |n: u32| n.min(MOST))
            }
            Some(text) => return Err(Error::Count(text.chars().take(40).collect())),
        };
        if last.is_some_and(|last| last.len() > LONGEST_LAST) {
            return Err(Error::Last);
        }
        Ok(Self { n, last: last.filter(|last| !last.is_empty()).map(str::to_owned) })
    }

    /// Returns the number of entries to query: one more than are sent, to detect whether there are more.
    pub fn look_up(&self) -> usize {
        if self.n == 0 { 0 } else { self.n as usize + 1 }
    }

    /// Cuts the queried entries to the page and returns the `Link` if there are more. `path` is the request's path without
    /// its query.
    pub fn cut(&self, path: &str, mut entries: Vec<String>) -> (Vec<String>, Option<String>) {
        let n = self.n as usize;
        let more = entries.len() > n;
        entries.truncate(n);
        let link = entries.last().filter(|_| more).map(|last| self.link(path, last));
        (entries, link)
    }

    /// Returns the `Link` to the entries after `last`, with another query parameter to preserve.
    pub fn link_with(&self, path: &str, parameter: Option<(&str, &str)>, last: &str) -> String {
        let parameter =
            parameter.map(|(name, value)| format!("{name}={}&", encoded(value))).unwrap_or_default();
        format!("<{path}?{parameter}n={}&last={}>; rel=\"next\"", self.n, encoded(last))
    }

    fn link(&self, path: &str, last: &str) -> String {
        self.link_with(path, None, last)
    }
}

/// Percent-encodes text for a query.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_count_is_clamped_and_junk_is_refused() {
        let n = |text| Page::parse(text, None).map(|page| page.n);
        assert_eq!(n(None), Ok(MOST));
        assert_eq!(n(Some("")), Ok(MOST));
        for (text, expected) in
            [("0", 0), ("1", 1), ("1000", 1000), ("1001", 1000), ("1000000000", 1000), ("007", 7)]
        {
            assert_eq!(n(Some(text)), Ok(expected), "{text}");
        }
        assert_eq!(n(Some("99999999999999999999999999")), Ok(MOST));
        for text in ["-1", "+1", "1.5", "x", " 1", "1 ", "0x10", "١"] {
            assert!(n(Some(text)).is_err(), "{text}");
        }
        assert_eq!(Page::parse(None, Some(&"a".repeat(256))), Err(Error::Last));
        assert_eq!(Page::parse(None, Some("")).unwrap().last, None);
        assert_eq!(Error::Last.refusal().status, 400);
    }

    #[test]
    fn a_page_links_to_the_next_only_if_there_is_one() {
        let page = Page::parse(Some("2"), Some("a")).unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(page.look_up(), 3);
        let (sent, link) = page.cut("/v2/x/tags/list", names(&["b", "c/d", "e"]));
        assert_eq!(sent, names(&["b", "c/d"]));
        assert_eq!(link.unwrap(), "</v2/x/tags/list?n=2&last=c%2Fd>; rel=\"next\"");
        assert_eq!(page.cut("/x", names(&["b", "c"])), (names(&["b", "c"]), None));
        let none = Page::parse(Some("0"), None).unwrap();
        assert_eq!((none.look_up(), none.cut("/x", names(&["b"]))), (0, (vec![], None)));
    }

    proptest! {
        #[test]
        fn walking_the_pages_meets_every_entry_once(count in 0_usize..60, n in 1_u32..10) {
            let all: Vec<String> = (0..count).map(|number| format!("{number:03}")).collect();
            let (mut seen, mut last) = (Vec::new(), None::<String>);
            loop {
                let page = Page::parse(Some(&n.to_string()), last.as_deref()).unwrap();
                let after = |name: &&String| page.last.as_ref().is_none_or(|last| *name > last);
                let found = all.iter().filter(after).take(page.look_up()).cloned().collect();
                let (sent, link) = page.cut("/v2/_catalog", found);
                last = sent.last().cloned();
                seen.extend(sent);
                if link.is_none() {
                    break;
                }
            }
            prop_assert_eq!(seen, all);
        }

        #[test]
        fn a_link_is_one_plain_header(last in ".{0,60}") {
            let page = Page { n: 1, last: None };
            let (_, link) = page.cut("/v2/_catalog", vec![last, "more".to_owned()]);
            let link = link.unwrap();
            prop_assert!(link.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
            prop_assert_eq!(link.matches(['<', '>']).count(), 2);
        }
    }
}
