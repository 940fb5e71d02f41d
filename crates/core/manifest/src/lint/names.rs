//! Names must be unique, and references must name something.

use std::collections::BTreeSet;

use crate::fault::{At, Fault};

/// Reports duplicate names in the whole document.
pub(super) fn unique(root: &At<'_>, faults: &mut Vec<Fault>) {
    each_once(fields(&root.get("artifacts"), "name"), "artifact", faults);
    each_once(fields(&root.get("components"), "key"), "component", faults);
    each_once(fields(&root.get("meters"), "name"), "meter", faults);
    each_once(root.get("operations").items(), "operation", faults);
    each_once(root.get("permissions").items(), "permission", faults);
    each_once(root.get("compatibility").get("requires_capacity_shape").items(), "shape", faults);
    for component in root.get("components").items() {
        let runtime = component.get("runtime");
        each_once(fields(&runtime.get("services"), "name"), "service", faults);
        each_once(fields(&runtime.get("ports"), "name"), "port", faults);
        each_once(fields(&runtime.get("secrets"), "file"), "secret's file", faults);
        ports(&runtime, faults);
    }
    artifacts(root, faults);
}

/// Returns one field of each entry of a list.
pub(super) fn fields<'a>(list: &At<'a>, name: &str) -> Vec<At<'a>> {
    list.items().into_iter().map(|item| item.get(name)).collect()
}

/// Returns the texts at these positions, if each is readable: otherwise nothing can be reported as missing.
pub(super) fn known<'a>(places: &[At<'a>]) -> Option<BTreeSet<&'a str>> {
    places.iter().map(At::text).collect()
}

fn each_once(places: Vec<At<'_>>, what: &str, faults: &mut Vec<Fault>) {
    let mut seen = BTreeSet::new();
    for place in places {
        if let Some(name) = place.text()
            && !seen.insert(name)
        {
            let says = format!("another {what} has this name: rename one, or remove one");
            faults.push(Fault::error(place.path, "duplicate", says));
        }
    }
}

fn ports(runtime: &At<'_>, faults: &mut Vec<Fault>) {
    let mut seen = BTreeSet::new();
    for port in runtime.get("ports").items() {
        let Some(number) = port.get("port").number() else { continue };
        let protocol = port.get("protocol").text().unwrap_or("tcp");
        if !seen.insert((number, protocol)) {
            let says =
                format!("another port of this component is {number} over {protocol}: give each its own");
            faults.push(Fault::error(port.get("port").path, "duplicate_port", says));
        }
    }
}

fn artifacts(root: &At<'_>, faults: &mut Vec<Fault>) {
    let artifacts = fields(&root.get("artifacts"), "name");
    let components = root.get("components").items();
    let used: Vec<At<'_>> = components
        .iter()
        .map(|component| component.get("runtime").get("root").get("artifact"))
        .filter(At::is_there)
        .collect();
    if let Some(known) = known(&artifacts) {
        for place in &used {
            if let Some(name) = place.text()
                && !known.contains(name)
            {
                let says =
                    "there is no artifact of this name: add it to artifacts, with its repository and digest";
                faults.push(Fault::error(place.path.clone(), "unknown_artifact", says));
            }
        }
    }
    let used: BTreeSet<&str> = used.iter().filter_map(At::text).collect();
    let mut told = BTreeSet::new();
    for (artifact, name) in root.get("artifacts").items().iter().zip(&artifacts) {
        if let Some(name) = name.text()
            && !used.contains(name)
            && told.insert(name)
        {
            let says = "no component's file system comes from it: remove it from the list";
            faults.push(Fault::warning(artifact.path.clone(), "unused_artifact", says));
        }
    }
}
