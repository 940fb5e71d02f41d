//! Where things are in a cell, as the image and the manifest have them.

/// Programs of the image's own.
pub(crate) const PREPARE: &str = "/usr/lib/muster-slurm/prepare";
pub(crate) const ACCOUNTS: &str = "/usr/lib/muster-slurm/accounts";
pub(crate) const ACCOUNTS_USABLE: &str = "/usr/lib/muster-slurm/accounts-usable";
pub(crate) const AWAIT_DRAINED: &str = "/usr/lib/muster-slurm/await-drained";
pub(crate) const FORGET: &str = "/usr/lib/muster-slurm/forget";
pub(crate) const HOLD: &str = "/usr/lib/muster-slurm/hold";
pub(crate) const SCONTROL: &str = "/usr/bin/scontrol";
pub(crate) const SQUEUE: &str = "/usr/bin/squeue";
pub(crate) const MUNGE_PROGRAM: &str = "/usr/bin/munge";
pub(crate) const UNMUNGE: &str = "/usr/bin/unmunge";

/// Users of the image, by number: a file is given to them by that.
pub(crate) const MUNGE: i32 = 120;
pub(crate) const SLURM: i32 = 64_030;
pub(crate) const NOBODY: i32 = 65_534;

/// Services of the manifest.
pub(crate) const MUNGE_SERVICE: &str = "munge";
pub(crate) const DATABASE_SERVICE: &str = "database";
pub(crate) const ACCOUNTING_SERVICE: &str = "accounting";
pub(crate) const CONTROLLER_SERVICE: &str = "controller";
pub(crate) const WORKER_SERVICE: &str = "worker";
pub(crate) const SSH_SERVICE: &str = "ssh";

/// The keys of the components, shared by the manifest and this adapter.
pub(crate) const CONTROLLER: &str = "controller";
pub(crate) const WORKER: &str = "worker";
pub(crate) const LOGIN: &str = "login";
