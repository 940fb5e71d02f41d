//! Actions in cells: files as a map, and the few programs of simulated nodes.

use muster_adapter_kit::types::{CellTask, Ran};
use serde_json::json;

use super::World;

/// Executes an action. An error is a failed task.
pub(super) fn act(world: &mut World, member: &str, act: &CellTask) -> Result<Option<Ran>, String> {
    let name = world.members.iter().find(|known| *known.id == member).map(|known| known.name.clone());
    let name = name.ok_or("there is no such member")?;
    world.done.push((name, json!(act)));
    let ran = match act {
        CellTask::Files(order) => {
            let cell = world.cells.entry(member.to_owned()).or_default();
            for file in &order.write {
                if !file.path.starts_with('/') {
                    return Err(format!("{} is no path", file.path));
                }
                cell.insert(file.path.clone(), file.text.clone());
            }
            for path in &order.remove {
                cell.remove(path);
            }
            for secret in &order.secrets {
                cell.insert(format!("/run/muster/secrets/{}", secret.file), format!("<{}>", secret.secret));
            }
            return Ok(None);
        }
        CellTask::Service(_) => return Ok(None),
        CellTask::Command(order) => program(world, member, &order.command),
        CellTask::Probe(order) => program(world, member, &order.command),
    };
    Ok(Some(ran))
}

fn program(world: &mut World, member: &str, words: &[String]) -> Ran {
    let read = |path: &str| world.cells.get(member).and_then(|cell| cell.get(path)).cloned();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (exit, stdout) = match words[..] {
        ["/bin/cat", path] => read(path).map_or((1, String::new()), |text| (0, text)),
        ["/bin/test", "-e", path] => (i32::from(read(path).is_none()), String::new()),
        ["/bin/true"] => (0, String::new()),
        ["/bin/false"] => (1, String::new()),
        [program, ..] => match world.exits.get_mut(program) {
            Some(exits) if !exits.is_empty() => (exits.remove(0), String::new()),
            Some(_) => (0, String::new()),
            None => (127, String::new()),
        },
        [] => (127, String::new()),
    };
    Ran { exit, stdout, stderr: String::new(), timed_out: false, truncated: false }
}
