//! Minimum version of runc.
//!
//! Distributions backport fixes without changing the version, so the version alone proves little. It is enough to refuse
//! unmaintained ones: no supported distribution ships runc before 1.1.5, and container escapes in it are public.

use std::fmt;

use crate::settings::Tools;

/// Oldest runc that may create cells. Debian 12 ships 1.1.5 with the later fixes.
pub const RUNC_FLOOR: RuncVersion = RuncVersion { major: 1, minor: 1, patch: 5, is_release: true };

/// A version of runc. A release candidate sorts before its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuncVersion {
    major: u32,
    minor: u32,
    patch: u32,
    is_release: bool,
}

impl RuncVersion {
    /// Parses the output of `runc --version`: `runc version 1.1.5+ds1`, and more lines.
    fn parse(text: &str) -> Option<Self> {
        let version = text.lines().find_map(|line| line.trim().strip_prefix("runc version "))?.trim();
        let end = version.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(version.len());
        let (numbers, rest) = version.split_at(end);
        let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().ok());
        let mut next = || numbers.next().flatten();
        let (major, minor, patch) = (next()?, next()?, next()?);
        // A distribution's revision also follows a hyphen, and is no candidate.
        let rest = rest.trim_start_matches(['-', '~']);
        let is_candidate = ["rc", "alpha", "beta", "dev"].iter().any(|word| rest.starts_with(word));
        Some(Self { major, minor, patch, is_release: !is_candidate })
    }
}

impl fmt::Display for RuncVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let candidate = if self.is_release { "" } else { ", a release candidate" };
        write!(f, "{}.{}.{}{candidate}", self.major, self.minor, self.patch)
    }
}

/// Returns the reason why this machine's runc may not create cells, if any. A missing runc is reported elsewhere.
pub fn outdated_runc(tools: &Tools) -> Option<String> {
    let output =
        muster_exec::command(&tools.runc).arg("--version").stdout(std::process::Stdio::piped()).output();
    let text = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    refusal(&text)
}

fn refusal(said: &str) -> Option<String> {
    let Some(found) = RuncVersion::parse(said) else {
        return Some(format!("`runc` {RUNC_FLOOR} or later: the version of the one here cannot be read"));
    };
    (found < RUNC_FLOOR).then(|| {
        format!(
            "`runc` {RUNC_FLOOR} or later, because older ones have known escapes from cells; here is {found}: update the package"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        let parsed =
            |text: &str| RuncVersion::parse(&format!("runc version {text}\ncommit: x\nspec: 1.0.2-dev\n"));
        let version = |major, minor, patch, is_release| Some(RuncVersion { major, minor, patch, is_release });
        for (text, expected) in [
            ("1.1.5+ds1", version(1, 1, 5, true)),
            ("1.1.12-0ubuntu2~22.04.1", version(1, 1, 12, true)),
            ("1.3.0", version(1, 3, 0, true)),
            ("1.0.0~rc93+ds1", version(1, 0, 0, false)),
            ("1.2.0-rc.1", version(1, 2, 0, false)),
            ("1.10.2", version(1, 10, 2, true)),
            ("1.1", None),
            ("", None),
            ("99999999999.0.0", None),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
        assert_eq!(RuncVersion::parse("crun version 1.8.1"), None);
    }

    #[test]
    fn runc_older_than_the_minimum_is_refused_with_both_versions() {
        for fits in ["1.1.5+ds1", "1.1.5", "1.1.12-0ubuntu2", "1.2.0-rc.1", "1.10.0", "2.0.0"] {
            assert_eq!(refusal(&format!("runc version {fits}\n")), None, "{fits}");
        }
        for old in ["1.1.4", "1.1.5-rc.1", "1.0.3", "0.9.9"] {
            let said = refusal(&format!("runc version {old}\n")).unwrap();
            assert!(said.contains("1.1.5 or later") && said.contains(&old[..5]), "{said}");
        }
        assert!(refusal("").unwrap().contains("cannot be read"));
    }
}
