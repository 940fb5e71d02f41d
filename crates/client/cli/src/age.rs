//! Times in human-readable form. Exact ones are in `-o json`.

use jiff::Timestamp;

/// Parses a text as an instant, if it is one.
pub(crate) fn instant(text: &str) -> Option<Timestamp> {
    // The parser would also accept a number or a short word; an instant has at least `2026-11-15T09:10:29Z`.
    if text.len() < 20 || !text.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    text.parse().ok()
}

/// `2 min ago`, `in 3 days`.
pub(crate) fn relative(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    let amount = match seconds.unsigned_abs() {
        0..=1 => return "now".to_owned(),
        n @ 0..60 => format!("{n} s"),
        n @ 60..3_600 => format!("{} min", n / 60),
        n @ 3_600..86_400 => format!("{} h", n / 3_600),
        n @ 86_400..172_800 => format!("{} day", n / 86_400),
        n => format!("{} days", n / 86_400),
    };
    if seconds > 0 { format!("{amount} ago") } else { format!("in {amount}") }
}

/// Returns `2026-11-15T09:10:29Z (2 min ago)`, to the second; `None` if the text is not an instant.
pub(crate) fn exact(text: &str, now: Timestamp) -> Option<String> {
    let then = instant(text)?;
    let second = Timestamp::from_second(then.as_second()).unwrap_or(then);
    Some(format!("{second} ({})", relative(now, then)))
}

/// Returns `2026-11-15 09:10:29`, for lists where the order counts. The fraction is in the JSON.
pub(crate) fn wall(text: &str) -> String {
    text.split(['.', 'Z']).next().unwrap_or_default().replacen('T', " ", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_by_their_distance() {
        let now: Timestamp = "2026-11-15T09:10:29Z".parse().unwrap();
        let told = |text: &str| relative(now, instant(text).unwrap());
        assert_eq!(told("2026-11-15T09:10:29.5Z"), "now");
        assert_eq!(told("2026-11-15T09:08:20Z"), "2 min ago");
        assert_eq!(told("2026-11-14T08:00:00Z"), "1 day ago");
        assert_eq!(told("2027-02-13T09:10:29Z"), "in 90 days");
        assert_eq!(told("2026-11-15T12:10:30Z"), "in 3 h");
    }

    #[test]
    fn an_exact_time_has_its_distance_beside_it_and_no_fraction() {
        let now: Timestamp = "2026-11-15T09:10:29Z".parse().unwrap();
        let told = exact("2026-11-15T09:08:20.123456Z", now);
        assert_eq!(told.as_deref(), Some("2026-11-15T09:08:20Z (2 min ago)"));
        assert_eq!(exact("later", now), None);
    }

    #[test]
    fn text_without_an_instant_parses_to_none() {
        for text in
            ["", "acme", "20261115", "2026-11-15", "ten_01h455vb4pex5vsknk084sn02q", "ünlesbare Zeichenfolge"]
        {
            assert_eq!(instant(text), None, "{text}");
        }
    }
}
