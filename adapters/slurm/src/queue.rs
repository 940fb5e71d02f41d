//! When nodes are free, as the queue has it. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// How `squeue` is asked: limit, expected end and nodes of every job that is on any. With `SLURM_TIME_FORMAT=%s` times are seconds,
/// and no time zone is guessed.
pub(crate) const FORMAT: &str = "%l|%e|%N";

/// End of a node's jobs, as the queue reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The last of them ends then, unless it is over before.
    At(Timestamp),
    /// One of them has no limit, or an end that is no time. It is not replaced by a date in the far future, because people read
    /// it, and sorting puts unknown values last anyway.
    Unknown,
}

/// When each node that has a job is free. A line that cannot be read makes all of it useless, for it may have been about any node.
pub(crate) fn ends(said: &str) -> Option<BTreeMap<String, End>> {
    let mut ends: BTreeMap<String, End> = BTreeMap::new();
    for line in said.lines().filter(|line| !line.trim().is_empty()) {
        let mut fields = line.trim().splitn(3, '|');
        let (limit, end, nodes) = (fields.next()?, fields.next()?, fields.next()?);
        let end = match (limit, seconds(end)) {
            ("UNLIMITED", _) | (_, None) => End::Unknown,
            (_, Some(at)) => End::At(at),
        };
        for node in names(nodes)? {
            let known = ends.entry(node).or_insert(end);
            *known = match (*known, end) {
                (End::At(one), End::At(other)) => End::At(one.max(other)),
                _ => End::Unknown,
            };
        }
    }
    Some(ends)
}

/// Seconds since 1970.
pub(crate) fn seconds(text: &str) -> Option<Timestamp> {
    text.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok())
}

/// The nodes that a list names: `lab-worker-[1,3-5],other-1`. Nothing of one that has more brackets than ours ever have.
fn names(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        let stem = &rest[..end];
        if rest[end..].starts_with('[') {
            let close = rest.find(']')?;
            for part in rest[end + 1..close].split(',') {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let (from, to): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
                names
                    .extend((from..=to).map(|number| format!("{stem}{number:0width$}", width = first.len())));
            }
            rest = &rest[close + 1..];
        } else {
            names.push(stem.to_owned());
            rest = &rest[end..];
        }
        rest = match rest.strip_prefix(',') {
            Some(more) => more,
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> End {
        End::At(Timestamp::from_second(seconds).unwrap())
    }

    #[test]
    fn the_last_job_of_a_node_says_when_it_is_free() {
        let said = "1:00:00|5000|lab-worker-1\n10:00|900|lab-worker-[1-2]\n1-00:00:00|NONE|\n";
        let ends = ends(said).unwrap();
        assert_eq!(ends["lab-worker-1"], at(5000));
        assert_eq!(ends["lab-worker-2"], at(900));
        assert_eq!(ends.len(), 2, "what waits is on no node");
    }

    #[test]
    fn a_job_without_a_limit_or_an_end_makes_it_unknown() {
        let said = "UNLIMITED|99999|a-1\n10:00|900|a-1\n10:00|Unknown|a-2\n10:00|800|a-2\n10:00|7|a-3";
        let ends = ends(said).unwrap();
        assert_eq!((ends["a-1"], ends["a-2"], ends["a-3"]), (End::Unknown, End::Unknown, at(7)));
    }

    #[test]
    fn malformed_queue_output_parses_to_none() {
        for said in ["squeue: error", "10:00|900|a-[1", "10:00|900|a-[x-y]", "10:00|900|a-[1-2]b"] {
            assert_eq!(ends(said), None, "{said}");
        }
        assert_eq!(ends("\n"), Some(BTreeMap::new()));
    }

    #[test]
    fn lists_of_nodes_are_read_as_slurm_writes_them() {
        assert_eq!(names("a-worker-[1,3-4],b-1").unwrap(), ["a-worker-1", "a-worker-3", "a-worker-4", "b-1"]);
        assert_eq!(names("a-[009-010]").unwrap(), ["a-009", "a-010"]);
        assert_eq!(names("").unwrap(), [""; 0]);
    }
}
