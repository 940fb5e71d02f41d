//! Proves on a real device that a wipe reaches what a tenant left: `device_memory plant|search|wipe|prove UUID`.
//!
//! `prove` plays both tenants as processes of their own and prints one line of JSON. It ends with 0 only if the canary was seen
//! before the wipe and not after it; a driver that clears memory by itself leaves the wipe unproven, and it says so.

use std::process::{Command, ExitCode};

use serde_json::{Value, json};

/// What the first tenant leaves.
const CANARY: u32 = 0x7e57_c0de;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, uuid] = arguments.as_slice() else {
        eprintln!("usage: device_memory plant|search|wipe|prove UUID");
        return ExitCode::from(2);
    };
    let said = match verb.as_str() {
        "plant" => muster_storage::plant(uuid, CANARY).map(|bytes| json!({"planted": bytes})),
        "search" => muster_storage::search(uuid, CANARY).map(|found| json!(found)),
        "wipe" => muster_storage::wipe(uuid).map(|wiped| json!(wiped)),
        "prove" => return prove(uuid),
        _ => {
            eprintln!("{verb:?} is none of plant, search, wipe, prove");
            return ExitCode::from(2);
        }
    };
    match said {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(unproven) => {
            println!("{}", json!({"unproven": unproven.0}));
            ExitCode::FAILURE
        }
    }
}

fn prove(uuid: &str) -> ExitCode {
    let mut steps = Vec::new();
    let mut step = |verb: &str| {
        let said = child(verb, uuid);
        steps.push(json!({"step": verb, "said": said}));
        said
    };
    let planted = step("plant")["planted"].as_u64();
    let seen = step("search")["bytes"].as_u64();
    let planted_again = step("plant")["planted"].as_u64();
    let wiped = step("wipe")["bytes"].as_u64();
    let left = step("search")["bytes"].as_u64();
    let verdict = match (planted, seen, planted_again, wiped, left) {
        (Some(_), Some(0), Some(_), Some(_), Some(0)) => "unproven: the driver cleared it by itself",
        (Some(_), Some(_), Some(_), Some(_), Some(0)) => "proved",
        (Some(_), Some(_), Some(_), Some(_), Some(_)) => "refuted: the canary is there after the wipe",
        _ => "unproven: a step failed",
    };
    println!("{}", json!({"uuid": uuid, "verdict": verdict, "steps": steps}));
    if verdict == "proved" { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Another process of this program, which holds the device only for as long as it runs.
fn child(verb: &str, uuid: &str) -> Value {
    let output = std::env::current_exe().and_then(|own| Command::new(own).args([verb, uuid]).output());
    match output {
        Ok(output) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| json!({"failed": String::from_utf8_lossy(&output.stderr).trim()})),
        Err(error) => json!({"failed": error.to_string()}),
    }
}
