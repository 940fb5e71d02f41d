//! Fault injection for simulated nodes, as flags.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use clap::{Arg, ArgMatches, Command, value_parser};
use muster_agent_sim::{HAS_KILL_POINTS, Journal, KillPoints, Odds};

const HEADING: &str = "Options of the simulation";

pub(crate) fn with_knobs(command: Command) -> Command {
    let knob = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading(HEADING)
    };
    command
        .arg(
            knob(
                "journal",
                "FILE",
                "Write every effect to this file, a JSON line each, before it is reported",
            )
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            knob("latency-ms", "A..B", "Each task takes between A and B milliseconds")
                .default_value("0..0")
                .value_parser(range),
        )
        .arg(
            knob("fail-rate", "P", "This share of all tasks fails, with nothing done")
                .default_value("0")
                .value_parser(part),
        )
        .arg(
            knob(
                "wipe-fail-rate",
                "P",
                "This share of all wipes does nothing; only an inspection detects it",
            )
            .default_value("0")
            .value_parser(part),
        )
        .arg(
            knob("heartbeat-jitter", "MS", "Up to this many milliseconds pass between two polls")
                .default_value("0")
                .value_parser(value_parser!(u64)),
        )
        .arg(
            knob("seed", "N", "Seed of the randomness; the same seed gives the same faults")
                .default_value("1")
                .value_parser(value_parser!(u64)),
        )
        .after_help(
            "For tests, MUSTER_AGENT_KILL_AT=POINT[@N]|… makes the process end itself at POINT for the N-th \
             time. docs/guides/agent.md lists the points.",
        )
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

fn range(text: &str) -> Result<(Duration, Duration), String> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    match (least.parse().map(Duration::from_millis), most.parse().map(Duration::from_millis)) {
        (Ok(least), Ok(most)) if least <= most => Ok((least, most)),
        _ => Err("expected two numbers of milliseconds, such as 5..50".to_owned()),
    }
}

pub(crate) fn odds(matches: &ArgMatches) -> anyhow::Result<Odds> {
    let part = |name: &str| matches.get_one::<f64>(name).copied().unwrap_or_default();
    let jitter = matches.get_one::<u64>("heartbeat-jitter").copied().unwrap_or_default();
    Ok(Odds {
        latency: matches.get_one("latency-ms").copied().unwrap_or_default(),
        fail: part("fail-rate"),
        wipe_fail: part("wipe-fail-rate"),
        heartbeat_jitter: Duration::from_millis(jitter),
        ..Odds::default()
    })
}

pub(crate) fn seed(matches: &ArgMatches) -> u64 {
    matches.get_one("seed").copied().unwrap_or(1)
}

pub(crate) fn journal(matches: &ArgMatches) -> anyhow::Result<Option<Arc<Journal>>> {
    let Some(path) = matches.get_one::<PathBuf>("journal") else { return Ok(None) };
    Ok(Some(Arc::new(Journal::open(path)?)))
}

pub(crate) fn kill_points() -> anyhow::Result<Arc<KillPoints>> {
    let text = std::env::var("MUSTER_AGENT_KILL_AT").unwrap_or_default();
    ensure!(HAS_KILL_POINTS || text.is_empty(), "MUSTER_AGENT_KILL_AT: this build has no kill points");
    let points = KillPoints::parse(&text).map_err(|why| anyhow!("MUSTER_AGENT_KILL_AT: {why}"))?;
    Ok(Arc::new(points))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{part, range};

    #[test]
    fn invalid_tuning_range_or_fraction_is_refused() {
        assert_eq!(range("5..50"), Ok((Duration::from_millis(5), Duration::from_millis(50))));
        assert_eq!(range("7"), Ok((Duration::from_millis(7), Duration::from_millis(7))));
        for wrong in ["", "50..5", "a..b", "-1..2"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
        assert_eq!(part("0.25"), Ok(0.25));
        for wrong in ["", "1.5", "-0.1", "NaN", "half"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }
}
