//! The tenants, tokens and paths that clients use.

use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

use crate::options::Options;

/// An actor with the places where it acts.
pub(crate) struct Target {
    pub(crate) token: String,
    pub(crate) tenant: String,
    projects: Vec<String>,
    /// When each of its requests was acknowledged, in order.
    pub(crate) acknowledged: RefCell<Vec<Instant>>,
}

/// Tokens come from a file, because command lines are world-readable.
pub(crate) fn read(file: &Path) -> Result<Vec<Target>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("the targets' file: {error}"))?;
    let targets: Vec<Target> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            let (token, tenant) = (words.next()?, words.next()?);
            Some(Target { token, tenant, projects: words.collect(), acknowledged: RefCell::default() })
        })
        .collect();
    if targets.is_empty() { Err("the targets' file names nobody".to_owned()) } else { Ok(targets) }
}

impl Target {
    fn fill(&self, template: &str, name: &str, count: u64) -> String {
        let project = match self.projects.len() as u64 {
            0 => "",
            length => self.projects[(count % length) as usize].as_str(),
        };
        template.replace("{name}", name).replace("{tenant}", &self.tenant).replace("{project}", project)
    }

    /// The bytes of one request. A POST carries a fresh `Idempotency-Key`; servers without such a thing ignore it, and one that would do more for it is not sent it.
    pub(crate) fn request(&self, options: &Options, name: &str, count: u64) -> String {
        let (method, address, token) = (&options.method, &options.address, &self.token);
        let path = self.fill(&options.path, name, count);
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n");
        if method == "GET" {
            return head + "\r\n";
        }
        let body = self.fill(&options.body, name, count);
        let key = if options.without_key { String::new() } else { format!("Idempotency-Key: {name}\r\n") };
        format!("{head}{key}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }
}
