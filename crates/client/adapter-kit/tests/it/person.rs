//! A scriptable adapter for tests: the test supplies the function for each verb.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use muster_adapter_kit::types::AdapterVerb;
use muster_adapter_kit::{Adapter, Done, Options, Outcome, StartError, StepCx, Stopper, run, stop};
use tokio::task::JoinHandle;

use crate::platform::Platform;

type Method = dyn for<'c> Fn(&'c StepCx) -> BoxFuture<'c, Outcome> + Send + Sync;

/// An adapter that runs the same function for every verb except reconcile, which does nothing.
pub(crate) struct Person(Arc<Method>);

impl Person {
    pub(crate) fn new(
        method: impl for<'c> Fn(&'c StepCx) -> BoxFuture<'c, Outcome> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(method))
    }
}

impl Adapter for Person {
    fn name(&self) -> &str {
        "person"
    }

    fn version(&self) -> &str {
        "1.2.3"
    }

    async fn join(&self, cx: &StepCx) -> Outcome {
        assert_eq!(cx.verb(), AdapterVerb::Join);
        (self.0)(cx).await
    }

    async fn remove(&self, cx: &StepCx) -> Outcome {
        assert!(matches!(cx.verb(), AdapterVerb::Remove | AdapterVerb::Leave));
        (self.0)(cx).await
    }
}

/// A running adapter.
pub(crate) struct Running {
    pub(crate) stopper: Stopper,
    pub(crate) end: JoinHandle<Result<(), StartError>>,
    _folder: tempfile::TempDir,
    pub(crate) token_file: PathBuf,
}

impl Running {
    /// Ends like a killed process: nothing is reported.
    pub(crate) async fn kill(self) {
        self.end.abort();
        let _ = self.end.await;
    }

    pub(crate) async fn end(self) {
        self.stopper.stop();
        self.end.await.unwrap().unwrap();
    }
}

/// Returns options with short timeouts.
pub(crate) fn options(platform: &Platform, token: &str) -> (Options, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let mut options = Options::new(&platform.url, vec![file], "person-1", 7);
    options.lease = Duration::from_secs(5);
    options.wait = Duration::from_secs(2);
    options.grace = Duration::from_millis(300);
    options.look_around = Duration::from_millis(200);
    (options, folder)
}

pub(crate) fn start(platform: &Platform, adapter: Person) -> Running {
    start_with(platform, adapter, "mst_sat_operator", |_| {})
}

pub(crate) fn start_with(
    platform: &Platform,
    adapter: Person,
    token: &str,
    change: impl FnOnce(&mut Options),
) -> Running {
    let (mut options, folder) = options(platform, token);
    change(&mut options);
    let token_file = options.token_files[0].clone();
    let (stopper, stop) = stop();
    Running { stopper, end: tokio::spawn(run(Arc::new(adapter), options, stop)), _folder: folder, token_file }
}

/// Returns success.
pub(crate) fn done() -> Outcome {
    Ok(Done::default())
}
