//! The command line.

use std::path::PathBuf;
use std::time::Duration;

const USAGE: &str = "\
usage: bench-load --address HOST:PORT --targets FILE --run NAME --method METHOD --path PATH [OPTIONS]
       bench-load registry VERB ...   images; bench-load registry --help
       bench-load operations ...      operations until they are accepted or have ended; bench-load operations --help
       bench-load events ...          how late listeners hear of what is made; bench-load events --help

  --address HOST:PORT  the server
  --targets FILE       a line for each actor: TOKEN TENANT PROJECT...; client n acts for line n, modulo
  --run NAME           goes into every name that is made; never use one twice on a store
  --method METHOD      GET or POST
  --path PATH          {tenant} and {project} stand for the actor's; a client goes round its projects
  --body TEXT          {name} stands for a fresh name, {tenant} and {project} as above
  --clients N          connections at once [16]
  --seconds N          how long [4]
  --requests N         so many requests instead
  --without-key        send no Idempotency-Key
  --watch-seal         follow the audit: was everything sealed, exactly once, and how late?";

/// Command to run.
pub(crate) struct Options {
    pub(crate) address: String,
    pub(crate) targets: PathBuf,
    pub(crate) run: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: String,
    pub(crate) clients: usize,
    pub(crate) duration: Duration,
    pub(crate) requests: Option<u64>,
    pub(crate) watch_seal: bool,
    pub(crate) without_key: bool,
}

pub(crate) fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} {text}: it should be a number\n\n{USAGE}"))
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            address: String::new(),
            targets: PathBuf::new(),
            run: String::new(),
            method: String::new(),
            path: String::new(),
            body: String::new(),
            clients: 16,
            duration: Duration::from_secs(4),
            requests: None,
            watch_seal: false,
            without_key: false,
        };
        while let Some(name) = arguments.next() {
            if name == "--watch-seal" {
                options.watch_seal = true;
                continue;
            }
            if name == "--without-key" {
                options.without_key = true;
                continue;
            }
            if name == "--help" {
                return Err(USAGE.to_owned());
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))?;
            match name.as_str() {
                "--address" => options.address = value,
                "--targets" => options.targets = value.into(),
                "--run" => options.run = value,
                "--method" => options.method = value,
                "--path" => options.path = value,
                "--body" => options.body = value,
                "--clients" => options.clients = number::<usize>(&name, &value)?.max(1),
                "--seconds" => {
                    options.duration =
                        Duration::from_secs_f64(number::<f64>(&name, &value)?.clamp(0.1, 600.0))
                }
                "--requests" => options.requests = Some(number(&name, &value)?),
                _ => return Err(format!("there is no option {name}\n\n{USAGE}")),
            }
        }
        let needed = [&options.address, &options.run, &options.method, &options.path];
        if needed.iter().any(|value| value.is_empty()) || options.targets.as_os_str().is_empty() {
            return Err(USAGE.to_owned());
        }
        Ok(options)
    }
}
