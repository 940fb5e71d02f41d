//! The order to stop, as a value: a signal gives it in a process, and a test by hand.

use std::sync::Arc;

use tokio::sync::watch;

/// Whoever may give the order.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<watch::Sender<bool>>);

/// Whoever obeys it. Clones hear the same order.
#[derive(Debug, Clone)]
pub struct Stop {
    order: watch::Receiver<bool>,
    /// As long as somebody listens, the order can still come: a lost sender must not read as one.
    _kept: Arc<watch::Sender<bool>>,
}

/// A pair of them.
pub fn stop() -> (Stopper, Stop) {
    let (sender, order) = watch::channel(false);
    let sender = Arc::new(sender);
    (Stopper(sender.clone()), Stop { order, _kept: sender })
}

impl Stopper {
    /// Gives the order.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits for the order.
    pub async fn ordered(&self) {
        // The sender is kept above, so this ends only with the order.
        let _ = self.order.clone().wait_for(|ordered| *ordered).await;
    }

    /// Whether it was given.
    pub fn is_ordered(&self) -> bool {
        *self.order.borrow()
    }
}
