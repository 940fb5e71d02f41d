//! Stop signal as a value: sent by a signal handler in a process, or by a test.

use std::sync::Arc;

use tokio::sync::watch;

/// Sending side of the stop signal.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<watch::Sender<bool>>);

/// Receiving side of the stop signal. Clones receive the same signal.
#[derive(Debug, Clone)]
pub struct Stop {
    order: watch::Receiver<bool>,
    /// Keeps the sender alive: a dropped sender must not count as a stop.
    _kept: Arc<watch::Sender<bool>>,
}

/// Returns a connected pair.
pub fn stop() -> (Stopper, Stop) {
    let (sender, order) = watch::channel(false);
    let sender = Arc::new(sender);
    (Stopper(sender.clone()), Stop { order, _kept: sender })
}

impl Stopper {
    /// Sends the stop signal.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits for the stop signal.
    pub async fn ordered(&self) {
        // The sender is kept above, so this only ends with the signal.
        let _ = self.order.clone().wait_for(|ordered| *ordered).await;
    }

    /// Reports whether it was sent.
    pub fn is_ordered(&self) -> bool {
        *self.order.borrow()
    }
}
