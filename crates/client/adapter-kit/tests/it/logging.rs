//! Logging: enough to follow a step, and never a secret.

use std::io::Write;
use std::sync::Arc;

use muster_adapter_kit::{command, file};
use parking_lot::Mutex;

use crate::person::{Person, done, start_with};
use crate::platform::{Entitled, Platform};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn logs_follow_a_step_and_hold_no_secret_even_at_their_loudest() {
    let kept = Kept::default();
    let writer = kept.clone();
    let logs = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).json().flatten_event(true);
    // Other tests of this binary run in separate processes.
    logs.with_writer(move || writer.clone()).init();
    let platform = Platform::start().await;
    platform.account(
        "mst_sat_publisher",
        "publisher",
        "prj_publisher",
        &["operator_token.mint", "entitlement.list"],
    );
    let held = Entitled { id: "ent_1".to_owned(), app: "fake".to_owned(), project: "prj_a".to_owned() };
    platform.world().entitled.push(held);
    let step = platform.ask_in("prj_a", "join", Some("unit-1"));
    let adapter = Person::new(|cx| {
        Box::pin(async move {
            let member = cx.member()?;
            cx.write_files(member, vec![file("/etc/x", "text-of-a-file")]).await?;
            cx.look(member, command(["/bin/cat", "/etc/x"])).await?;
            done()
        })
    });
    let running = start_with(&platform, adapter, "mst_sat_publisher", |_| {});
    platform.until(&step, "done").await;
    running.end().await;
    let text = String::from_utf8(kept.0.lock().clone()).unwrap();
    assert!(
        text.contains(&step) && text.contains("a step is done") && text.contains("\"verb\":\"join\""),
        "{text}"
    );
    for secret in ["mst_sat_publisher", "mst_opt_minted1", "text-of-a-file"] {
        assert!(!text.contains(secret), "{secret} was logged");
    }
}
