//! Logic shared by all stream requests.

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::stream::Stream as View;
use muster_authz::Permission;
use muster_db::Stream;
use muster_ids::StreamId;
use muster_model::Login;
use muster_model::cell::{Cell, CellState};
use muster_model::event::EventType;
use muster_wire::stream::{Command, StreamWhat};
use serde_json::{Value, json};

use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Time limit for the requester to join.
const JOIN_WITHIN: SignedDuration = SignedDuration::from_secs(60);

pub(super) async fn grant(
    cx: &Cx,
    project: &str,
    cell: &str,
    permission: Permission,
    what: StreamWhat,
) -> Result<PreparedCommand> {
    let cell = cx.cell(project, cell).await?;
    cx.authorize(permission, cell.scope(), "cell")?;
    check(&what)?;
    usable(&cell)?;
    let what = match what {
        StreamWhat::Command(command) => StreamWhat::Command(as_whom(cx, &cell, command).await?),
        other => other,
    };
    let stream = Stream {
        id: cx.platform.env.id::<StreamId>(),
        tenant_id: cell.tenant_id,
        project_id: cell.project_id,
        cell_id: cell.id,
        incarnation: cell.incarnation,
        actor_id: cx.actor_id(),
        what: json!(what),
        created_at: cx.now,
        expires_at: cx.now + JOIN_WITHIN,
        joined_at: None,
    };
    let view = View {
        id: stream.id,
        cell_id: cell.id,
        expires_at: stream.expires_at,
        path: format!("/v1/streams/{}", stream.id),
    };
    let (scope, subject) = (cell.scope(), format!("/v1/projects/{}/cells/{}", cell.project_id, cell.id));
    let told = json!({"stream_id": stream.id, "what": told(&what)});
    let commit = PreparedCommand::new(scope, target("cell", cell.id, &cell.name), move |tx| {
        Box::pin(async move {
            tx.stream_insert(&stream).await?;
            Ok(Answer::new(&view))
        })
    });
    Ok(commit.event(cx, EventType::StreamGranted, subject, told))
}

/// Sets the user that a command runs as. In a cell with users, a user runs as themselves unless requested otherwise; an
/// actor without a login there, such as a service account, runs as root.
async fn as_whom(cx: &Cx, cell: &Cell, command: Command) -> Result<Command> {
    let me = match cx.user_id() {
        Some(user) if cell.people && command.uid.is_none() => {
            cx.platform.store.user_lookup(user).await?.and_then(|user| user.login)
        }
        _ => None,
    };
    Ok(match me {
        Some(login) => run_as(&login, command),
        None => {
            let uid = command.uid.unwrap_or_default();
            Command { uid: Some(uid), gid: Some(command.gid.unwrap_or(uid)), ..command }
        }
    })
}

fn run_as(login: &Login, mut command: Command) -> Command {
    let own = [
        ("HOME", format!("/home/{}", login.name)),
        ("USER", login.name.clone()),
        ("LOGNAME", login.name.clone()),
    ];
    for (name, value) in own {
        command.environment.entry(name.to_owned()).or_insert(value);
    }
    Command { uid: Some(login.uid), gid: command.gid.or(Some(login.uid)), ..command }
}

/// Ensures that a cell can be used now. One that is still provisioning counts: that is when users want to inspect it.
pub(super) fn usable(cell: &Cell) -> Result<()> {
    match cell.state {
        CellState::Provisioning | CellState::Running if cell.incarnation > 0 => Ok(()),
        state => Err(Error::new(
            Code::InvalidState,
            format!("the cell {} is {state} and takes no streams; see `muster cell get`", cell.name),
        )),
    }
}

/// Validates beyond the schema. Paths are passed to the node unchanged, which resolves them inside the cell only.
fn check(what: &StreamWhat) -> Result<()> {
    let absolute = |pointer: &str, path: &str| match path.starts_with('/') && !path.contains('\0') {
        true => Ok(()),
        false => Err(Error::field(pointer, "it must be an absolute path in the cell")),
    };
    match what {
        StreamWhat::Command(command) => {
            if command.command.first().is_none_or(String::is_empty) {
                return Err(Error::field("/command/command", "it must name a program"));
            }
            let texts = command.command.iter().chain(command.environment.values());
            let strange = |name: &String| name.is_empty() || name.contains(['=', '\0']);
            if texts.clone().any(|text| text.contains('\0')) || command.environment.keys().any(strange) {
                return Err(Error::field("/command", "an argument or a variable of it contains a NUL"));
            }
            if texts.map(String::len).sum::<usize>() > 128 << 10 {
                return Err(Error::field("/command", "its arguments and variables must be at most 128 KiB"));
            }
            command
                .working_directory
                .as_deref()
                .map_or(Ok(()), |path| absolute("/command/working_directory", path))
        }
        StreamWhat::Read(file) => absolute("/read/path", &file.path),
        StreamWhat::Write(file) => absolute("/write/path", &file.path),
        StreamWhat::Logs(_) => Ok(()),
    }
}

/// Returns the data for the audit and the event. Both have more readers than may run commands, so they contain only a
/// command's program, its number of arguments, and the names of its variables.
fn told(what: &StreamWhat) -> Value {
    let mut told = json!(what);
    if let StreamWhat::Command(command) = what {
        told["command"]["command"] = json!(command.command.first());
        told["command"]["words"] = json!(command.command.len());
    }
    if let Some(environment) = told.pointer_mut("/command/environment").and_then(Value::as_object_mut) {
        let names: Vec<String> = environment.keys().cloned().collect();
        told["command"]["environment"] = json!(names);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(body: Value) -> StreamWhat {
        serde_json::from_value(json!({"command": body})).unwrap()
    }

    #[test]
    fn the_program_of_a_command_is_told_and_neither_its_other_words_nor_values_of_variables() {
        let what = command(json!({"command": ["mysql", "-psup3rs3cret"], "environment": {"KEY": "hidden"}}));
        let text = told(&what).to_string();
        assert!(text.contains("mysql") && text.contains("KEY"), "{text}");
        assert!(!text.contains("hidden") && !text.contains("sup3rs3cret"), "{text}");
    }

    #[test]
    fn command_that_no_program_could_receive_is_refused() {
        assert!(check(&command(json!({"command": ["true"]}))).is_ok());
        for wrong in [
            json!({"command": [""]}),
            json!({"command": ["a\u{0}b"]}),
            json!({"command": ["a"], "environment": {"A=B": "c"}}),
            json!({"command": ["a"], "working_directory": "tmp"}),
        ] {
            assert!(check(&command(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
