//! Proves on a real device that a wipe reaches a tenant's data: `device_memory plant|search|wipe|prove|prove-within UUID`.
//!
//! `prove` runs both tenants as separate processes, `prove-within` as parts of one, and each prints one line of JSON. It
//! exits with 0 only if the canary was found before the wipe and not after it. A driver that clears memory by itself leaves
//! the wipe unproven, and the output reports that.

use std::process::{Command, ExitCode};

use serde_json::{Value, json};

/// Data of the first tenant.
const CANARY: u32 = 0x7e57_c0de;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, uuid] = arguments.as_slice() else {
        eprintln!("usage: device_memory plant|search|wipe|prove|prove-within UUID");
        return ExitCode::from(2);
    };
    let said = match verb.as_str() {
        "plant" => muster_disk::plant(uuid, CANARY).map(|bytes| json!({"planted": bytes})),
        "search" => muster_disk::search(uuid, CANARY).map(|found| json!(found)),
        "wipe" => muster_disk::wipe(uuid).map(|wiped| json!(wiped)),
        "prove" => return prove(uuid),
        "prove-within" => return prove_within(uuid),
        _ => {
            eprintln!("{verb:?} is none of plant, search, wipe, prove, prove-within");
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

/// Like `prove` within one process, where no driver clears the memory between its parts.
fn prove_within(uuid: &str) -> ExitCode {
    let said = (|| {
        let left = muster_disk::leave(uuid, CANARY)?;
        let seen = muster_disk::search(uuid, CANARY)?;
        muster_disk::leave(uuid, CANARY)?;
        let wiped = muster_disk::wipe(uuid)?;
        let after = muster_disk::search(uuid, CANARY)?;
        Ok((left, seen, wiped, after))
    })();
    let (verdict, said) = match said {
        Ok((left, seen, wiped, after)) => {
            let verdict = match (seen.bytes, after.bytes) {
                (0, 0) => "unproven: the driver cleared it by itself",
                (_, 0) => "proved",
                _ => "refuted: the canary is there after the wipe",
            };
            (verdict, json!({"left": left, "found": seen, "wiped": wiped, "found_after": after}))
        }
        Err(muster_disk::Unproven(why)) => ("unproven: a step failed", json!(why)),
    };
    println!("{}", json!({"uuid": uuid, "within": "one process", "verdict": verdict, "said": said}));
    if verdict == "proved" { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

/// Runs this program as another process, which holds the device only while it runs.
fn child(verb: &str, uuid: &str) -> Value {
    let output = std::env::current_exe().and_then(|own| Command::new(own).args([verb, uuid]).output());
    match output {
        Ok(output) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| json!({"failed": String::from_utf8_lossy(&output.stderr).trim()})),
        Err(error) => json!({"failed": error.to_string()}),
    }
}
