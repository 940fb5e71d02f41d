//! Services: their commands and their start order.

use std::collections::{BTreeMap, BTreeSet};

use super::components::environment;
use super::names::{fields, known};
use crate::fault::{At, Fault};
use crate::path::{path_fault, program_fault};

pub(super) fn each(component: &At<'_>, faults: &mut Vec<Fault>) {
    let services = component.get("runtime").get("services");
    for service in services.items() {
        command(&service.get("command"), faults);
        let by = service.get("ready").get("by");
        command(&by.get("command"), faults);
        let path = by.get("http").get("path");
        if let Some(text) = path.text()
            && (!text.starts_with('/') || text.bytes().any(|byte| byte <= b' ' || byte == 127))
        {
            let says = "the path of a probe must begin with / and have no spaces: change it";
            faults.push(Fault::error(path.path, "probe_path", says));
        }
        for port in [by.get("tcp"), by.get("http").get("port")] {
            if port.number() == Some(0) {
                faults.push(Fault::error(
                    port.path,
                    "probe_port",
                    "a port must be 1 to 65535: name the service's",
                ));
            }
        }
        let directory = service.get("working_directory");
        // The cell's root is a valid working directory, and the only one that is no named path.
        if let Some(why) = directory.text().filter(|text| *text != "/").and_then(path_fault) {
            faults.push(Fault::error(directory.path, "working_directory", why));
        }
        environment(&service.get("environment"), faults);
    }
    order(&services, faults);
}

fn command(command: &At<'_>, faults: &mut Vec<Fault>) {
    let words = command.items();
    let Some(program) = words.first() else {
        // The schema requires it for a service's command, but not for a probe's.
        if command.is_there() && command.path.ends_with("/by/command") {
            let says = "name at least the program";
            faults.push(Fault::error(command.path.clone(), "program_path", says));
        }
        return;
    };
    if let Some(why) = program.text().and_then(program_fault) {
        faults.push(Fault::error(program.path.clone(), "program_path", why));
    }
    for word in &words {
        if word.text().is_some_and(|word| word.contains('\0')) {
            let says = "an argument of a command must have no NUL: remove it";
            faults.push(Fault::error(word.path.clone(), "program_path", says));
        }
    }
}

fn order(services: &At<'_>, faults: &mut Vec<Fault>) {
    let Some(names) = known(&fields(services, "name")) else { return };
    let services = services.items();
    let mut waits: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for service in &services {
        let Some(name) = service.get("name").text() else { continue };
        for place in service.get("after").items() {
            match place.text() {
                Some(other) if names.contains(other) => {
                    waits.entry(name).or_default().insert(other);
                }
                Some(_) => {
                    let says = "the component has no service of this name: check its spelling, or add it";
                    faults.push(Fault::error(place.path, "unknown_service", says));
                }
                None => {}
            }
        }
    }
    let on_request: BTreeSet<&str> = services
        .iter()
        .filter(|service| service.get("start").text() == Some("on_request"))
        .filter_map(|service| service.get("name").text())
        .collect();
    let mut told = BTreeSet::new();
    for service in &services {
        let Some(name) = service.get("name").text().filter(|name| told.insert(*name)) else { continue };
        if leads_to(&waits, name, name) {
            let says = "it depends on itself through the services it comes after: break the cycle";
            faults.push(Fault::error(service.get("after").path, "service_cycle", says));
        } else if !on_request.contains(name)
            && let Some(other) =
                waits.get(name).and_then(|others| others.iter().find(|other| on_request.contains(*other)))
        {
            let says = format!(
                "it starts with its cell and waits for {other}, which starts only on request: start it on request too"
            );
            faults.push(Fault::warning(service.get("after").path, "waits_for_request", says));
        }
    }
}

/// Reports whether `to` is reachable from `from`.
fn leads_to(waits: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(name) = open.pop() {
        for next in waits.get(name).into_iter().flatten() {
            if *next == to {
                return true;
            }
            if seen.insert(*next) {
                open.push(next);
            }
        }
    }
    false
}
