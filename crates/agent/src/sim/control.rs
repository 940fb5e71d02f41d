//! Words by which a test steers a simulated fleet while it runs.

use muster_ids::CellId;

use super::fleet::Fleet;

/// A line of the standard input.
#[derive(Debug, Clone, PartialEq)]
pub enum Word {
    /// These agents end at once, as if killed; what they wrote down stays.
    Die(String),
    /// They start again.
    Revive(String),
    /// Nothing gets from or to them.
    Partition(String),
    /// It does again.
    Heal(String),
    /// This part of their tasks fails from now on.
    Fail(String, f64),
    /// The services of this cell on them end by themselves, or the one that is named.
    End(String, CellId, Option<String>),
    /// The whole fleet stops in order.
    Stop,
}

impl std::str::FromStr for Word {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["die", who] => Self::Die(who.to_owned()),
            ["revive", who] => Self::Revive(who.to_owned()),
            ["partition", who] => Self::Partition(who.to_owned()),
            ["heal", who] => Self::Heal(who.to_owned()),
            ["fail", who, part] => {
                let part = part.parse().ok().filter(|part| (0.0..=1.0).contains(part));
                Self::Fail(who.to_owned(), part.ok_or("how much fails is a number from 0 to 1")?)
            }
            ["end", who, cell, ..] if words.len() <= 4 => {
                let cell = cell.parse().map_err(|error| format!("{cell} is no cell: {error}"))?;
                Self::End(who.to_owned(), cell, words.get(3).map(|service| (*service).to_owned()))
            }
            ["stop"] => Self::Stop,
            _ => {
                return Err(
                    "say die, revive, partition or heal NAME, fail NAME P, end NAME CELL [SERVICE], or stop"
                        .to_owned(),
                );
            }
        })
    }
}

impl Word {
    /// Does it, and answers in one line: `ok`, the word and whom it met, or `error` and why.
    pub async fn obey(&self, fleet: &mut Fleet) -> String {
        let (word, who) = match self {
            Self::Die(who) => ("die", who),
            Self::Revive(who) => ("revive", who),
            Self::Partition(who) => ("partition", who),
            Self::Heal(who) => ("heal", who),
            Self::Fail(who, _) => ("fail", who),
            Self::End(who, ..) => ("end", who),
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
                Self::Partition(_) => fleet.partition(*at, true),
                Self::Heal(_) => fleet.partition(*at, false),
                Self::Fail(_, part) => fleet.set_fail(*at, *part),
                Self::End(_, cell, service) => match fleet.end_services(*at, *cell, service.as_deref()) {
                    Ok(one) => ended |= one,
                    Err(error) => return format!("error {error}"),
                },
                Self::Stop => {}
            }
        }
        if matches!(self, Self::End(..)) && !ended {
            return "error no such service runs there".to_owned();
        }
        let names: Vec<&str> = chosen.iter().map(|at| fleet.name(*at)).collect();
        format!("ok {word} {}", names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::Word;

    #[test]
    fn what_is_no_word_is_answered_with_the_words() {
        assert_eq!("die sim-0001".parse(), Ok(Word::Die("sim-0001".into())));
        assert_eq!("fail 50% 0.25".parse(), Ok(Word::Fail("50%".into(), 0.25)));
        let cell: muster_ids::CellId = muster_ids::World::for_tests(1).id();
        let end = |service: Option<&str>| Ok(Word::End("0".into(), cell, service.map(str::to_owned)));
        assert_eq!(format!("end 0 {cell}").parse(), end(None));
        assert_eq!(format!("end 0 {cell} web").parse(), end(Some("web")));
        for wrong in ["", "die", "fail * 2", "sing a song", "end 0", "end 0 cell", "end 0 a b c d"] {
            assert!(wrong.parse::<Word>().is_err(), "{wrong}");
        }
    }
}
