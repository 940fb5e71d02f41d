//! Resources as tables and as lines. All output goes through `printable`.

use comfy_table::{Table, presets};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::age;
use crate::columns::{Column, part};
use crate::printable::printable;

/// Formats several resources, one line each. Without known columns, their plain fields are used.
pub(crate) fn table(columns: Option<&[Column]>, things: &[Value], now: Timestamp) -> String {
    let found: Vec<(String, String)> = match columns {
        Some(columns) => {
            columns.iter().map(|(heading, at)| ((*heading).to_owned(), (*at).to_owned())).collect()
        }
        None => plain_fields(things),
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(found.iter().map(|(heading, _)| heading));
    for thing in things {
        table.add_row(found.iter().map(|(_, places)| cell(at(thing, places), now)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns the first non-empty value at these pointers.
fn at<'t>(thing: &'t Value, places: &str) -> &'t Value {
    let found = places.split('|').filter_map(|place| thing.pointer(place));
    found.into_iter().find(|value| !value.is_null()).unwrap_or(&Value::Null)
}

/// Returns all plain fields, including those that only some resources have, in order of appearance.
fn plain_fields(things: &[Value]) -> Vec<(String, String)> {
    let fields = things.iter().filter_map(Value::as_object).flatten();
    let mut names: Vec<&String> = Vec::new();
    for (name, value) in fields {
        if !is_made_of_parts(value) && !names.contains(&name) {
            names.push(name);
        }
    }
    let columns = names.into_iter().filter(|name| !name.contains('|'));
    columns.map(|name| (name.replace('_', " ").to_uppercase(), format!("/{}", escape(name)))).collect()
}

fn is_made_of_parts(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// Escapes a name for a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Formats a value in a table: short, times relative to now.
fn cell(value: &Value, now: Timestamp) -> String {
    match value {
        Value::String(text) => match age::instant(text) {
            Some(then) => age::relative(now, then),
            None => printable(text).into_owned(),
        },
        other => plain(other),
    }
}

/// Formats one resource, one line per field, with aligned names. Times are exact, with the relative time beside. A value
/// that is too long for a line follows below its name, as a table or as indented lines.
pub(crate) fn lines(thing: &Map<String, Value>, now: Timestamp) -> String {
    let width = thing.keys().map(|name| name.chars().count()).max().unwrap_or(0) + 1;
    let line = |(name, value): (&String, &Value)| {
        if let Some(block) = block(name, value, now) {
            let indented: String = block.lines().map(|line| format!("  {line}\n")).collect();
            return format!("{}:\n{indented}", printable(name));
        }
        let shown = match value.as_str().and_then(|text| Some((text, age::instant(text)?))) {
            Some((text, then)) => format!("{} ({})", printable(text), age::relative(now, then)),
            None => plain(value),
        };
        format!("{:<width$} {shown}", format!("{}:", printable(name))).trim_end().to_owned() + "\n"
    };
    thing.iter().map(line).collect()
}

/// Formats a value below its name, if it does not fit beside it.
fn block(name: &str, value: &Value, now: Timestamp) -> Option<String> {
    let deep = |value: &Value| match value {
        Value::Object(_) => true,
        Value::Array(items) => items.iter().any(Value::is_object),
        _ => false,
    };
    match value {
        // A key is copied verbatim. Line breaks in other texts may be an attempt to fake another field.
        Value::String(text) if name == "public_key" && text.trim_end().contains('\n') => {
            Some(text.lines().map(|line| format!("{}\n", printable(line))).collect())
        }
        Value::Array(items) if items.iter().all(Value::is_object) && !items.is_empty() => {
            let flat =
                items.iter().flat_map(Value::as_object).flatten().all(|(_, value)| !is_made_of_parts(value));
            match part(name) {
                Some(columns) => Some(table(Some(columns), items, now)),
                None if items.len() == 1 => None,
                None if flat => Some(table(None, items, now)),
                None => Some(items.iter().map(|item| format!("{}\n", plain(item))).collect()),
            }
        }
        Value::Object(fields) if fields.values().any(deep) => Some(lines(fields, now)),
        _ => None,
    }
}

/// Formats a value: `a, b` for lists, `k=v, k=v` for maps.
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
    fn value_too_large_for_a_line_is_printed_below_its_name() {
        let thing = json!({
            "name": "gpu-1",
            "difference": [{"what": "memory_mb", "was": "8", "is": "4"}],
            "by_gpus": [{"gpus": 1, "nodes": 3}, {"gpus": 2, "nodes": 2, "why": "x"}],
            "free": {"gpus": 1, "cpus": 2},
            "inventory": {"os": "Debian", "cpus": {"count": 2}},
            "steps": [{"name": "a", "output": {"b": 1}}, {"name": "c"}],
        });
        let Value::Object(fields) = thing else { unreachable!() };
        let expected = "\
name:       gpu-1
difference:
  WHAT       WAS  IS
  memory_mb  8    4
by_gpus:
  GPUS  NODES  WHY
  1     3
  2     2      x
free:       gpus=1, cpus=2
inventory:
  os:   Debian
  cpus: count=2
steps:
  name=a, output=b=1
  name=c
";
        assert_eq!(lines(&fields, now()), expected);
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
