//! Parses Slurm's record of a node. Pure. Unknown values never count as a yes.

use jiff::Timestamp;

use crate::queue::seconds;

/// The prefix of the reason of a drain by the platform; the operation follows it.
const OURS: &str = "muster ";

/// A node, as `scontrol -o show node` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// The base state and the flags: `IDLE`, `DRAIN`, `DYNAMIC_NORM`.
    pub(crate) states: Vec<String>,
    pub(crate) reason: Option<String>,
    pub(crate) features: Vec<String>,
    pub(crate) version: Option<String>,
    pub(crate) allocated_cpus: i64,
    pub(crate) cpus: i64,
    /// The time of its last work, if given in seconds.
    pub(crate) last_busy: Option<Timestamp>,
}

/// Why a node is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Down {
    /// It is not.
    No,
    /// slurmctld set it down because slurmd did not respond, or the platform's own record has no other cause: it returns to
    /// service when slurmd responds again.
    Silence,
    /// A person or a health check set it down.
    Theirs(String),
}

/// Reason that slurmctld itself writes when it sets a node down. A person's reason begins otherwise.
const SILENCE: [&str; 2] = ["Not responding", "Node unexpectedly rebooted"];

/// The origin of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Drain {
    /// Not drained.
    None,
    /// An operation of the platform's.
    Ours,
    /// Another origin: a person, a health check.
    Theirs(String),
}

impl Node {
    /// One line of `scontrol -o show node`.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let field = |key: &str| {
            let key = format!("{key}=");
            // A key stands at the beginning or after a space, or it is the end of another's name.
            let mut found = line.match_indices(&key).map(|(at, _)| at);
            let at = found.find(|at| *at == 0 || line.as_bytes()[at - 1] == b' ')?;
            Some(&line[at + key.len()..])
        };
        let word =
            |key: &str| field(key).and_then(|rest| rest.split(' ').next()).filter(|word| !word.is_empty());
        let number = |key: &str| word(key).and_then(|word| word.parse().ok()).unwrap_or_default();
        let states: Vec<String> = word("State")?.split('+').map(str::to_owned).collect();
        // The reason has spaces, and ends with its author and time: `muster op_1 [slurm@2026-01-01T00:00:00]`.
        let reason = field("Reason").map(|rest| {
            let end = rest.rfind(" [").filter(|_| rest.trim_end().ends_with(']')).unwrap_or(rest.len());
            rest[..end].trim().to_owned()
        });
        Some(Self {
            name: word("NodeName")?.to_owned(),
            states,
            reason: reason.filter(|reason| !reason.is_empty()),
            features: word("AvailableFeatures")
                .into_iter()
                .flat_map(|features| features.split(','))
                .map(str::to_owned)
                .collect(),
            version: word("Version").map(str::to_owned),
            allocated_cpus: number("CPUAlloc"),
            cpus: number("CPUTot"),
            last_busy: word("LastBusyTime").and_then(seconds),
        })
    }

    pub(crate) fn is(&self, state: &str) -> bool {
        // A star or another mark after a state is the connection's status, which has its own flag.
        self.states.iter().any(|found| found.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()) == state)
    }

    /// Returns the origin of its drain.
    pub(crate) fn drain(&self) -> Drain {
        match (self.is("DRAIN"), &self.reason) {
            (false, _) => Drain::None,
            (true, Some(reason)) if reason.starts_with(OURS) => Drain::Ours,
            (true, reason) => Drain::Theirs(reason.clone().unwrap_or_else(|| "no reason given".to_owned())),
        }
    }

    /// Whether it is down, and why.
    pub(crate) fn down(&self) -> Down {
        match (self.is("DOWN"), &self.reason) {
            (false, _) => Down::No,
            (true, Some(reason)) if !reason.starts_with(OURS) && !is_silence(reason) => {
                Down::Theirs(reason.clone())
            }
            (true, _) => Down::Silence,
        }
    }

    /// The reason that a drain for this operation writes. A drain replaces the reason without a word, and resume must still find out
    /// that a person set the node down: that reason stays.
    pub(crate) fn drain_reason(&self, operation: &str) -> String {
        match self.down() {
            Down::Theirs(why) => why,
            Down::No | Down::Silence => reason(operation),
        }
    }

    /// Reports whether no work runs on it and none is scheduled, by the node's own record; the queue is checked separately.
    pub(crate) fn is_drained(&self) -> bool {
        let idle = self.is("IDLE") || self.is("DOWN");
        idle && self.is("DRAIN") && !["COMPLETING", "ALLOCATED", "MIXED"].iter().any(|busy| self.is(busy))
    }

    /// Whether it takes work.
    pub(crate) fn works(&self) -> bool {
        let heard = ["IDLE", "MIXED", "ALLOCATED"].iter().any(|state| self.is(state));
        heard && !["DRAIN", "DOWN", "NOT_RESPONDING", "FAIL", "INVALID_REG"].iter().any(|bad| self.is(bad))
    }

    /// The states in Slurm's own words.
    pub(crate) fn state(&self) -> String {
        self.states.join("+")
    }
}

fn is_silence(reason: &str) -> bool {
    SILENCE.iter().any(|ours| reason.starts_with(ours))
}

/// The reason of a drain that is an operation's.
pub(crate) fn reason(operation: &str) -> String {
    format!("{OURS}{operation}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAINING: &str = "NodeName=lab-worker-1 Arch=x86_64 CoresPerSocket=1 CPUAlloc=1 CPUTot=1 CPULoad=0.55 \
        AvailableFeatures=incarnation-2 ActiveFeatures=incarnation-2 Gres=(null) NodeAddr=10.64.0.3 NodeHostName=lab-worker-1 \
        Version=22.05.8 OS=Linux 6.1 RealMemory=244 AllocMem=100 FreeMem=20 State=MIXED+DRAIN+DYNAMIC_NORM ThreadsPerCore=1 \
        Partitions=main BootTime=2026-01-01T00:00:00 CfgTRES=cpu=1,mem=244M,billing=1 AllocTRES=cpu=1,mem=100M \
        Reason=muster op_0198 now [root@2026-01-01T00:00:00]";

    fn with(state: &str, reason: &str) -> Node {
        let line = DRAINING.replace("MIXED+DRAIN+DYNAMIC_NORM", state);
        let line = line.split(" Reason=").next().unwrap().to_owned();
        let said = if reason.is_empty() { String::new() } else { format!(" Reason={reason} [root@x]") };
        Node::parse(&format!("{line}{said}")).unwrap()
    }

    #[test]
    fn a_line_is_read_whole() {
        let node = Node::parse(DRAINING).unwrap();
        assert_eq!(node.name, "lab-worker-1");
        assert_eq!(node.state(), "MIXED+DRAIN+DYNAMIC_NORM");
        assert_eq!(node.reason.as_deref(), Some("muster op_0198 now"));
        assert_eq!(node.features, ["incarnation-2"]);
        assert_eq!((node.version.as_deref(), node.allocated_cpus, node.cpus), (Some("22.05.8"), 1, 1));
        assert_eq!(node.drain(), Drain::Ours);
    }

    #[test]
    fn text_without_a_node_parses_to_none() {
        for said in [
            "",
            "Node x not found",
            "slurm_load_node error: Unable to contact slurm controller",
            "NodeName=x",
        ] {
            assert_eq!(Node::parse(said), None, "{said}");
        }
    }

    #[test]
    fn drained_is_idle_and_drain_and_nothing_else() {
        for state in ["IDLE+DRAIN+DYNAMIC_NORM", "DOWN+DRAIN", "IDLE+DRAIN+NOT_RESPONDING"] {
            assert!(with(state, "muster op_1").is_drained(), "{state}");
        }
        for state in [
            "IDLE",
            "MIXED+DRAIN",
            "ALLOCATED+DRAIN",
            "IDLE+COMPLETING+DRAIN",
            "DOWN",
            "UNKNOWN",
            "UNKNOWN+DRAIN",
        ] {
            assert!(!with(state, "muster op_1").is_drained(), "{state}");
        }
    }

    #[test]
    fn drain_without_our_reason_is_foreign() {
        assert_eq!(with("IDLE", "").drain(), Drain::None);
        assert_eq!(with("IDLE+DRAIN", "muster op_1").drain(), Drain::Ours);
        assert_eq!(with("IDLE+DRAIN", "bad disk").drain(), Drain::Theirs("bad disk".to_owned()));
        assert_eq!(with("IDLE+DRAIN", "mustering").drain(), Drain::Theirs("mustering".to_owned()));
        assert!(matches!(with("IDLE+DRAIN", "").drain(), Drain::Theirs(_)));
    }

    #[test]
    fn a_node_is_down_by_silence_unless_another_reason_stands_there() {
        assert_eq!(with("IDLE", "Not responding").down(), Down::No);
        for (state, reason) in [
            ("DOWN+NOT_RESPONDING+DYNAMIC_NORM", "Not responding"),
            ("DOWN*", "Not responding"),
            ("DOWN+DYNAMIC_NORM", ""),
            ("DOWN", "Node unexpectedly rebooted"),
            // An operation drained it after it went down, and its reason replaced slurmctld's.
            ("DOWN+DRAIN+NOT_RESPONDING", "muster op_1"),
        ] {
            assert_eq!(with(state, reason).down(), Down::Silence, "{state} {reason}");
        }
        for reason in ["bad disk", "mustering", "not responding to my calls"] {
            assert_eq!(with("DOWN", reason).down(), Down::Theirs(reason.to_owned()));
        }
    }

    #[test]
    fn drain_keeps_the_existing_reason_of_a_down_node() {
        for (state, reason) in [("IDLE", ""), ("MIXED", ""), ("DOWN+NOT_RESPONDING", "Not responding")] {
            assert_eq!(with(state, reason).drain_reason("op_1"), "muster op_1", "{state}");
        }
        assert_eq!(with("DOWN", "bad disk").drain_reason("op_1"), "bad disk");
    }

    #[test]
    fn a_node_works_that_is_heard_and_takes_jobs() {
        for state in ["IDLE+DYNAMIC_NORM", "MIXED", "ALLOCATED+COMPLETING"] {
            assert!(with(state, "").works(), "{state}");
        }
        for state in ["IDLE+DRAIN", "DOWN", "DOWN*", "IDLE+NOT_RESPONDING", "UNKNOWN", "IDLE+INVALID_REG"] {
            assert!(!with(state, "").works(), "{state}");
        }
    }
}
