//! Logs go to the standard error: JSON for machines, text for people.

use anyhow::Context as _;
use muster_server::Settings;
use tracing_subscriber::EnvFilter;

/// Starts logging as the settings say.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let level = settings.text("log.level");
    let filter = EnvFilter::try_new(level).with_context(|| format!("log.level = `{level}`"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.text("log.format") {
        "json" => logs.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
        "text" => logs.compact().with_target(false).init(),
        other => anyhow::bail!("log.format = `{other}`: it should be json or text"),
    }
    Ok(())
}
