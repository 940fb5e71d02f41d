//! Context of every command: server, credentials and output format.

use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ArgMatches;
use jiff::{SignedDuration, Timestamp};
use muster_sdk::{Connection, Connector};

use crate::artifact::progress::Progress;
use crate::failure::{Failure, Result};
use crate::options::{Surroundings, levels, variable};
use crate::printable::printable;
use crate::profile::{Profile, Profiles};

const DEFAULT_SERVER: &str = "http://127.0.0.1:7480";
const USER_AGENT: &str = concat!("muster/", env!("CARGO_PKG_VERSION"));

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Table,
    Json,
    Name,
}

/// Context of a command.
pub(crate) struct Context {
    pub(crate) output: Output,
    pub(crate) server: String,
    pub(crate) now: Timestamp,
    pub(crate) profile_name: Option<String>,
    profile: Option<Profile>,
    named_token: Option<String>,
    kept_token: Option<String>,
    ca_file: Option<PathBuf>,
    verbose: bool,
    began: Instant,
    surroundings: Surroundings,
}

impl Context {
    /// Builds the context from the command line and the environment. With `may_be_new`, the profile need not exist yet.
    pub(crate) fn new(matches: &ArgMatches, surroundings: Surroundings, may_be_new: bool) -> Result<Self> {
        let levels = levels(matches);
        let option = |name: &str| surroundings.option(&levels, name);
        let profiles = Profiles::load(&surroundings.profiles_path)?;
        let named = option("profile");
        let chosen = match &named {
            Some(name) if may_be_new && !profiles.profiles.contains_key(name) => None,
            _ => profiles.chosen(named.as_deref())?,
        };
        let profile = chosen.map(|(_, profile)| profile.clone());
        let profile_name = named.or_else(|| chosen.map(|(name, _)| name.to_owned()));
        let server = option("server").or_else(|| profile.as_ref().map(|profile| profile.server.clone()));
        let server = server.unwrap_or_else(|| DEFAULT_SERVER.to_owned()).trim_end_matches('/').to_owned();
        // A profile's token is only sent to the profile's server: a mistyped or injected address must not receive it.
        let at_home = profile.as_ref().filter(|profile| profile.server == server);
        let typed_file =
            levels.iter().rev().find_map(|level| level.try_get_one::<String>("token-file").ok().flatten());
        let named_token = match (typed_file, surroundings.variables.get("MUSTER_TOKEN"), option("token-file"))
        {
            (Some(path), _, _) => Some(read_token(Path::new(path))?),
            (None, Some(token), _) => Some(token.clone()),
            (None, None, Some(path)) => Some(read_token(Path::new(&path))?),
            (None, None, None) => None,
        };
        let kept_token = at_home.and_then(|profile| profile.token.clone());
        let ca_file =
            option("ca-file").map(PathBuf::from).or_else(|| at_home.and_then(|home| home.ca_file.clone()));
        Ok(Self {
            output: match option("output").as_deref() {
                None | Some("table") => Output::Table,
                Some("json") => Output::Json,
                Some("name") => Output::Name,
                Some(other) => {
                    return Err(Failure::usage(format!(
                        "MUSTER_OUTPUT is {other:?}; it can be table, json or name"
                    )));
                }
            },
            server,
            now: surroundings.now,
            profile_name,
            profile,
            named_token,
            kept_token,
            ca_file,
            verbose: levels
                .iter()
                .any(|level| matches!(level.try_get_one::<bool>("verbose"), Ok(Some(true)))),
            began: Instant::now(),
            surroundings,
        })
    }

    /// Returns the current time for long-running commands: the start time plus the elapsed time.
    pub(crate) fn clock(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.elapsed()).unwrap_or_default();
        self.now.checked_add(passed).unwrap_or(self.now)
    }

    /// Reports whether standard output is a terminal.
    pub(crate) fn has_screen(&self) -> bool {
        self.surroundings.has_screen
    }

    /// Returns the form of progress output; none for scripts.
    pub(crate) fn progress(&self) -> Progress {
        match (self.output, self.surroundings.has_error_screen) {
            (Output::Table, true) => Progress::bars(),
            (Output::Table, false) => Progress::lines(),
            (Output::Json | Output::Name, _) => Progress::silent(),
        }
    }

    /// Returns the cache folder.
    pub(crate) fn cache_path(&self) -> &Path {
        &self.surroundings.cache_path
    }

    /// Reports whether requests are logged to stderr.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Reports whether a person can be prompted.
    pub(crate) fn can_ask(&self) -> bool {
        self.surroundings.can_ask
    }

    /// Returns a connection with the selected credentials.
    pub(crate) fn connect(&self) -> Result<Connection> {
        self.connect_as(self.token())
    }

    /// Returns a connection with this token or none.
    pub(crate) fn connect_as(&self, token: Option<&str>) -> Result<Connection> {
        let mut connector = Connector::new(&self.server).user_agent(USER_AGENT);
        if let Some(token) = token {
            connector = connector.token(token);
        }
        if let Some(path) = &self.ca_file {
            let pem = std::fs::read(path);
            connector = connector.ca_pem(
                pem.map_err(|error| Failure::local(&format!("{} cannot be read", path.display()), error))?,
            );
        }
        if self.verbose {
            connector = connector.watch(|exchange| {
                let result = match (exchange.status, exchange.correlation_id, exchange.error) {
                    (Some(status), Some(id), _) => format!("{status}, correlation id {id}"),
                    (Some(status), None, _) => status.to_string(),
                    (None, _, error) => error.unwrap_or("no answer").to_owned(),
                };
                eprintln!("{} {}: {}", exchange.method, printable(exchange.url), printable(&result));
            });
        }
        connector.connect().map_err(|error| Failure::call(None, error))
    }

    /// Returns the default tenant or project: the variable's, otherwise the profile's.
    pub(crate) fn default_for(&self, name: &str) -> Option<String> {
        let profile = self.profile.as_ref();
        let kept = match name {
            "tenant" => profile.and_then(|profile| profile.tenant.clone()),
            "project" => profile.and_then(|profile| profile.project.clone()),
            _ => return None,
        };
        self.surroundings.variables.get(&variable(name)).cloned().or(kept)
    }

    /// Returns the path of the profiles.
    pub(crate) fn profiles_path(&self) -> &Path {
        &self.surroundings.profiles_path
    }

    /// Returns the token: an explicit one, otherwise the profile's.
    fn token(&self) -> Option<&str> {
        self.named_token.as_deref().or(self.kept_token.as_deref())
    }

    /// Returns a token given by an option or a variable.
    pub(crate) fn named_token(&self) -> Option<&str> {
        self.named_token.as_deref()
    }

    /// Returns the file of certificate authorities, if any.
    pub(crate) fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }
}

/// Writes to standard output.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

pub(crate) fn read_token(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::local(&format!("the token file {} cannot be read", path.display()), error)
    })?;
    if is_exposed(path) {
        let path = path.display();
        eprintln!(
            "warning: other users of this machine can read the token file {path}: run chmod 600 {path}"
        );
    }
    match text.trim() {
        "" => Err(Failure::usage(format!("the token file {} is empty", path.display()))),
        token => Ok(token.to_owned()),
    }
}

/// Reports whether users other than its owner can read a file. A warning is enough: mounted secrets often have such a mode.
fn is_exposed(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o044 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::with_options;
    use clap::Command;

    fn context_with(words: &[&str], folder: &Path, variables: &[(&str, &str)]) -> Context {
        let leaf = with_options(Command::new("list"));
        let command =
            with_options(Command::new("muster")).subcommand(Command::new("tenant").subcommand(leaf));
        let matches = command.try_get_matches_from(words).unwrap();
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let surroundings = Surroundings {
            profiles_path: folder.join("profiles.toml"),
            cache_path: folder.join("cache"),
            variables,
            now: Timestamp::UNIX_EPOCH,
            has_screen: false,
            has_error_screen: false,
            can_ask: false,
        };
        Context::new(&matches, surroundings, false).unwrap()
    }

    fn context(words: &[&str], folder: &Path) -> Context {
        context_with(words, folder, &[])
    }

    fn home(folder: &Path) {
        let mut profiles = Profiles::load(&folder.join("profiles.toml")).unwrap();
        let server = "http://10.0.0.1:7480".to_owned();
        let profile = Profile { server, token: Some("mst_home".to_owned()), ..Profile::default() };
        profiles.profiles.insert("home".to_owned(), profile);
        profiles.current = Some("home".to_owned());
        profiles.save().unwrap();
    }

    #[test]
    fn options_count_before_and_after_the_command_and_the_later_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(context(&["muster", "-o", "json", "tenant", "list"], folder.path()).output, Output::Json);
        assert_eq!(context(&["muster", "tenant", "list", "-o", "name"], folder.path()).output, Output::Name);
        assert_eq!(
            context(&["muster", "-o", "json", "tenant", "list", "-o", "name"], folder.path()).output,
            Output::Name
        );
        assert!(context(&["muster", "-v", "tenant", "list"], folder.path()).verbose);
        let there = context(&["muster", "--server", "http://a/", "tenant", "list"], folder.path());
        assert_eq!((there.server.as_str(), there.token()), ("http://a", None));
    }

    #[test]
    fn a_profiles_token_goes_to_the_profiles_server_alone() {
        let folder = tempfile::tempdir().unwrap();
        home(folder.path());
        let used = context(&["muster", "tenant", "list"], folder.path());
        assert_eq!((used.server.as_str(), used.token()), ("http://10.0.0.1:7480", Some("mst_home")));
        let elsewhere =
            context(&["muster", "tenant", "list", "--server", "http://10.0.0.2:7480"], folder.path());
        assert_eq!(elsewhere.token(), None);
        let file = folder.path().join("token");
        std::fs::write(&file, "mst_given\n").unwrap();
        let given =
            context(&["muster", "tenant", "list", "--token-file", file.to_str().unwrap()], folder.path());
        assert_eq!(given.token(), Some("mst_given"));
    }

    #[test]
    fn a_token_file_that_others_can_read_is_exposed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "mst_file").unwrap();
        for (mode, exposed) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o644, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_exposed(&file), exposed, "{mode:o}");
        }
        assert!(!is_exposed(&folder.path().join("absent")));
        assert!(!is_exposed(Path::new("/dev/null")), "a pipe or a device is not a file that stays");
    }

    #[test]
    fn variables_count_where_nothing_was_typed() {
        let folder = tempfile::tempdir().unwrap();
        home(folder.path());
        let file = folder.path().join("token");
        std::fs::write(&file, "mst_file").unwrap();
        let named = [
            ("MUSTER_TOKEN_FILE", file.to_str().unwrap()),
            ("MUSTER_OUTPUT", "json"),
            ("MUSTER_TENANT", "acme"),
        ];
        let set = context_with(&["muster", "tenant", "list"], folder.path(), &named);
        assert_eq!(
            (set.token(), set.output, set.default_for("tenant").as_deref()),
            (Some("mst_file"), Output::Json, Some("acme"))
        );
        let both = [named[0], ("MUSTER_TOKEN", "mst_variable"), ("MUSTER_SERVER", "http://b")];
        let set = context_with(&["muster", "tenant", "list"], folder.path(), &both);
        assert_eq!((set.token(), set.server.as_str()), (Some("mst_variable"), "http://b"));
        let typed =
            ["muster", "tenant", "list", "--server", "http://c", "--token-file", file.to_str().unwrap()];
        let set = context_with(&typed, folder.path(), &both);
        assert_eq!((set.token(), set.server.as_str()), (Some("mst_file"), "http://c"));
    }
}
