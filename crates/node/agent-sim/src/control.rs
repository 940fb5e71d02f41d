//! Commands by which a test controls a running simulated fleet.

use muster_ids::CellId;

use crate::fleet::Fleet;

/// A line of standard input.
#[derive(Debug, Clone, PartialEq)]
pub enum Word {
    /// Ends these agents at once, as if killed; their files stay.
    Die(String),
    /// Starts them again.
    Revive(String),
    /// Reboots their machines: nothing runs in their cells any more.
    Reboot(String),
    /// Cuts their network.
    Partition(String),
    /// Restores their network.
    Heal(String),
    /// Fails this fraction of their tasks from now on.
    Fail(String, f64),
    /// Ends the services of this cell on them, or the named one.
    End(String, CellId, Option<String>),
    /// Ends the first process of this cell on them, and all others with it.
    Kill(String, CellId),
    /// Stops the whole fleet gracefully.
    Stop,
}

impl std::str::FromStr for Word {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["die", who] => Self::Die(who.to_owned()),
            ["revive", who] => Self::Revive(who.to_owned()),
            ["reboot", who] => Self::Reboot(who.to_owned()),
            ["partition", who] => Self::Partition(who.to_owned()),
            ["heal", who] => Self::Heal(who.to_owned()),
            ["fail", who, part] => {
                let part = part.parse().ok().filter(|part| (0.0..=1.0).contains(part));
                Self::Fail(who.to_owned(), part.ok_or("the failure rate must be a number from 0 to 1")?)
            }
            ["end", who, cell, ..] if words.len() <= 4 => {
                let cell = cell.parse().map_err(|error| format!("{cell} is not a cell: {error}"))?;
                Self::End(who.to_owned(), cell, words.get(3).map(|service| (*service).to_owned()))
            }
            ["kill", who, cell] => {
                let cell = cell.parse().map_err(|error| format!("{cell} is not a cell: {error}"))?;
                Self::Kill(who.to_owned(), cell)
            }
            ["stop"] => Self::Stop,
            _ => {
                return Err(
                    "use die, revive, reboot, partition or heal NAME, fail NAME P, end NAME CELL [SERVICE], kill NAME CELL, or stop"
                        .to_owned(),
                );
            }
        })
    }
}

impl Word {
    /// Executes it, and answers in one line: `ok`, the command and the affected nodes, or `error` and the reason.
    pub async fn obey(&self, fleet: &mut Fleet) -> String {
        let (word, who) = match self {
            Self::Die(who) => ("die", who),
            Self::Revive(who) => ("revive", who),
            Self::Reboot(who) => ("reboot", who),
            Self::Partition(who) => ("partition", who),
            Self::Heal(who) => ("heal", who),
            Self::Fail(who, _) => ("fail", who),
            Self::End(who, ..) => ("end", who),
            Self::Kill(who, _) => ("kill", who),
            Self::Stop => {
                fleet.stop().await;
                return "ok stop".to_owned();
            }
        };
        let chosen = match fleet.choose(who) {
            Ok(chosen) => chosen,
            Err(why) => return format!("error {why}"),
        };
        let mut ended = false;
        for at in &chosen {
            match self {
                Self::Die(_) => fleet.die(*at).await,
                Self::Revive(_) => {
                    if let Err(error) = fleet.revive(*at) {
                        return format!("error {error}");
                    }
                }
                Self::Reboot(_) => {
                    if let Err(error) = fleet.reboot(*at).await {
                        return format!("error {error}");
                    }
                }
                Self::Partition(_) => fleet.partition(*at, true),
                Self::Heal(_) => fleet.partition(*at, false),
                Self::Fail(_, part) => fleet.set_fail(*at, *part),
                Self::End(_, cell, service) => match fleet.end_services(*at, *cell, service.as_deref()) {
                    Ok(one) => ended |= one,
                    Err(error) => return format!("error {error}"),
                },
                Self::Kill(_, cell) => match fleet.kill_cell(*at, *cell) {
                    Ok(one) => ended |= one,
                    Err(error) => return format!("error {error}"),
                },
                Self::Stop => {}
            }
        }
        if matches!(self, Self::End(..) | Self::Kill(..)) && !ended {
            return "error no such service or cell runs there".to_owned();
        }
        let names: Vec<&str> = chosen.iter().map(|at| fleet.name(*at)).collect();
        format!("ok {word} {}", names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::Word;

    #[test]
    fn control_commands_parse_and_invalid_ones_are_refused() {
        assert_eq!("die sim-0001".parse(), Ok(Word::Die("sim-0001".into())));
        assert_eq!("reboot *".parse(), Ok(Word::Reboot("*".into())));
        assert_eq!("fail 50% 0.25".parse(), Ok(Word::Fail("50%".into(), 0.25)));
        let cell: muster_ids::CellId = muster_ids::Env::for_tests(1).id();
        let end = |service: Option<&str>| Ok(Word::End("0".into(), cell, service.map(str::to_owned)));
        assert_eq!(format!("end 0 {cell}").parse(), end(None));
        assert_eq!(format!("end 0 {cell} web").parse(), end(Some("web")));
        assert_eq!(format!("kill 0 {cell}").parse(), Ok(Word::Kill("0".into(), cell)));
        for wrong in ["", "die", "kill 0", "fail * 2", "sing a song", "end 0", "end 0 cell", "end 0 a b c d"]
        {
            assert!(wrong.parse::<Word>().is_err(), "{wrong}");
        }
    }
}
