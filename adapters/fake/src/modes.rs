//! The fake's faults, from its environment. `*` stands for all verbs.
//!
//! | variable | for example | effect |
//! | --- | --- | --- |
//! | `FAKE_SLOW` | `join=2000,drain=500` | waits this many milliseconds before it does anything |
//! | `FAKE_LIE` | `drain,remove` | reports success without doing anything |
//! | `FAKE_WRONG` | `join` | does something other than requested, and reports success |
//! | `FAKE_ADD` | `join` | appends a line to the member's file instead of replacing it: not idempotent |
//! | `FAKE_FORGE` | `drain` | replaces `/bin/cat` and `/bin/test` in the hub's cell, and reports success |
//! | `FAKE_FAIL` | `join=no_license` | fails with that reason |
//! | `FAKE_FAIL_RETRY_SECONDS` | `2` | asks for a retry after this many seconds |
//! | `FAKE_FAIL_TIMES` | `1` | fails at most this often |
//! | `FAKE_STUBBORN` | `drain` | never ends, and reports progress |
//! | `FAKE_IGNORE_DEAD` | `remove` | repeats a task that failed because its cell is dead, instead of skipping it |
//! | `FAKE_DIE_AT` | `join:before` | dies before, or `after`, its effect |
//! | `FAKE_DIE_TIMES` | `1` | dies at most this often; counted in the file of `FAKE_DIE_FILE`, over all processes that share it |

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use muster_adapter_kit::types::AdapterVerb;

use crate::death::{Death, Point};

/// The verbs that something holds for, each with a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verbs(BTreeMap<String, String>);

impl Verbs {
    /// Returns the setting for this verb.
    pub(crate) fn get(&self, verb: AdapterVerb) -> Option<&str> {
        self.0.get(&verb.to_string()).or_else(|| self.0.get("*")).map(String::as_str)
    }

    /// Whether anything is.
    pub(crate) fn has(&self, verb: AdapterVerb) -> bool {
        self.get(verb).is_some()
    }

    fn parse(variable: &str, text: &str) -> Result<Self, String> {
        let mut verbs = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (verb, value) = part.split_once('=').unwrap_or((part, ""));
            is_verb(variable, verb)?;
            verbs.insert(verb.to_owned(), value.to_owned());
        }
        Ok(Self(verbs))
    }
}

fn is_verb(variable: &str, word: &str) -> Result<(), String> {
    use AdapterVerb::{Drain, Join, Leave, Reconcile, Remove, Resume};
    if word == "*"
        || [Join, Leave, Drain, Resume, Remove, Reconcile].iter().any(|verb| verb.to_string() == word)
    {
        return Ok(());
    }
    Err(format!(
        "{variable}: {word:?} is not a verb; the verbs are join, leave, drain, resume, remove, reconcile, and * for all"
    ))
}

/// How it misbehaves; not at all by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    slow: Verbs,
    pub(crate) lie: Verbs,
    pub(crate) wrong: Verbs,
    pub(crate) add: Verbs,
    pub(crate) forge: Verbs,
    pub(crate) fail: Verbs,
    pub(crate) fail_retry: Option<Duration>,
    pub(crate) fail_times: Option<u64>,
    pub(crate) stubborn: Verbs,
    pub(crate) ignore_dead: Verbs,
    pub(crate) death: Option<Death>,
}

impl Modes {
    /// Reads them from an environment.
    pub(crate) fn parse(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| variable(name).filter(|text| !text.is_empty());
        let verbs =
            |name: &str| set(name).map_or_else(|| Ok(Verbs::default()), |text| Verbs::parse(name, &text));
        let number = |name: &str| match set(name) {
            None => Ok(None),
            Some(text) => {
                text.parse::<u64>().map(Some).map_err(|_| format!("{name}: {text:?} is not a number"))
            }
        };
        let slow = verbs("FAKE_SLOW")?;
        if let Some((verb, wrong)) = slow.0.iter().find(|(_, text)| text.parse::<u64>().is_err()) {
            return Err(format!("FAKE_SLOW: {verb}={wrong} must have milliseconds after the sign"));
        }
        Ok(Self {
            slow,
            lie: verbs("FAKE_LIE")?,
            wrong: verbs("FAKE_WRONG")?,
            add: verbs("FAKE_ADD")?,
            forge: verbs("FAKE_FORGE")?,
            fail: verbs("FAKE_FAIL")?,
            fail_retry: number("FAKE_FAIL_RETRY_SECONDS")?.map(Duration::from_secs),
            fail_times: number("FAKE_FAIL_TIMES")?,
            stubborn: verbs("FAKE_STUBBORN")?,
            ignore_dead: verbs("FAKE_IGNORE_DEAD")?,
            death: death(set("FAKE_DIE_AT"), number("FAKE_DIE_TIMES")?, set("FAKE_DIE_FILE"))?,
        })
    }

    /// How long it waits before it does anything.
    pub(crate) fn slowness(&self, verb: AdapterVerb) -> Duration {
        self.slow.get(verb).and_then(|text| text.parse().ok()).map(Duration::from_millis).unwrap_or_default()
    }
}

fn death(at: Option<String>, times: Option<u64>, file: Option<String>) -> Result<Option<Death>, String> {
    let Some(at) = at else { return Ok(None) };
    let point = match at.split_once(':') {
        Some((verb, "before")) => Ok((verb, Point::Before)),
        Some((verb, "after")) => Ok((verb, Point::After)),
        _ => Err(format!("FAKE_DIE_AT: {at:?} must be VERB:before or VERB:after")),
    };
    let (verb, point) = point?;
    is_verb("FAKE_DIE_AT", verb)?;
    // A process that died remembers nothing, so a number without a file would mean "for ever".
    let limit = match (times, file) {
        (None, _) => None,
        (Some(times), Some(file)) => Some((times, PathBuf::from(file))),
        (Some(_), None) => {
            return Err("FAKE_DIE_TIMES needs FAKE_DIE_FILE, in which deaths are counted".to_owned());
        }
    };
    Ok(Some(Death { verb: verb.to_owned(), point, limit }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(set: &[(&str, &str)]) -> Result<Modes, String> {
        Modes::parse(|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_set_is_a_good_adapter() {
        assert_eq!(parsed(&[]).unwrap(), Modes::default());
        assert_eq!(parsed(&[("FAKE_LIE", "")]).unwrap(), Modes::default());
    }

    #[test]
    fn verbs_are_told_apart_and_a_star_is_all_of_them() {
        let modes = parsed(&[("FAKE_SLOW", "join=20, *=5"), ("FAKE_LIE", "drain,remove")]).unwrap();
        assert_eq!(modes.slowness(AdapterVerb::Join), Duration::from_millis(20));
        assert_eq!(modes.slowness(AdapterVerb::Remove), Duration::from_millis(5));
        assert!(modes.lie.has(AdapterVerb::Drain) && !modes.lie.has(AdapterVerb::Join));
    }

    #[test]
    fn invalid_mode_is_refused_with_the_name_of_its_variable() {
        for wrong in [
            ("FAKE_LIE", "dance"),
            ("FAKE_SLOW", "join"),
            ("FAKE_SLOW", "join=soon"),
            ("FAKE_DIE_AT", "join"),
            ("FAKE_DIE_AT", "join:during"),
            ("FAKE_DIE_AT", "dance:after"),
            ("FAKE_FAIL_TIMES", "often"),
        ] {
            let why = parsed(&[wrong]).unwrap_err();
            assert!(why.starts_with(wrong.0), "{why}");
        }
        let why = parsed(&[("FAKE_DIE_AT", "join:after"), ("FAKE_DIE_TIMES", "1")]).unwrap_err();
        assert!(why.contains("FAKE_DIE_FILE"), "{why}");
    }
}
