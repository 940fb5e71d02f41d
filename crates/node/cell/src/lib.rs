//! Cells: runc under conmon, with control groups, devices, services, logs and commands.
//!
//! A cell is one container with its own namespaces, its own range of ids, a control group below its allocation's, and only
//! the claimed devices. Its first process only reaps orphans; services and commands are started into it, each under a
//! monitor that outlives the agent. All state needed to continue after a crash, or to remove a cell from any state, is on
//! disk before the effect. Reports about a cell come from inspecting the kernel and the disk.
//!
//! All of this blocks; call it from blocking threads.

mod apply;
mod bundle;
mod cells;
mod cgroup;
mod check;
mod check_limits;
mod command;
mod destroy;
mod document;
mod enter;
mod error;
mod exec;
mod file;
mod folder;
mod idmap;
mod lasting;
mod leftover;
mod log;
mod look;
mod make;
mod monitor;
mod mount_attr;
mod namespace_owner;
mod observe;
mod patience;
mod people;
mod plan;
mod probe;
mod process;
mod program;
mod range;
mod record;
mod request;
mod root;
mod runc_version;
mod seccomp;
mod secret;
mod service;
mod settings;
mod supervise;
mod tail;
mod tool;
mod witness;

pub use cells::Cells;
pub use cgroup::{GroupFindings, Limits};
pub use check_limits::CheckLimits;
pub use command::Once;
pub use destroy::DestroyOptions;
pub use error::{CellError, CellResult};
pub use exec::{Attached, Command, CommandFindings, CommandState, Streams};
pub use file::NewFile;
pub use log::{LogCursor, LogLine, LogQuery, Stream};
pub use make::{Made, Make};
pub use observe::CellStatus;
pub use patience::Patience;
pub use record::{Device, RootSource, Share};
pub use request::Request;
pub use runc_version::{RUNC_FLOOR, RuncVersion, outdated_runc};
pub use secret::Secret;
pub use settings::{LogLimits, POINTS, PROGRAMS, Reach, Settings, Tools};
