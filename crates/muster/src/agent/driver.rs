//! Driver of `muster agent run`, which creates allocations and cells.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use muster_agent::inventory::check_limits;
use muster_agent::{Address, CrashHook, Driver, Folder, Identity, Machine, real};
use muster_agent_sim::{Faults, Surroundings};
use muster_ids::Env;

use crate::agent::tuning::{journal, kill_points, odds, seed, with_knobs};

/// Adds the driver's flags.
pub(crate) fn with_driver(command: Command) -> Command {
    let driver = Arg::new("driver")
        .long("driver")
        .value_name("DRIVER")
        .value_parser(["cells", "simulated"])
        .default_value("cells")
        .help("Driver of sandboxes: `cells` on this machine, or `simulated`, which keeps records and isolates nothing");
    let images = Arg::new("images")
        .long("images")
        .value_name("FOLDER")
        .value_hint(ValueHint::DirPath)
        .value_parser(value_parser!(PathBuf))
        .help("An OCI layout with images that cells may use");
    let host = Arg::new("host-directory")
        .long("host-directory")
        .value_name("PATH")
        .action(ArgAction::Append)
        .help("A directory of this machine that cells may use, read-only; may be given several times");
    let shared = Arg::new("shared-files")
        .long("shared-files")
        .value_name("FOLDER")
        .value_hint(ValueHint::DirPath)
        .value_parser(value_parser!(PathBuf))
        .help("A folder on a file system shared by nodes, for directories that an app's members share");
    let address = Arg::new("address")
        .long("address")
        .value_name("IPV4")
        .value_parser(value_parser!(Ipv4Addr))
        .help("This node's address for other nodes [default: its address towards the server]");
    let run = Arg::new("run-dir")
        .long("run-dir")
        .value_name("FOLDER")
        .value_hint(ValueHint::DirPath)
        .value_parser(value_parser!(PathBuf))
        .default_value("/run/muster")
        .help("Folder of mounts and namespaces while the machine runs");
    let base = Arg::new("id-base")
        .long("id-base")
        .value_name("UID")
        .value_parser(value_parser!(u32).range(65_536..))
        .default_value("1879048192")
        .help("The first user id of cells on this machine; ids from it on must be unused");
    let share = Arg::new("project-images-percent")
        .long("project-images-percent")
        .value_name("PERCENT")
        .value_parser(value_parser!(u8).range(1..=100))
        .default_value("50")
        .help("The most of the room for images on this node that images of one project may use");
    with_knobs(command.args([driver, images, host, shared, share, address, run, base]))
}

/// Checks early, before anything is joined or opened, that this machine has the required programs.
pub(crate) fn check_driver(matches: &ArgMatches) -> anyhow::Result<()> {
    if is_simulated(matches) {
        return Ok(());
    }
    let missing = [real::missing_tools(), real::outdated_tools()].concat();
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "this machine lacks requirements of real cells: {}. Without them, `--driver simulated` keeps records and isolates nothing",
        missing.join("; ")
    )
}

fn is_simulated(matches: &ArgMatches) -> bool {
    matches.get_one::<String>("driver").is_some_and(|driver| driver == "simulated")
}

/// Opens the selected driver.
pub(crate) async fn open(
    matches: &ArgMatches,
    identity: &Identity,
    folder: &Folder,
    machine: &Machine,
    env: &Env,
) -> anyhow::Result<Arc<dyn Driver>> {
    let name = identity.node.name.clone();
    if is_simulated(matches) {
        let around = Surroundings {
            journal: journal(matches)?,
            faults: Arc::new(Faults::new(odds(matches)?, seed(matches), &name)),
            kill: kill_points()?,
        };
        tracing::warn!(
            node = name,
            "the driver is simulated: sandboxes are records, and nothing is isolated"
        );
        return Ok(Arc::new(muster_agent_sim::Driver::open(&name, folder, env, around)?));
    }
    let settings = settings(matches, identity, folder, machine, kill_points()?.hook()).await?;
    let env = env.clone();
    let driver = tokio::task::spawn_blocking(move || real::Driver::open(settings, &env)).await??;
    Ok(Arc::new(driver))
}

/// Returns the settings of the real driver.
pub(crate) async fn settings(
    matches: &ArgMatches,
    identity: &Identity,
    folder: &Folder,
    machine: &Machine,
    crash: CrashHook,
) -> anyhow::Result<real::Settings> {
    let address = match matches.try_get_one::<Ipv4Addr>("address").ok().flatten() {
        Some(address) => *address,
        None => address_towards(&identity.node.server.parse()?)?,
    };
    let inventory = machine.look().await;
    let absolute = |path: PathBuf| std::path::absolute(&path).with_context(|| path.display().to_string());
    let run: &PathBuf = matches.get_one("run-dir").context("--run-dir")?;
    let images = matches.try_get_one::<PathBuf>("images").ok().flatten().cloned();
    let shared = matches.try_get_one::<PathBuf>("shared-files").ok().flatten().cloned();
    let host = matches.try_get_many::<String>("host-directory").ok().flatten();
    let folder = absolute(folder.path().join("driver"))?;
    let key = real::key(&folder, identity.node.node_id)?;
    Ok(real::Settings {
        folder,
        run: absolute(run.join(&key))?,
        key,
        images: images.map(absolute).transpose()?,
        host_directories: host.map(|all| all.cloned().collect()).unwrap_or_default(),
        shared_files: shared.map(absolute).transpose()?,
        address,
        devices: real::devices(&inventory, std::path::Path::new("/proc")),
        checks: check_limits(inventory.reserved)?,
        project_images_percent: *matches
            .get_one("project-images-percent")
            .context("--project-images-percent")?,
        id_base: *matches.get_one("id-base").context("--id-base")?,
        crash,
    })
}

/// Returns the source address for packets to the server. Nothing is sent.
fn address_towards(server: &Address) -> anyhow::Result<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((server.host(), server.port())).with_context(|| format!("{server} is not reachable"))?;
    match socket.local_addr()?.ip() {
        IpAddr::V4(address) => Ok(address),
        IpAddr::V6(_) => {
            bail!("the server is reached over IPv6: set this node's address for other nodes with --address")
        }
    }
}
