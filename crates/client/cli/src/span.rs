//! Durations, as typed and as printed.

use jiff::{SignedDuration, Timestamp};

use crate::age::instant;
use crate::failure::{Failure, Result};

/// Parses `90s`, `10m`, `2h`, `3d`, `1w`, `1h30m`. A bare number is refused: its unit would be a guess.
pub(crate) fn span(text: &str) -> Option<SignedDuration> {
    let mut seconds: i64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        let unit_end = rest[digits..].find(|letter: char| letter.is_ascii_digit());
        let unit = &rest[digits..unit_end.map_or(rest.len(), |end| digits + end)];
        let each = match unit {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3_600,
            "d" => 86_400,
            "w" => 7 * 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(each)?)?;
        rest = &rest[digits + unit.len()..];
    }
    (!text.is_empty()).then(|| SignedDuration::from_secs(seconds))
}

/// Parses a time: an instant, or a duration from now.
pub(crate) fn moment(flag: &str, text: &str, now: Timestamp) -> Result<String> {
    if instant(text).is_some() {
        return Ok(text.to_owned());
    }
    match span(text).map(|span| now.checked_add(span)) {
        Some(Ok(then)) => Ok(then.to_string()),
        Some(Err(_)) => Err(Failure::usage(format!("--{flag} {text} is out of range"))),
        None => Err(Failure::usage(format!("--{flag} takes a time, not {text:?}"))
            .next("write it as 2026-11-15T18:00:00Z, or as a duration from now: 30m, 2h, 3d")),
    }
}

/// Formats a duration: exact if short, rounded if long.
pub(crate) fn took(milliseconds: i64) -> String {
    let seconds = milliseconds / 1_000;
    let two = |large: i64, word: &str, small: i64, unit: &str| match small {
        0 => format!("{large} {word}"),
        _ => format!("{large} {word} {small} {unit}"),
    };
    match milliseconds.max(0) {
        n @ 0..1_000 => format!("{n} ms"),
        n @ 1_000..10_000 => format!("{}.{} s", n / 1_000, n % 1_000 / 100),
        10_000..60_000 => format!("{seconds} s"),
        60_000..3_600_000 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600_000..86_400_000 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Formats the duration between two instants.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> String {
    took(to.as_millisecond() - from.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_with_their_units_and_never_guessed() {
        for (text, seconds) in [
            ("90s", 90),
            ("10m", 600),
            ("10min", 600),
            ("2h", 7_200),
            ("3d", 259_200),
            ("1w", 604_800),
            ("1h30m", 5_400),
        ] {
            assert_eq!(span(text), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "10", "h", "-2h", "2 h", "2x", "1.5h", "h2", "99999999999999999999h", "9223372036854775807w"]
        {
            assert_eq!(span(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_is_an_instant_or_a_distance_from_now() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let told = |text: &str| moment("wait-until", text, now).map_err(|failure| failure.detail);
        assert_eq!(told("2h").unwrap(), "2026-11-15T14:00:00Z");
        assert_eq!(told("3d").unwrap(), "2026-11-18T12:00:00Z");
        assert_eq!(told("2026-12-01T00:00:00+01:00").unwrap(), "2026-12-01T00:00:00+01:00");
        assert!(told("tomorrow").unwrap_err().contains("--wait-until takes a time"));
        assert!(told("999999999w").unwrap_err().contains("out of range"));
    }

    #[test]
    fn durations_are_abbreviated_to_their_largest_units() {
        for (milliseconds, text) in [
            (-5, "0 ms"),
            (74, "74 ms"),
            (1_250, "1.2 s"),
            (59_999, "59 s"),
            (61_000, "1 min 1 s"),
            (7_200_000, "2 h"),
            (90_060_000, "1 d 1 h"),
        ] {
            assert_eq!(took(milliseconds), text);
        }
    }
}
