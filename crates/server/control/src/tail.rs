//! Live events: read once per server, distributed to every stream.
//!
//! A database query per stream was rejected: a thousand watchers would cause a thousand queries per event.

use std::sync::Arc;
use std::time::Duration;

use muster_db::EventFilter;
use muster_model::Scope;
use muster_model::event::Event;
use tokio::sync::{Notify, broadcast};

use crate::Platform;

/// Number of events that a slow stream may lag behind before it must read them from the database.
const BEHIND: usize = 4096;

/// Live end of all streams.
pub struct Tail {
    sender: broadcast::Sender<Arc<Event>>,
    woken: Notify,
    /// Wake-up of the deliverer.
    pub sealed: Notify,
}

impl Default for Tail {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(BEHIND), woken: Notify::new(), sealed: Notify::new() }
    }
}

impl Tail {
    /// Subscribes to all events from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        let receiver = self.sender.subscribe();
        self.woken.notify_one();
        receiver
    }

    /// Announces newly sealed rows.
    pub fn wake(&self) {
        self.woken.notify_one();
        self.sealed.notify_one();
    }
}

impl Platform {
    /// Follows the sealed events and distributes them; runs until dropped.
    pub async fn run_tail(self: Arc<Self>) {
        // `None` without subscribers: then nothing is read, and a new subscriber starts at the end.
        let mut place: Option<i64> = None;
        loop {
            let Some(last) = place.filter(|_| self.tail.sender.receiver_count() > 0) else {
                place = None;
                if self.tail.sender.receiver_count() > 0 {
                    match self.store.event_stream_head(Scope::Platform).await {
                        Ok((last, _)) => place = Some(last),
                        Err(error) => tracing::warn!(%error, "live events wait for the database"),
                    }
                }
                if place.is_none() {
                    let _ =
                        tokio::time::timeout(Duration::from_millis(500), self.tail.woken.notified()).await;
                }
                continue;
            };
            let filter = EventFilter { after: last, limit: 500, ..EventFilter::default() };
            match self.store.event_list(Scope::Platform, &filter).await {
                Ok(events) if events.is_empty() => {
                    // Poll as a fallback: a lost notification costs a second, never an event.
                    let _ = tokio::time::timeout(Duration::from_secs(1), self.tail.woken.notified()).await;
                }
                Ok(events) => {
                    for event in events {
                        place = Some(event.platform_sequence);
                        let _ = self.tail.sender.send(Arc::new(event));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "live events wait for the database");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    }

    /// Listens for other replicas' wake-ups; runs until dropped, and returns at once where there are none.
    pub async fn run_listener(self: Arc<Self>) {
        loop {
            match self.store.listener().await {
                Ok(None) => return,
                Ok(Some(mut listener)) => {
                    while listener.wait().await.is_ok() {
                        self.tail.wake();
                    }
                }
                Err(error) => tracing::warn!(%error, "the wake-up channel is lost; polling continues"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
