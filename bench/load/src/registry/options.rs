//! The command line of this mode.

use std::path::PathBuf;
use std::time::Duration;

const USAGE: &str = "\
usage: bench-load registry VERB --address HOST:PORT --repository PREFIX --run NAME [OPTIONS]

  push         small images, each of other content: for config and layer HEAD, POST, PATCH and PUT; then the manifest by tag
  put          the same without PATCH: the content comes with the PUT
  manifests    GET of what a push of this run made with --each, by tag and by digest in turn; every byte is compared
  layer-push   large layers, one after the other: HEAD, POST, PATCH in one stream, PUT
  layer-pull   GET of the first layer that a layer-push of this run made; its bytes are counted and thrown away

  --address HOST:PORT  the server
  --token-file FILE    a Bearer token [none is sent]
  --repository PREFIX  client n has the repository PREFIX-n
  --run NAME           what all content and all tags come from: the same run is the same content
  --clients N          connections at once [16; layers have one]
  --seconds N          how long [4]
  --each N             so many of each client instead; for manifests, how many the run made
  --megabytes N        how large a layer is, in MB of 2^20 bytes [256]
  --compare            layer-pull: compare the digest too, which takes time";

/// The repeated request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Push,
    Put,
    Manifests,
    LayerPush,
    LayerPull,
}

impl Verb {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "push" => Self::Push,
            "put" => Self::Put,
            "manifests" => Self::Manifests,
            "layer-push" => Self::LayerPush,
            "layer-pull" => Self::LayerPull,
            _ => return None,
        })
    }
}

/// Command to run.
pub(crate) struct Options {
    pub(crate) verb: Verb,
    pub(crate) address: String,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) repository: String,
    pub(crate) run: String,
    pub(crate) clients: usize,
    pub(crate) duration: Duration,
    pub(crate) each: Option<u64>,
    pub(crate) megabytes: u64,
    pub(crate) compare: bool,
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} {text}: it should be a number\n\n{USAGE}"))
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let verb = words.next().as_deref().and_then(Verb::parse).ok_or(USAGE)?;
        let mut options = Self {
            verb,
            address: String::new(),
            token_file: None,
            repository: String::new(),
            run: String::new(),
            clients: 16,
            duration: Duration::from_secs(4),
            each: None,
            megabytes: 256,
            compare: false,
        };
        while let Some(name) = words.next() {
            if name == "--compare" {
                options.compare = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))?;
            match name.as_str() {
                "--address" => options.address = value,
                "--token-file" => options.token_file = Some(value.into()),
                "--repository" => options.repository = value,
                "--run" => options.run = value,
                "--clients" => options.clients = number::<usize>(&name, &value)?.max(1),
                "--seconds" => {
                    options.duration =
                        Duration::from_secs_f64(number::<f64>(&name, &value)?.clamp(0.1, 600.0))
                }
                "--each" => options.each = Some(number(&name, &value)?),
                "--megabytes" => options.megabytes = number::<u64>(&name, &value)?.max(1),
                _ => return Err(format!("there is no option {name}\n\n{USAGE}")),
            }
        }
        if [&options.address, &options.repository, &options.run].iter().any(|value| value.is_empty()) {
            return Err(USAGE.to_owned());
        }
        Ok(options)
    }
}
