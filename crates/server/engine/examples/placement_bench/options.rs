//! The command line.

use muster_ids::{ProjectId, TenantId, TypedId};
use uuid::Uuid;

const USAGE: &str = "\
usage: placement_bench MODE --database URL [OPTIONS]

  open                 make the schema, and nothing else
  ours                 one decision and claim after the other, as the engine does it; each is released untimed
  naive                the same by reading every free slot there is
  claims               workers that claim as fast as they can and release nothing

  --tenant UUID        whose allocations it are [nil]
  --project UUID       whose allocations it are [nil]
  --seconds N          how long [1]
  --most N             so many at most [no limit]
  --warm N             so many before them that do not count [16]
  --workers N          at once, for `claims` [1]";

/// The benchmark to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Open,
    Ours,
    Naive,
    Claims,
}

/// Command-line options.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) database: String,
    pub(crate) tenant: TenantId,
    pub(crate) project: ProjectId,
    pub(crate) seconds: f64,
    pub(crate) most: usize,
    pub(crate) warm: usize,
    pub(crate) workers: usize,
}

fn read<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} {text}: not understood\n\n{USAGE}"))
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mode = match arguments.next().as_deref() {
            Some("open") => Mode::Open,
            Some("ours") => Mode::Ours,
            Some("naive") => Mode::Naive,
            Some("claims") => Mode::Claims,
            _ => return Err(USAGE.to_owned()),
        };
        let mut options = Self {
            mode,
            database: String::new(),
            tenant: TenantId::from_uuid(Uuid::nil()),
            project: ProjectId::from_uuid(Uuid::nil()),
            seconds: 1.0,
            most: usize::MAX,
            warm: 16,
            workers: 1,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))?;
            match name.as_str() {
                "--database" => options.database = value,
                "--tenant" => options.tenant = TenantId::from_uuid(read(&name, &value)?),
                "--project" => options.project = ProjectId::from_uuid(read(&name, &value)?),
                "--seconds" => options.seconds = read(&name, &value)?,
                "--most" => options.most = read(&name, &value)?,
                "--warm" => options.warm = read(&name, &value)?,
                "--workers" => options.workers = read::<usize>(&name, &value)?.max(1),
                _ => return Err(format!("there is no option {name}\n\n{USAGE}")),
            }
        }
        if options.database.is_empty() { Err(USAGE.to_owned()) } else { Ok(options) }
    }
}
