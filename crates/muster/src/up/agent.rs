//! An agent of `muster up --nodes`: a child process in its node's network namespace, restarted when it ends.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use muster_agent_sim::HAS_KILL_POINTS;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::logs::complain;
use crate::up::program::inside;

/// Time after which a stopping agent is stuck: it finishes and reports its tasks within ten seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// First and longest delay before an ended agent is restarted.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// An agent that ran this long did not fail at start.
const RAN: Duration = Duration::from_secs(60);
/// Exit code of an agent that must be enrolled again.
const RETIRED: i32 = 3;

/// Start parameters of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agent {
    /// The node's name.
    pub(crate) name: String,
    /// Network namespace of the node; none for a simulated node.
    pub(crate) namespace: Option<PathBuf>,
    /// Arguments after `muster agent run`.
    pub(crate) arguments: Vec<OsString>,
    /// Path of its log.
    pub(crate) log: PathBuf,
}

impl Agent {
    /// Returns the whole command line.
    fn words(&self, program: OsString) -> Vec<OsString> {
        // If we are killed, the kernel stops the agent. It does so when the *thread* that started it ends, so only the
        // main thread starts agents.
        let mut words: Vec<OsString> = ["setpriv", "--pdeathsig", "TERM", "--"].map(OsString::from).into();
        if let Some(namespace) = &self.namespace {
            words.extend(inside(namespace));
        }
        words.extend([program, "agent".into(), "run".into()]);
        words.extend(self.arguments.iter().cloned());
        words
    }

    fn start(&self, again: bool) -> anyhow::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.log);
        let log = log.with_context(|| format!("opening {}", self.log.display()))?;
        let words = self.words(std::env::current_exe()?.into());
        let mut command = Command::from(muster_exec::command(&words[0]));
        command.args(&words[1..]).env("NO_COLOR", "1");
        // Recovery tests crash agents at these points: only at the first start, or they would never get past it.
        if let Some(points) = std::env::var_os("MUSTER_AGENT_KILL_AT").filter(|_| HAS_KILL_POINTS && !again) {
            command.env("MUSTER_AGENT_KILL_AT", points);
        }
        // Its own process group, so that Ctrl-C only reaches us and we stop everything in order.
        command.stdout(log.try_clone()?).stderr(log).process_group(0).kill_on_drop(true);
        command.spawn().with_context(|| format!("starting the agent of {}", self.name))
    }

    /// Keeps the agent running until `stop` is set; then stops it.
    pub(crate) async fn keep(&self, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
        let (mut pause, mut again) = (PAUSE.0, false);
        loop {
            let began = Instant::now();
            let mut child = self.start(again)?;
            again = true;
            let ended = tokio::select! {
                ended = child.wait() => ended?,
                _ = stop.wait_for(|stop| *stop) => return self.stop(child).await,
            };
            complain(&self.said(ended));
            if ended.code() == Some(RETIRED) {
                let _ = stop.wait_for(|stop| *stop).await;
                return Ok(());
            }
            if began.elapsed() > RAN {
                pause = PAUSE.0;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE.1),
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            }
        }
    }

    fn said(&self, ended: ExitStatus) -> String {
        let (name, log) = (&self.name, self.log.display());
        if ended.code() == Some(RETIRED) {
            return format!(
                "the agent of {name} ended, because the node is retired or its certificate expired; see {log}"
            );
        }
        format!("the agent of {name} ended ({ended}) and is restarted; see {log}")
    }

    async fn stop(&self, mut child: Child) -> anyhow::Result<()> {
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM)?;
        }
        if let Ok(ended) = tokio::time::timeout(PATIENCE, child.wait()).await {
            ended?;
            return Ok(());
        }
        child.kill().await?;
        anyhow::bail!(
            "the agent of {} did not stop in {} seconds and was killed",
            self.name,
            PATIENCE.as_secs()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::Agent;

    #[test]
    fn an_agent_runs_in_its_namespace_and_is_told_when_we_are_gone() {
        let agent = Agent {
            name: "n1".to_owned(),
            namespace: Some("/run/x/net/n1".into()),
            arguments: vec!["--data-dir".into(), "/d/n1".into()],
            log: "/d/n1/agent.log".into(),
        };
        let line = |agent: &Agent| agent.words("muster".into()).join(" ".as_ref()).into_string().unwrap();
        assert_eq!(
            line(&agent),
            "setpriv --pdeathsig TERM -- nsenter --net=/run/x/net/n1 -- muster agent run --data-dir /d/n1"
        );
        let simulated = Agent { namespace: None, ..agent };
        assert_eq!(line(&simulated), "setpriv --pdeathsig TERM -- muster agent run --data-dir /d/n1");
    }
}
