//! `muster events`: one line per event, stored ones first, then live ones.

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

/// Prints events, and follows them if requested.
pub(crate) async fn events(context: &Context, matches: &ArgMatches) -> Result<()> {
    let place = Place::of(matches, context);
    let connection = context.connect()?;
    let description = Description::embedded();
    let missing = || Failure::usage("the API no longer has events");
    let list = description.endpoint("event_list").ok_or_else(missing)?;
    let wanted = matches.get_one::<String>("type").map(String::as_str);
    let follow = matches.get_flag("follow");
    let last = matches.get_one::<i64>("last").copied().or((!follow).then_some(LATEST));
    let after = match (matches.get_one::<i64>("after").copied(), last) {
        (Some(after), _) => Some(after),
        (None, Some(last)) => Some((newest(&connection, list, &place).await? - last).max(0)),
        (None, None) => None,
    };
    if follow {
        eprintln!("following {}; Ctrl-C ends it", place.words());
        let stream = description.endpoint("event_stream").ok_or_else(missing)?;
        let follow = Follow { tenant: place.tenant, project: place.project, after };
        let events = EventStream::open(&connection, &follow).await;
        return go_on(context, events.map_err(|error| Failure::call(Some(stream), error))?, stream, wanted)
            .await;
    }
    let mut after = after.unwrap_or(0);
    let mut count = 0_usize;
    loop {
        let mut query = place.query();
        query.push(("after".to_owned(), after.to_string()));
        query.push(("page_size".to_owned(), "200".to_owned()));
        query.extend(wanted.map(|wanted| ("event_type".to_owned(), wanted.to_owned())));
        let page = call(&connection, list, &Arguments { query, ..Arguments::default() }).await?;
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
        eprintln!("no events of {}", place.words());
    }
    Ok(())
}

async fn newest(connection: &muster_sdk::Connection, list: &Endpoint, place: &Place) -> Result<i64> {
    let mut query = place.query();
    query.push(("page_size".to_owned(), "1".to_owned()));
    let page = call(connection, list, &Arguments { query, ..Arguments::default() }).await?;
    Ok(page["sealed_up_to"].as_i64().unwrap_or(0))
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
