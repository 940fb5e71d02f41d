//! Logs go to standard error: JSON for machines, text for people.

use anyhow::Context as _;
use muster_http::Settings;
use tracing_subscriber::EnvFilter;

/// Starts logging according to the settings.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let level = settings.text("log.level");
    // A single word that is not a level would be taken as a module name, and nothing would be logged.
    let is_word = level.chars().all(|letter| letter.is_ascii_alphanumeric());
    if is_word && level.parse::<tracing::level_filters::LevelFilter>().is_err() {
        anyhow::bail!(
            "log.level = `{level}`: it should be error, warn, info, debug, trace or off, or a tracing filter"
        );
    }
    let filter = EnvFilter::try_new(level).with_context(|| format!("log.level = `{level}`"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match settings.text("log.format") {
        "json" => logs.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
        "text" => logs.compact().with_target(false).init(),
        other => anyhow::bail!("log.format = `{other}`: it should be json or text"),
    }
    Ok(())
}
