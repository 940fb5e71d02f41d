//! Validation of an adapter's task: whether it makes sense, and whether the adapter may have the named secrets written.
use muster_api::adapter_step::CellTask;
use muster_manifest::{Manifest, secret_references};
use muster_model::instance::Instance;
use muster_wire::task::FilesOrder;

use crate::cell::check::{Fault, command_fault, environment, ours, path_fault};
use crate::secret::{Named, named};
use crate::{Cx, Error, Result};

/// Maximum total size of the files of one task.
const FILES: usize = 512 * 1024;

/// Returns the first fault, as a field and a message.
pub(super) fn fault(act: &CellTask) -> Fault {
    let command =
        |at: &str, words: &[String]| command_fault(words).map(|why| (format!("/act/{at}/command"), why));
    match act {
        CellTask::Files(order) => files(order),
        CellTask::Service(_) => None,
        CellTask::Command(order) => command("command", &order.command)
            .or_else(|| environment("/act/command/environment", &order.environment)),
        CellTask::Probe(order) => command("probe", &order.command)
            .or_else(|| environment("/act/probe/environment", &order.environment))
            .or_else(|| {
                order.sees.iter().enumerate().find_map(|(index, path)| {
                    path_fault(path).map(|why| (format!("/act/probe/sees/{index}"), why))
                })
            }),
    }
}

fn files(order: &FilesOrder) -> Fault {
    let wrong = |path: &str| path_fault(path).or_else(|| ours(path));
    for (index, file) in order.write.iter().enumerate() {
        if let Some(why) = wrong(&file.path) {
            return Some((format!("/act/files/write/{index}/path"), why));
        }
    }
    for (index, path) in order.remove.iter().enumerate() {
        if let Some(why) = wrong(path) {
            return Some((format!("/act/files/remove/{index}"), why));
        }
    }
    let length: usize = order.write.iter().map(|file| file.text.len()).sum();
    let long = "all files together exceed 512 KiB: write them with several tasks";
    (length > FILES).then(|| ("/act/files/write".to_owned(), long.to_owned()))
}

/// Ensures that each secret exists and may be written on the adapter's request: a runtime secret of this instance, or a
/// project secret that the project has consented to, by launching a release that names it in its manifest or by naming it in
/// a configuration field that the release's schema marks as a secret reference. Otherwise an adapter could read every secret
/// through a cell that it controls.
pub(super) async fn secrets(cx: &Cx, instance: &Instance, manifest: &Manifest, act: &CellTask) -> Result<()> {
    let CellTask::Files(order) = act else { return Ok(()) };
    let configured = secret_references(&manifest.config_schema, &instance.config);
    for (index, given) in order.secrets.iter().enumerate() {
        let wrong = |why: &str| Error::field(format!("/act/files/secrets/{index}/secret"), why);
        let found = named(&cx.platform.store, instance.project_id, &given.secret, cx.now).await?;
        match found.ok_or_else(|| wrong("the project has no such secret"))? {
            Named::Runtime(secret) => {
                if secret.instance_id != Some(instance.id) {
                    return Err(wrong("it was not issued for this instance: issue one with `instance`"));
                }
            }
            Named::Project(secret) => {
                let id = secret.id.to_string();
                let meant = |text: &str| text == secret.name || text == id;
                if !names(manifest, &meant) && !configured.iter().any(|text| meant(text)) {
                    let why = "the project did not consent to it: neither the manifest names it nor a field of the instance's config that its schema marks with format muster-secret";
                    return Err(wrong(why));
                }
            }
        }
    }
    Ok(())
}

fn names(manifest: &Manifest, meant: &impl Fn(&str) -> bool) -> bool {
    let secrets = manifest.components.iter().flat_map(|component| &component.runtime.secrets);
    secrets.into_iter().any(|given| meant(&given.secret))
}

#[cfg(test)]
mod tests {
    use muster_wire::task::{CommandOrder, ServiceAction, ServiceOrder};
    use serde_json::{Value, json};

    use super::*;

    fn order(value: Value) -> CellTask {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn faults_are_named_by_their_place() {
        let at = |value| fault(&order(value)).map(|(field, _)| field);
        assert_eq!(at(json!({"command": {"command": ["sh"]}})), Some("/act/command/command".to_owned()));
        assert_eq!(
            at(json!({"probe": {"command": ["/bin/true"], "sees": ["etc"]}})),
            Some("/act/probe/sees/0".to_owned())
        );
        let write = json!({"files": {"write": [{"path": "/etc/muster/x", "text": ""}]}});
        assert_eq!(at(write), Some("/act/files/write/0/path".to_owned()));
        assert_eq!(at(json!({"files": {"remove": ["/a/../b"]}})), Some("/act/files/remove/0".to_owned()));
        assert_eq!(at(json!({"files": {"write": [{"path": "/etc/x.conf", "text": "a"}]}})), None);
        let service = ServiceOrder { name: "d".to_owned(), action: ServiceAction::Start };
        assert_eq!(fault(&CellTask::Service(service)), None);
    }

    #[test]
    fn a_command_with_a_name_of_no_variable_is_refused() {
        let CellTask::Command(mut run) = order(json!({"command": {"command": ["/bin/true"]}})) else {
            panic!()
        };
        run.environment.insert("1A".to_owned(), String::new());
        let field = fault(&CellTask::Command(CommandOrder { ..run })).map(|(field, _)| field);
        assert_eq!(field, Some("/act/command/environment/1A".to_owned()));
    }
}
