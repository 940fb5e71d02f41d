//! Logs go to standard error: JSON for machines, text for people. They never contain a token, a file's content or a
//! command's output.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts logging. An invalid level is reported and ignored.
pub(crate) fn start(level: &str, format: Option<&str>) {
    let filter = EnvFilter::try_new(level).unwrap_or_else(|error| {
        eprintln!("the log level {level:?} is invalid ({error}); `info` is used");
        EnvFilter::new("info")
    });
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let text = match format {
        Some(format) => format == "text",
        None => std::io::stderr().is_terminal(),
    };
    // A program that embeds the kit may have its own logger, which then stays.
    let _ = if text {
        logs.compact().with_target(false).try_init()
    } else {
        logs.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
}
