//! Logs go to the standard error: JSON for machines, text for people. They never hold a token, a file's text or what a
//! command wrote.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts logging. A level that cannot be read is said and not obeyed.
pub(crate) fn start(level: &str, format: Option<&str>) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|error| {
        eprintln!("the log level {level:?} cannot be read ({error}); `info` is used");
        EnvFilter::new("info")
    });
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let text = match format {
        Some(format) => format == "text",
        None => std::io::stderr().is_terminal(),
    };
    // Whoever embeds the kit may log in a way of its own: then that stays.
    let _ = if text {
        logs.compact().with_target(false).try_init()
    } else {
        logs.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
}
