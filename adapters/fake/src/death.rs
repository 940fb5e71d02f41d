//! Aborts the process at a named point without a report or clean-up, like a `kill -9`.

use std::io::Write as _;
use std::path::PathBuf;

use muster_adapter_kit::types::AdapterVerb;

/// Where in a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// Before anything was done.
    Before,
    /// After the effect, before the report to the platform.
    After,
}

/// When to die.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) verb: String,
    pub(crate) point: Point,
    /// How often, and the file in which deaths are counted, a byte each.
    pub(crate) limit: Option<(u64, PathBuf)>,
}

impl Death {
    /// Whether it is due here; if there is a limit, it is counted before it happens.
    pub(crate) fn is_due(&self, verb: AdapterVerb, point: Point) -> bool {
        if self.point != point || (self.verb != "*" && self.verb != verb.to_string()) {
            return false;
        }
        let Some((times, file)) = &self.limit else { return true };
        if std::fs::metadata(file).is_ok_and(|so_far| so_far.len() >= *times) {
            return false;
        }
        let counted = std::fs::File::options()
            .create(true)
            .append(true)
            .open(file)
            .and_then(|mut file| file.write_all(b"x"));
        // One that cannot be counted would come again for ever.
        counted.is_ok()
    }

    /// Dies.
    pub(crate) fn strike(&self) {
        eprintln!("fake: dying in {}, as configured", self.verb);
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_are_counted_over_processes() {
        let folder = tempfile::tempdir().unwrap();
        let death = Death {
            verb: "join".to_owned(),
            point: Point::After,
            limit: Some((2, folder.path().join("deaths"))),
        };
        assert!(!death.is_due(AdapterVerb::Join, Point::Before));
        assert!(!death.is_due(AdapterVerb::Drain, Point::After));
        let due: Vec<bool> = (0..4).map(|_| death.clone().is_due(AdapterVerb::Join, Point::After)).collect();
        assert_eq!(due, [true, true, false, false]);
    }

    #[test]
    fn without_a_limit_it_always_is() {
        let death = Death { verb: "*".to_owned(), point: Point::Before, limit: None };
        assert!(death.is_due(AdapterVerb::Remove, Point::Before));
        assert!(!death.is_due(AdapterVerb::Remove, Point::After));
    }
}
