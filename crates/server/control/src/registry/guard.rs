//! Guard of a download, which revalidates it periodically: it ends within five seconds of losing its permission.

use std::time::Instant;

use muster_registry::path::Name;

use super::{Answered, Guest, Right, told, visit};
use crate::revalidate::CHECK;
use crate::{Cx, fleet};

/// Permission to read a repository, for as long as a download lasts.
pub struct ReadGuard {
    cx: Cx,
    secret: String,
    name: Name,
    node: Option<fleet::Admitted>,
    checked: Instant,
}

impl ReadGuard {
    /// Creates the guard of a download that was just authorized. `node` is the node that reads, if it is one.
    pub fn new(cx: &Cx, secret: &str, name: &Name, node: Option<fleet::Admitted>) -> Self {
        Self { cx: cx.clone(), secret: secret.to_owned(), name: name.clone(), node, checked: Instant::now() }
    }

    /// Authorizes the download again, unless that was done just now.
    pub async fn check(&mut self) -> Answered<()> {
        if self.checked.elapsed() < CHECK {
            return Ok(());
        }
        self.checked = Instant::now();
        let platform = &self.cx.platform;
        if let Some(node) = &self.node {
            fleet::admit_again(platform, node).await.map_err(told)?;
        }
        let now = platform.env.now();
        let guest = platform.registry_guest_since(&self.secret, self.cx.now, now).await.map_err(told)?;
        let actor = match &guest {
            Guest::Actor { actor, .. } => Some(actor.clone()),
            Guest::Pull(_) => None,
        };
        let cx = Cx { actor, ..self.cx.clone() };
        visit(&cx, &guest, &self.name, Right::Pull).await.map(drop)
    }
}
