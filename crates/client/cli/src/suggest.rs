//! Completes a "not found" error: quotes the mistyped name, and suggests the closest existing one.

use muster_sdk::describe::{Description, Endpoint};
use muster_sdk::{Arguments, Connection};

use crate::failure::{Exit, Failure};
use crate::words::Words;

/// Ending of the server's message.
const ABSENT: &str = " not found, or no access";
/// Names compared: one page of the list.
const PAGE: &str = "200";

/// Returns the failure with the name and a suggestion. The suggestion costs one request, and only after an error; if that
/// fails, the error stays as it is.
pub(crate) async fn suggest(
    connection: &Connection,
    endpoint: &Endpoint,
    arguments: &Arguments,
    mut failure: Failure,
) -> Failure {
    if failure.exit != Exit::NotFound {
        return failure;
    }
    let Some(noun) = failure.detail.strip_suffix(ABSENT).map(|noun| noun.to_lowercase().replace(' ', "_"))
    else {
        return failure;
    };
    let Some(name) = typed(endpoint, arguments, &noun) else { return failure };
    failure.detail = format!("{} {name:?}{ABSENT}", noun.replace('_', " "));
    if let Some(close) = closest(&name, &names(connection, arguments, &noun).await) {
        failure.detail.push_str(&format!(". Did you mean {close}?"));
    }
    failure
}

/// Returns the value typed for a noun: in the path, the query or the body.
fn typed(endpoint: &Endpoint, arguments: &Arguments, noun: &str) -> Option<String> {
    let own = Words::of(endpoint).noun.is_some_and(|own| own.replace('-', "_") == noun);
    let last = endpoint.path_params.last().filter(|_| own).and_then(|field| arguments.path.get(&field.name));
    let queried = arguments.query.iter().find(|(name, _)| name == noun).map(|(_, value)| value);
    let path = arguments.path.get(noun).or(last).or(queried).cloned();
    path.or_else(|| arguments.body.as_ref()?.get(noun)?.as_str().map(str::to_owned))
}

/// Returns the names that the caller may list. A list in another scope than the command's is left out.
async fn names(connection: &Connection, arguments: &Arguments, noun: &str) -> Vec<String> {
    let Some(list) = Description::embedded().endpoint(&format!("{noun}_list")) else { return Vec::new() };
    let mut asked =
        Arguments { query: vec![("page_size".to_owned(), PAGE.to_owned())], ..Arguments::default() };
    for field in &list.path_params {
        let Some(value) = arguments.path.get(&field.name).filter(|_| field.name != noun) else {
            return Vec::new();
        };
        asked.path.insert(field.name.clone(), value.clone());
    }
    let Ok(answer) = connection.call(list, &asked).await else { return Vec::new() };
    let page = answer.json();
    let items = page["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["name"].as_str().or(item["slug"].as_str())).map(str::to_owned).collect()
}

/// Returns the closest name, if at most a third of the letters differ. An id is never mistyped by a letter.
fn closest<'n>(name: &str, names: &'n [String]) -> Option<&'n str> {
    let most = (name.chars().count() / 3).max(1);
    let distance = |other: &&String| strsim::osa_distance(name, other);
    names.iter().min_by_key(distance).filter(|best| (1..=most).contains(&distance(best))).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn the_closest_name_is_suggested_and_no_distant_one() {
        let names = ["trainer", "web", "notebook"].map(str::to_owned);
        assert_eq!(closest("trianer", &names), Some("trainer"));
        assert_eq!(closest("wbe", &names), Some("web"));
        assert_eq!(closest("notebok", &names), Some("notebook"));
        assert_eq!(closest("redis", &names), None);
        assert_eq!(closest("web", &names), None, "it exists: its name is not what was missing");
        assert_eq!(closest("x", &[]), None);
    }
}
