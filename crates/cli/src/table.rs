//! Things as tables and as lines. Everything that is shown goes through `printable`.

use comfy_table::{Table, presets};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::age;
use crate::columns::Column;
use crate::printable::printable;

/// Several things, a line each. Without known columns, the plain fields of the first give them.
pub(crate) fn table(columns: Option<&[Column]>, things: &[Value], now: Timestamp) -> String {
    let found: Vec<(String, String)> = match columns {
        Some(columns) => {
            columns.iter().map(|(heading, at)| ((*heading).to_owned(), (*at).to_owned())).collect()
        }
        None => plain_fields(things.first()),
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(found.iter().map(|(heading, _)| heading));
    for thing in things {
        table.add_row(found.iter().map(|(_, at)| cell(thing.pointer(at).unwrap_or(&Value::Null), now)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn plain_fields(thing: Option<&Value>) -> Vec<(String, String)> {
    let fields = thing.and_then(Value::as_object).into_iter().flatten();
    let plain = fields.filter(|(_, value)| !value.is_object() && !value.is_array());
    plain.map(|(name, _)| (name.replace('_', " ").to_uppercase(), format!("/{}", escape(name)))).collect()
}

/// A name as a part of a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A value in a table: short, times by their distance.
fn cell(value: &Value, now: Timestamp) -> String {
    match value {
        Value::String(text) => match age::instant(text) {
            Some(then) => age::relative(now, then),
            None => printable(text).into_owned(),
        },
        other => plain(other),
    }
}

/// One thing, a line a field, the names aligned. Times are exact, with the distance beside.
pub(crate) fn lines(thing: &Map<String, Value>, now: Timestamp) -> String {
    let width = thing.keys().map(|name| name.chars().count()).max().unwrap_or(0) + 1;
    let line = |(name, value): (&String, &Value)| {
        let shown = match value.as_str().and_then(|text| Some((text, age::instant(text)?))) {
            Some((text, then)) => format!("{} ({})", printable(text), age::relative(now, then)),
            None => plain(value),
        };
        format!("{:<width$} {shown}", format!("{}:", printable(name))).trim_end().to_owned() + "\n"
    };
    thing.iter().map(line).collect()
}

/// A value in words: `a, b` for lists, `k=v, k=v` for maps.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(truth) => (if *truth { "yes" } else { "no" }).to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => printable(text).into_owned(),
        Value::Array(values) => {
            let between = if values.iter().any(Value::is_object) { "; " } else { ", " };
            values.iter().map(plain).collect::<Vec<_>>().join(between)
        }
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(name, value)| format!("{}={}", printable(name), plain(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::columns;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-11-15T09:10:29Z".parse().unwrap()
    }

    #[test]
    fn known_nouns_have_their_columns_and_unknown_ones_their_plain_fields() {
        let tenants =
            [json!({"id": "ten_1", "slug": "acme", "display_name": "Acme\u{1b}[31m", "labels": {"a": "b"},
                             "created_at": "2026-11-15T09:08:20Z", "version": 1})];
        let expected =
            "SLUG  DISPLAY NAME  LABELS  MADE       ID\nacme  Acme�[31m     a=b     2 min ago  ten_1\n";
        assert_eq!(table(columns(&["tenant", "list"]), &tenants, now()), expected);
        let rockets = [json!({"name": "v2", "fuel_left": 7, "parts": []})];
        assert_eq!(table(columns(&["rocket", "list"]), &rockets, now()), "NAME  FUEL LEFT\nv2    7\n");
    }

    #[test]
    fn a_hostile_name_can_neither_break_a_line_nor_reach_the_terminal() {
        let hostile = json!({"name": "a\nb\u{1b}]0;x\u{7}", "\u{1b}[2J": ["c\rd", {"e\u{9b}": "f\u{202e}"}]});
        let Value::Object(fields) = &hostile else { unreachable!() };
        for shown in
            [lines(fields, now()), table(None, std::slice::from_ref(&hostile), now()), plain(&hostile)]
        {
            assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()), "{shown:?}");
            assert!(!shown.contains('\u{202e}'), "{shown:?}");
        }
        assert_eq!(lines(fields, now()).lines().count(), 2);
    }

    #[test]
    fn one_thing_is_shown_with_aligned_names_and_exact_times() {
        let thing = json!({"id": "x", "created_at": "2026-11-15T09:08:20Z", "on": true, "roles": [{"role": "a", "in": "b"}]});
        let Value::Object(fields) = thing else { unreachable!() };
        assert_eq!(
            lines(&fields, now()),
            "id:         x\ncreated_at: 2026-11-15T09:08:20Z (2 min ago)\non:         yes\nroles:      role=a, in=b\n"
        );
    }
}
