//! NVLink islands: groups of GPUs connected over NVLink.

/// Remote end of an active link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// A PCI device: another GPU, otherwise a switch.
    Device(String),
    /// A switch that the driver does not identify.
    Switch,
    /// Unknown to the driver.
    Unknown,
}

/// A GPU and its link targets.
#[derive(Debug, Clone)]
pub(super) struct Linked {
    /// PCI address of the GPU.
    pub(super) pci: String,
    /// Remote ends of the active links.
    pub(super) ends: Vec<End>,
}

/// Returns the island of each GPU, numbered from 0 in the order of the GPUs. A link to no GPU of the machine leads to a
/// switch, and all switches of a machine form one fabric. A link with an unknown end connects nothing: a missing connection
/// costs a worse placement, a wrong one a slow job.
pub(super) fn islands(gpus: &[Linked]) -> Vec<i64> {
    let fabric = gpus.len();
    let mut parents: Vec<usize> = (0..=fabric).collect();
    for (gpu, linked) in gpus.iter().enumerate() {
        for end in &linked.ends {
            let other = match end {
                End::Device(pci) => gpus.iter().position(|other| other.pci == *pci).unwrap_or(fabric),
                End::Switch => fabric,
                End::Unknown => continue,
            };
            let (a, b) = (top(&parents, gpu), top(&parents, other));
            parents[a] = b;
        }
    }
    let mut tops = Vec::new();
    (0..gpus.len())
        .map(|gpu| {
            let top = top(&parents, gpu);
            let number = tops.iter().position(|known| *known == top).unwrap_or_else(|| {
                tops.push(top);
                tops.len() - 1
            });
            i64::try_from(number).unwrap_or(i64::MAX)
        })
        .collect()
}

fn top(parents: &[usize], mut at: usize) -> usize {
    while parents[at] != at {
        at = parents[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{End, Linked, islands};

    fn to(pci: &str) -> End {
        End::Device(pci.to_owned())
    }

    fn of(gpus: &[(&str, Vec<End>)]) -> Vec<i64> {
        let gpus: Vec<Linked> =
            gpus.iter().map(|(pci, ends)| Linked { pci: (*pci).to_owned(), ends: ends.clone() }).collect();
        islands(&gpus)
    }

    #[test]
    fn gpus_without_links_are_islands_of_their_own() {
        assert_eq!(of(&[("a", vec![]), ("b", vec![]), ("c", vec![])]), [0, 1, 2]);
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn bridges_between_two_gpus_make_pairs() {
        let pairs =
            of(&[("a", vec![to("c")]), ("b", vec![to("d")]), ("c", vec![to("a")]), ("d", vec![to("b")])]);
        assert_eq!(pairs, [0, 1, 0, 1]);
    }

    #[test]
    fn a_chain_is_one_island_even_where_only_one_end_reports_the_link() {
        assert_eq!(
            of(&[("a", vec![]), ("b", vec![to("a")]), ("c", vec![to("b")]), ("d", vec![])]),
            [0, 0, 0, 1]
        );
    }

    #[test]
    fn switches_are_one_fabric_whichever_of_them_a_gpu_hangs_on() {
        let gpus =
            [("a", vec![to("s1"), to("s2")]), ("b", vec![to("s3")]), ("c", vec![]), ("d", vec![End::Switch])];
        assert_eq!(of(&gpus), [0, 0, 1, 0]);
    }

    #[test]
    fn an_unknown_end_connects_nothing() {
        assert_eq!(of(&[("a", vec![End::Unknown]), ("b", vec![End::Unknown])]), [0, 1]);
    }

    #[test]
    fn the_numbers_do_not_depend_on_which_way_a_link_was_seen() {
        let one = of(&[("a", vec![to("b")]), ("b", vec![]), ("c", vec![to("s")]), ("d", vec![to("s")])]);
        let other = of(&[("a", vec![]), ("b", vec![to("a")]), ("c", vec![to("s")]), ("d", vec![to("s")])]);
        assert_eq!(one, other);
        assert_eq!(one, [0, 0, 1, 1]);
    }
}
