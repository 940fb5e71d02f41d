//! Allocation for a new member: `--allocation NAME` for an existing one, `--gpus 2` for one that the platform creates.

use clap::{Arg, ArgMatches, value_parser};
use muster_sdk::describe::Field;
use serde_json::{Map, Value, json};

use super::document_of;
use crate::failure::Result;
use crate::flags::BODY;

/// Amounts of a capacity, each with a flag and its unit.
const AMOUNTS: [(&str, &str, &str); 4] = [
    ("gpus", "gpus", "GPUs"),
    ("cpus", "cpus", "Logical CPUs"),
    ("memory_mb", "memory-mb", "Memory in MiB"),
    ("disk_mb", "disk-mb", "Disk in MiB"),
];

pub(super) fn arguments(field: &Field) -> Vec<Arg> {
    let id = format!("{BODY}{}", field.name);
    let allocation = Arg::new(id.clone()).long("allocation").value_name("ALLOCATION").help(
        "The allocation for the members, by id or name [default: the component's rule, or new ones if an amount is given]",
    );
    let amount = |(_, flag, unit): (&str, &'static str, &str)| {
        Arg::new(flag)
            .long(flag)
            .value_name("N")
            .value_parser(value_parser!(i64).range(0..))
            .conflicts_with(id.clone())
            .help(format!(
                "{unit} of the allocation created for each member [default: the component's request]"
            ))
    };
    std::iter::once(allocation).chain(AMOUNTS.map(amount)).collect()
}

pub(super) fn fill(field: &Field, matches: &ArgMatches, document: &mut Map<String, Value>) -> Result<()> {
    if let Some(text) = matches.get_one::<String>(&format!("{BODY}{}", field.name)) {
        let place =
            if text.starts_with('{') { document_of("allocation", text)? } else { json!({"id": text}) };
        document.insert(field.name.clone(), place);
    }
    let said = AMOUNTS.iter().filter_map(|(name, flag, _)| Some((*name, *matches.get_one::<i64>(flag)?)));
    let said: Map<String, Value> = said.map(|(name, amount)| (name.to_owned(), json!(amount))).collect();
    if !said.is_empty() {
        document.insert(field.name.clone(), json!({"capacity": said}));
    }
    Ok(())
}

/// Reports whether a capacity is incomplete: the rest is the component's default, which only the server knows.
pub(crate) fn lacks_amounts(place: &Value) -> bool {
    let capacity = place["capacity"].as_object();
    capacity.is_some_and(|capacity| AMOUNTS.iter().any(|(name, _, _)| !capacity.contains_key(*name)))
}
