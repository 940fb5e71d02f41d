//! Guard of a transfer, which revalidates it periodically: it ends within five seconds of losing its permission.

use std::fmt::Display;
use std::pin::Pin;
use std::time::Instant;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use muster_registry::error::Refusal;
use muster_registry::path::Name;

use super::{Answered, Guest, Right, Visit, visit};
use crate::revalidate::CHECK;
use crate::{Cx, fleet};

/// Permission to use a repository, for as long as a transfer lasts.
pub struct TransferGuard {
    cx: Cx,
    secret: String,
    name: Name,
    right: Right,
    node: Option<fleet::Admitted>,
    checked: Instant,
    /// Why the transfer has lost its permission.
    refusal: Option<Refusal>,
}

impl TransferGuard {
    /// Creates the guard of a transfer that was just authorized. `node` is the node that reads, if it is one.
    pub fn new(cx: &Cx, secret: &str, name: &Name, right: Right, node: Option<fleet::Admitted>) -> Self {
        Self {
            cx: cx.clone(),
            secret: secret.to_owned(),
            name: name.clone(),
            right,
            node,
            checked: Instant::now(),
            refusal: None,
        }
    }

    /// Authorizes the transfer again, unless that was done just now.
    pub async fn check(&mut self) -> Answered<()> {
        match self.checked.elapsed() < CHECK {
            true => Ok(()),
            false => self.authorize().await.map(drop),
        }
    }

    /// Authorizes the transfer again.
    pub(super) async fn authorize(&mut self) -> Answered<Visit> {
        self.checked = Instant::now();
        let platform = &self.cx.platform;
        if let Some(node) = &self.node {
            fleet::admit_again(platform, node).await?;
        }
        let (cx, guest) = authenticate_again(&self.cx, &self.secret).await?;
        visit(&cx, &guest, &self.name, self.right).await
    }

    /// Passes a body on for as long as its sender may push it.
    pub(super) fn guarded<'g, S, E>(
        &'g mut self,
        body: S,
    ) -> impl Stream<Item = Result<Bytes, String>> + Send + use<'g, S, E>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'g,
        E: Display + 'g,
    {
        let body: Pin<Box<dyn Stream<Item = Result<Bytes, E>> + Send + 'g>> = Box::pin(body);
        futures::stream::unfold(Some((self, body)), |state| async move {
            let (guard, mut body) = state?;
            let part = body.next().await?.map_err(|error| error.to_string());
            if let Err(refusal) = guard.check().await {
                let why = refusal.message.clone();
                guard.refusal = Some(refusal);
                return Some((Err(why), None));
            }
            Some((part, Some((guard, body))))
        })
    }

    /// Returns why the transfer has lost its permission, if it has.
    pub(super) fn refusal(&mut self) -> Answered<()> {
        self.refusal.take().map_or(Ok(()), Err)
    }
}

/// Authenticates the sender of a request again whose body has arrived: with its rights of now.
pub async fn authenticate_again(cx: &Cx, secret: &str) -> Answered<(Cx, Guest)> {
    let (platform, began) = (&cx.platform, cx.now);
    let now = platform.env.now();
    let guest = platform.registry_guest_since(secret, began, now).await?;
    let actor = match &guest {
        Guest::Actor { actor, .. } => Some(actor.clone()),
        Guest::Pull(_) => None,
    };
    Ok((Cx { actor, ..cx.clone() }, guest))
}
