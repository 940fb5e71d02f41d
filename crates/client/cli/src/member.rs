//! References to members. A member belongs to an instance, so it takes two words, `INSTANCE MEMBER`; or one word,
//! `INSTANCE/MEMBER`, as printed by `muster member list -o name`; or an id, `mem_…`, which needs no instance: it is
//! searched for in the project.

pub(crate) mod view;

use clap::Arg;
use muster_sdk::describe::{Description, Endpoint};
use muster_sdk::{Arguments, Connection};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Result};
use crate::forms;
use crate::operate::call;

/// The rule, for help.
pub(crate) const RULE: &str =
    "Name a member as INSTANCE MEMBER, as INSTANCE/MEMBER, or by its id (mem_…) without an instance.";

const ID: &str = "mem_";

/// Reports whether a command acts on existing members, for which the rule applies.
pub(crate) fn may_be_one_word(operation: &Endpoint) -> bool {
    let is_act = |field: &muster_sdk::describe::Field| field.name == "members";
    operation.id == "member_get"
        || operation.id.starts_with("member_") && operation.body_fields.iter().flatten().any(is_act)
}

/// Makes the member's position optional where it may be part of one word.
pub(crate) fn path_position(operation: &Endpoint, argument: Arg) -> Arg {
    match may_be_one_word(operation) && argument.get_id() == "path:member" {
        true => argument.required(false),
        false => argument,
    }
}

/// Splits `INSTANCE/MEMBER`. A single id is left in the place of the instance, for `resolve` to look up.
pub(crate) fn take_apart(operation: &Endpoint, arguments: &mut Arguments) -> Result<()> {
    if !may_be_one_word(operation) {
        return Ok(());
    }
    let said = arguments.path.get("instance").cloned().unwrap_or_default();
    let (instance, first) = match said.split_once('/') {
        Some((instance, member)) => (instance.to_owned(), Some(member.to_owned())),
        None if said.starts_with(ID) => (said.clone(), Some(said)),
        None => (said, None),
    };
    // An empty half would be another path: that of all members.
    if instance.is_empty() || first.as_deref() == Some("") {
        return Err(Failure::usage("half of INSTANCE/MEMBER is missing").next(RULE));
    }
    let missing = || Failure::usage("no member given").next(RULE);
    match &mut arguments.body {
        None => match (first, arguments.path.contains_key("member")) {
            (Some(_), true) => return Err(Failure::usage("the member was given twice").next(RULE)),
            (Some(member), false) => drop(arguments.path.insert("member".to_owned(), member)),
            (None, true) => {}
            (None, false) => return Err(missing()),
        },
        Some(body) => {
            let rest = body["members"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let members: Vec<&str> = first.as_deref().into_iter().chain(rest).collect();
            if members.is_empty() {
                return Err(missing());
            }
            let members: Result<Vec<&str>> =
                members.into_iter().map(|member| own(&instance, member)).collect();
            body["members"] = json!(members?);
        }
    }
    arguments.path.insert("instance".to_owned(), instance);
    Ok(())
}

/// Returns the member's part of a word; all members of a command must be of one instance.
fn own<'m>(instance: &str, member: &'m str) -> Result<&'m str> {
    match member.split_once('/') {
        _ if member.is_empty() || member.ends_with('/') => {
            Err(Failure::usage("a member without a name was given").next(RULE))
        }
        None => Ok(member),
        Some((named, member)) if named == instance => Ok(member),
        Some((named, _)) => {
            Err(Failure::usage(format!("{member} belongs to instance {named}, not to {instance}"))
                .next("name members of one instance per command"))
        }
    }
}

/// Looks up values that only the server knows: the instance of a member id, and a component's default for an omitted
/// amount.
pub(crate) async fn resolve(
    connection: &Connection,
    operation: &Endpoint,
    arguments: &mut Arguments,
) -> Result<()> {
    let project = arguments.path.get("project").cloned().unwrap_or_default();
    let instance = arguments.path.get("instance").cloned().unwrap_or_default();
    if may_be_one_word(operation) && instance.starts_with(ID) {
        let found = find(connection, &project, &instance).await?;
        let found = found.ok_or_else(|| {
            Failure::new(
                Exit::NotFound,
                "not_found",
                format!("no instance of the project has the member {instance}"),
            )
            .next("`muster instance list` lists the instances, `muster member list INSTANCE` its members")
        })?;
        let owner = found["instance_id"].as_str().unwrap_or_default().to_owned();
        arguments.path.insert("instance".to_owned(), owner);
    }
    if let Some(body) = arguments.body.as_mut().filter(|body| forms::lacks_amounts(&body["allocation"])) {
        let get = described("instance_get")?;
        let shown = call(connection, get, &at(&[("project", &project), ("instance", &instance)])).await?;
        let key = body["component_key"].clone();
        let components = shown["topology"]["components"].as_array().into_iter().flatten();
        let component = components.into_iter().find(|component| component["component_key"] == key);
        let usual = component.and_then(|component| component["capacity"].as_object());
        // For an unknown component, the server has the better error.
        let mut capacity = usual.cloned().unwrap_or_default();
        capacity.extend(body["allocation"]["capacity"].as_object().cloned().unwrap_or_default());
        body["allocation"]["capacity"] = Value::Object(capacity);
    }
    Ok(())
}

/// Finds a member by id: each instance is queried, ended ones last.
pub(crate) async fn find(connection: &Connection, project: &str, id: &str) -> Result<Option<Value>> {
    let (list, get) = (described("instance_list")?, described("member_get")?);
    let most = ("page_size".to_owned(), "200".to_owned());
    let mut arguments = at(&[("project", project)]);
    arguments.query = vec![most.clone()];
    let (mut living, mut ended) = (Vec::new(), Vec::new());
    loop {
        let page = call(connection, list, &arguments).await?;
        for instance in page["items"].as_array().into_iter().flatten() {
            let Some(id) = instance["id"].as_str() else { continue };
            if instance["state"] == "stopped" { &mut ended } else { &mut living }.push(id.to_owned());
        }
        let Some(next) = page["next_page_token"].as_str() else { break };
        arguments.query = vec![most.clone(), ("page_token".to_owned(), next.to_owned())];
    }
    for instance in living.into_iter().chain(ended) {
        let place = at(&[("project", project), ("instance", &instance), ("member", id)]);
        match call(connection, get, &place).await {
            Ok(member) => return Ok(Some(member)),
            Err(failure) if failure.exit == Exit::NotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

fn described(id: &str) -> Result<&'static Endpoint> {
    let missing = || Failure::usage(format!("the API no longer has {id}"));
    Description::embedded().endpoint(id).ok_or_else(missing)
}

/// Returns arguments with only a path.
pub(crate) fn at(path: &[(&str, &str)]) -> Arguments {
    let path = path.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Arguments { path, ..Arguments::default() }
}
