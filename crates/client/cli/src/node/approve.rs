//! `muster node approve NODE` without a digest: looks up the hardware, shows it, and approves exactly what was shown. The
//! digest prevents approving unreviewed hardware; copying it by hand would add nothing.

use std::io::BufRead;

use clap::{Arg, ArgAction, ArgMatches};
use muster_sdk::describe::Description;
use muster_sdk::{Arguments, Connection};
use serde_json::Value;

use super::hardware::{difference, summary};
use crate::collect::read_line;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::operation::text;

pub(crate) fn argument() -> Arg {
    Arg::new("yes")
        .long("yes")
        .short('y')
        .action(ArgAction::SetTrue)
        .help("Approve the shown hardware without asking")
}

/// Fills in the missing digest and version of what is shown. Returns false if there is nothing to approve, or if the
/// person declines.
pub(crate) async fn fill(
    context: &Context,
    connection: &Connection,
    arguments: &mut Arguments,
    matches: &ArgMatches,
    input: &mut dyn BufRead,
) -> Result<bool> {
    let given = arguments.body.as_ref().is_some_and(|body| body.get("digest").is_some());
    if given {
        return Ok(true);
    }
    let get = Description::embedded().endpoint("node_get");
    let get = get.ok_or_else(|| Failure::usage("the API no longer shows nodes: add --digest"))?;
    let looked_up = Arguments { path: arguments.path.clone(), ..Arguments::default() };
    let found = connection.call(get, &looked_up).await.map_err(|error| Failure::call(Some(get), error))?;
    let version = found.etag.clone();
    let node = found.json();
    if node["needs_approval"] != Value::Bool(true) {
        eprintln!("the hardware of {} is already approved; nothing to do", text(&node, "name"));
        return Ok(false);
    }
    eprint!("{}", shown(&node));
    if !agreed(context, matches, &text(&node, "name"), input)? {
        eprintln!("nothing was approved");
        return Ok(false);
    }
    let body = arguments.body.get_or_insert_with(|| Value::Object(serde_json::Map::new()));
    body["digest"] = node["inventory_digest"].clone();
    if let Some(address) = node["reported_address"].as_str() {
        body["address"] = Value::from(address);
    }
    // The person agreed to this version; a newer one is refused.
    arguments.if_match = arguments.if_match.take().or(version);
    Ok(true)
}

/// Formats the hardware to approve.
fn shown(node: &Value) -> String {
    let changes = difference(node);
    let mut lines = vec![format!("hardware of {}:", text(node, "name"))];
    lines.extend(summary(&node["inventory"]).into_iter().map(|line| format!("  {line}")));
    if !changes.is_empty() {
        lines.push("different from the approved hardware (- gone, + added, ~ changed):".to_owned());
        lines.extend(changes.into_iter().map(|line| format!("  {line}")));
    }
    if let Some(reported) = node["reported_address"].as_str() {
        lines.push(match node["address"].as_str() {
            Some(approved) if approved != reported => {
                format!("address: {reported}, approved until now: {approved}")
            }
            _ => format!("address: {reported}"),
        });
    }
    lines.push(format!("digest: {}", text(node, "inventory_digest")));
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}

fn agreed(context: &Context, matches: &ArgMatches, name: &str, input: &mut dyn BufRead) -> Result<bool> {
    if matches.get_flag("yes") {
        return Ok(true);
    }
    if !context.can_ask() {
        return Err(Failure::usage("approval needs a terminal, or --yes").next(format!(
            "add --yes, or the digest of the hardware: `muster node approve {name} --digest …`"
        )));
    }
    eprint!("approve it? [y/N] ");
    let answer = read_line(input)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::samples::enrolling;
    use serde_json::json;

    #[test]
    fn the_summary_the_difference_and_the_digest_are_shown() {
        let mut node = enrolling();
        assert!(!shown(&node).contains("different"), "{}", shown(&node));
        node["difference"] = json!([{"what": "gpu GPU-0", "was": "model H200"}]);
        let told = shown(&node);
        assert!(told.contains("  - gpu GPU-0: model H200\n"), "{told}");
        assert!(told.ends_with(&format!("digest: {}\n", "ab".repeat(32))), "{told}");
        node["reported_address"] = json!("192.0.2.7");
        assert!(shown(&node).contains("\naddress: 192.0.2.7\n"), "{}", shown(&node));
        node["address"] = json!("192.0.2.1");
        let told = shown(&node);
        assert!(told.contains("\naddress: 192.0.2.7, approved until now: 192.0.2.1\n"), "{told}");
    }
}
