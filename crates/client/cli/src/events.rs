//! `muster events`: one line per event, stored ones first, then live ones.

use std::collections::VecDeque;

use clap::ArgMatches;
use muster_sdk::describe::{Description, Endpoint};
use muster_sdk::{Arguments, EventStream, Follow, Item};
use serde_json::Value;

use crate::age::wall;
use crate::context::{Context, Output, say};
use crate::failure::{Failure, Result};
use crate::operate::call;
use crate::place::Place;
use crate::printable::{printable, printable_json};

/// Default number of latest events.
const LATEST: i64 = 50;
/// Numbers of a project's stream among which the last events of a timeline are looked for first.
const FIRST_WINDOW: i64 = 1_000;

/// Prints events, and follows them if requested.
pub(crate) async fn events(context: &Context, matches: &ArgMatches) -> Result<()> {
    let place = Place::of(matches, context);
    let connection = context.connect()?;
    let description = Description::embedded();
    let missing = || Failure::usage("the API no longer has events");
    let instance = matches.get_one::<String>("instance").cloned();
    if instance.is_some() && place.project.is_none() {
        return Err(Failure::usage("name the instance's project with --project"));
    }
    let (list, stream) = match instance {
        Some(_) => ("instance_event_list", "instance_event_stream"),
        None => ("event_list", "event_stream"),
    };
    let list = description.endpoint(list).ok_or_else(missing)?;
    let words = match &instance {
        Some(instance) => format!("{instance} in {}", place.words()),
        None => place.words(),
    };
    let mut selected = Follow { tenant: place.tenant, project: place.project, instance, after: None };
    let wanted = matches.get_one::<String>("type").map(String::as_str);
    let follow = matches.get_flag("follow");
    let last = matches.get_one::<i64>("last").copied().or((!follow).then_some(LATEST));
    let after = match (matches.get_one::<i64>("after").copied(), last) {
        (Some(after), _) => Some(after),
        (None, Some(last)) if selected.instance.is_some() => {
            Some(before_the_last(&connection, list, &selected, last).await?)
        }
        (None, Some(last)) => Some((newest(&connection, list, selected.place()).await? - last).max(0)),
        (None, None) => None,
    };
    if follow {
        eprintln!("following {words}; Ctrl-C ends it");
        let stream = description.endpoint(stream).ok_or_else(missing)?;
        selected.after = after;
        let events = EventStream::open(&connection, &selected).await;
        return go_on(context, events.map_err(|error| Failure::call(Some(stream), error))?, stream, wanted)
            .await;
    }
    let mut after = after.unwrap_or(0);
    let mut count = 0_usize;
    loop {
        let mut arguments = selected.place();
        arguments.query.push(("after".to_owned(), after.to_string()));
        arguments.query.push(("page_size".to_owned(), "200".to_owned()));
        arguments.query.extend(wanted.map(|wanted| ("event_type".to_owned(), wanted.to_owned())));
        let page = call(&connection, list, &arguments).await?;
        for event in page["items"].as_array().into_iter().flatten() {
            count += 1;
            say(&line(context, event))?;
        }
        let next = page["next_after"].as_i64().unwrap_or(after);
        if next <= after || next >= page["sealed_up_to"].as_i64().unwrap_or(0) {
            break;
        }
        after = next;
    }
    if count == 0 && context.output == Output::Table {
        eprintln!("no events of {words}");
    }
    Ok(())
}

async fn newest(connection: &muster_sdk::Connection, list: &Endpoint, mut place: Arguments) -> Result<i64> {
    place.query.push(("page_size".to_owned(), "1".to_owned()));
    let page = call(connection, list, &place).await?;
    Ok(page["sealed_up_to"].as_i64().unwrap_or(0))
}

/// Returns the number before the last events of a timeline, whose numbers have gaps: windows that end at the newest and grow are read
/// until one has enough.
async fn before_the_last(
    connection: &muster_sdk::Connection,
    list: &Endpoint,
    selected: &Follow,
    last: i64,
) -> Result<i64> {
    let newest = newest(connection, list, selected.place()).await?;
    let mut window = last.saturating_mul(4).max(FIRST_WINDOW);
    loop {
        let start = (newest - window).max(0);
        let (mut after, mut numbers) = (start, VecDeque::new());
        loop {
            let mut arguments = selected.place();
            arguments.query.push(("after".to_owned(), after.to_string()));
            arguments.query.push(("page_size".to_owned(), "200".to_owned()));
            let page = call(connection, list, &arguments).await?;
            let next = page["next_after"].as_i64().unwrap_or(after);
            if next <= after {
                break;
            }
            after = next;
            let items = page["items"].as_array().into_iter().flatten();
            numbers.extend(items.filter_map(|event| event["sequence"].as_i64()));
        }
        let surplus = numbers.len().saturating_sub(usize::try_from(last).unwrap_or(usize::MAX));
        if surplus > 0 || numbers.len() == usize::try_from(last).unwrap_or(usize::MAX) || start == 0 {
            return Ok(numbers.get(surplus).map_or(newest, |first| first - 1));
        }
        window = window.saturating_mul(8);
    }
}

async fn go_on(
    context: &Context,
    mut events: EventStream,
    stream: &Endpoint,
    wanted: Option<&str>,
) -> Result<()> {
    loop {
        match events.next().await.map_err(|error| Failure::call(Some(stream), error))? {
            Item::Event(event) if matches_type(wanted, &event) => say(&line(context, &event))?,
            Item::Event(_) => {}
            Item::Reset(after) => {
                let after = after.map_or_else(String::new, |number| format!(" up to {number}"));
                eprintln!("earlier events are no longer stored{after}");
            }
            Item::End(why) => eprintln!("the server ended the stream: {}; reconnecting", printable(&why)),
            Item::Lost(why) => eprintln!("{}; reconnecting", printable(&why)),
        }
    }
}

/// Applies the server's rule: a trailing `*` is a wildcard.
fn matches_type(wanted: Option<&str>, event: &Value) -> bool {
    let Some(wanted) = wanted else { return true };
    let kind = event["type"].as_str().unwrap_or_default();
    match wanted.strip_suffix('*') {
        Some(start) => kind.starts_with(start),
        None => kind == wanted,
    }
}

fn line(context: &Context, event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    match context.output {
        Output::Json => printable_json(&format!("{event}\n")),
        Output::Name => format!("{}\n", event["sequence"]),
        Output::Table => {
            let time = wall(text("time"));
            format!(
                "{:>7}  {}  {:<40}  {}  by {}\n",
                event["sequence"].to_string(),
                printable(&time),
                printable(text("type")),
                printable(text("subject")),
                printable(text("actorid"))
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_matched_like_the_server_does() {
        let event = json!({"type": "dev.muster.tenant.created.v1"});
        for (wanted, fits) in [
            (None, true),
            (Some("dev.muster.tenant.*"), true),
            (Some("dev.muster.tenant.created.v1"), true),
            (Some("dev.muster.tenant"), false),
            (Some("dev.muster.project.*"), false),
        ] {
            assert_eq!(matches_type(wanted, &event), fits, "{wanted:?}");
        }
    }
}
