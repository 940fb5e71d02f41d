//! Counts, quorums, directories and state of components, and their combinations.

use std::collections::BTreeMap;

use crate::fault::{At, Fault, escaped};
use crate::path::{path_fault, state_fault, within};

/// Checks the app as a whole.
pub(super) fn whole(root: &At<'_>, faults: &mut Vec<Fault>) {
    let components = root.get("components").items();
    if root.get("artifact_kind").text() == Some("launchable") && components.len() > 1 {
        let says =
            "a launchable app has one component: remove the others, or make it an oci app with an adapter";
        faults.push(Fault::error("/components", "launchable_one_component", says));
    }
    let compatibility = root.get("compatibility");
    let slices = compatibility
        .get("requires_capacity_shape")
        .items()
        .iter()
        .any(|shape| shape.text() == Some("gpu_slice"));
    let exclusive = compatibility.get("requires_exclusive_node");
    if exclusive.is_true() && slices {
        let says = "a slice shares its node: remove gpu_slice from requires_capacity_shape, or remove this";
        faults.push(Fault::error(exclusive.path, "exclusive_slice", says));
    }
    least_gpus(&compatibility.get("min_gpu_count"), &components, faults);
    let drains = root.get("operations").items().iter().any(|verb| verb.text() == Some("drain"));
    let recovers = root.get("operations").items().iter().any(|verb| verb.text() == Some("recover"));
    for component in &components {
        let restart = component.get("restart");
        if restart.text() == Some("always") && !recovers {
            let says = "recovering a member restarts it: add recover to operations, or remove this";
            faults.push(Fault::error(restart.path, "restart_without_recover", says));
        }
        let drained = component.get("witnesses").get("drained");
        if drains && drained.items().is_empty() {
            let says = "members can be drained but no check can witness it: add a check, or remove drain from operations";
            faults.push(Fault::error(drained.path, "drain_unwitnessed", says));
        }
    }
}

fn least_gpus(least: &At<'_>, components: &[At<'_>], faults: &mut Vec<Fault>) {
    let most: Option<i64> = components
        .iter()
        .map(|component| {
            let each = component.get("capacity").get("gpus");
            let each = if each.is_there() { each.number()? } else { 0 };
            Some(component.get("count").get("max").number()?.saturating_mul(each))
        })
        .try_fold(0, |sum: i64, most| Some(sum.saturating_add(most?)));
    if let (Some(least), Some(most)) = (least.number(), most)
        && least > most
    {
        let says =
            format!("all components together have at most {most} GPUs: lower it, or raise a max or its gpus");
        faults.push(Fault::error("/compatibility/min_gpu_count", "min_gpu_count", says));
    }
}

/// Checks one component.
pub(super) fn each(component: &At<'_>, faults: &mut Vec<Fault>) {
    count(component, faults);
    quorum(component, faults);
    state(component, faults);
    host(&component.get("runtime").get("root").get("host"), faults);
    environment(&component.get("runtime").get("environment"), faults);
    let ready = component
        .get("runtime")
        .get("services")
        .items()
        .iter()
        .any(|service| service.get("ready").is_there());
    let active = component.get("witnesses").get("active");
    if active.items().is_empty() && !ready {
        let says = "only running processes witness that a member is active: add a check, or a ready probe to \
                    a service";
        faults.push(Fault::warning(active.path, "active_unwitnessed", says));
    }
}

fn count(component: &At<'_>, faults: &mut Vec<Fault>) {
    let count = component.get("count");
    let (min, max, default) = (count.get("min"), count.get("max"), count.get("default"));
    if let (Some(least), Some(most)) = (min.number(), max.number())
        && least > most
    {
        let says = format!("it is above max, which is {most}: lower it, or raise max");
        faults.push(Fault::error(min.path, "count_order", says));
        return;
    }
    let Some(wanted) = default.number() else { return };
    let below = min.number().is_some_and(|least| wanted < least);
    let above = max.number().is_some_and(|most| wanted > most);
    if below || above {
        let says = "the default must be between min and max: move it there";
        faults.push(Fault::error(default.path, "count_order", says));
    }
}

fn quorum(component: &At<'_>, faults: &mut Vec<Fault>) {
    let quorum = component.get("quorum");
    let most = component.get("count").get("max").number();
    let least = quorum.get("at_least");
    let at_least = least.number();
    match (at_least, most) {
        (Some(number), _) if number < 1 => {
            let says = "a quorum is at least 1: raise it, or leave the quorum out";
            faults.push(Fault::error(least.path, "quorum_range", says));
        }
        (Some(number), Some(most)) if number > most => {
            let says = format!("there are never more than {most} members: lower it, or raise count/max");
            faults.push(Fault::error(least.path, "quorum_range", says));
        }
        _ => {}
    }
    if quorum.text() == Some("majority") && most.is_some_and(|most| most < 3) {
        let says = "with fewer than 3 members a majority is all of them, and none can ever be drained: raise count/max";
        faults.push(Fault::warning(quorum.path.clone(), "quorum_small", says));
    }
    let at_once = component.get("drain_pace").get("at_once");
    let need = match (at_least, component.get("count").get("min").number()) {
        (Some(least), Some(min)) => Some((min, least)),
        (None, Some(min)) if quorum.text() == Some("majority") => Some((min, min / 2 + 1)),
        _ => None,
    };
    // One at a time is the slowest possible pace.
    if let (Some((min, need)), Some(pace)) = (need, at_once.number())
        && pace > (min - need).max(1)
    {
        let says = format!(
            "with {min} members {need} must stay active: fewer than {pace} are drained at once then; lower it, or raise count/min"
        );
        faults.push(Fault::warning(at_once.path, "pace_over_quorum", says));
    }
    let stop = component.get("stop_after_partition");
    if stop.is_there() && !quorum.is_there() && most.is_some_and(|most| most > 1) {
        let says = "members that fence themselves protect a quorum or the only one: add a quorum, or set count/max to 1";
        faults.push(Fault::warning(stop.path, "stop_without_quorum", says));
    }
}

fn state(component: &At<'_>, faults: &mut Vec<Fault>) {
    // Shared directories are kept too, and follow the same rules.
    let mut places = component.get("state").items();
    places.extend(component.get("shared").items());
    for (index, place) in places.iter().enumerate() {
        let Some(path) = place.text() else { continue };
        if let Some(why) = state_fault(path) {
            faults.push(Fault::error(place.path.clone(), "state_path", why));
            continue;
        }
        // Of two equal paths only the later one is reported.
        let outer = places.iter().enumerate().find_map(|(other, place)| {
            let outer = place.text().filter(|outer| other != index && within(path, outer))?;
            (outer != path || other < index).then_some(outer)
        });
        if let Some(outer) = outer {
            let says = format!("it is inside {outer}, which is already kept: remove one of the two");
            faults.push(Fault::error(place.path.clone(), "state_nested", says));
        }
    }
}

fn host(host: &At<'_>, faults: &mut Vec<Fault>) {
    if host.value.is_some_and(|value| value.as_array().is_some_and(Vec::is_empty)) {
        let says = "name at least one directory of the node, or an artifact instead";
        faults.push(Fault::error(host.path.clone(), "root_path", says));
    }
    for place in host.items() {
        let Some(path) = place.text() else { continue };
        let kept = ["/", "/proc", "/sys", "/dev", "/etc", "/run", "/tmp"].contains(&path);
        let why = kept.then(|| format!("{path} is never shared with a cell: name a directory in it"));
        if let Some(why) = why.or_else(|| path_fault(path)) {
            faults.push(Fault::error(place.path, "root_path", why));
        }
    }
}

/// Checks for names and values with which no process could be started.
pub(super) fn environment(environment: &At<'_>, faults: &mut Vec<Fault>) {
    let none = serde_json::Map::new();
    let object = environment.value.and_then(|value| value.as_object()).unwrap_or(&none);
    let texts: BTreeMap<&str, &str> =
        object.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect();
    for (name, value) in texts {
        let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let says = if !first || !rest || name.len() > 255 {
            "a name must have letters, digits and _, and not begin with a digit: rename it"
        } else if value.contains('\0') || value.len() > 32 * 1024 {
            "a value must have no NUL and at most 32 KiB: shorten it"
        } else {
            continue;
        };
        faults.push(Fault::error(format!("{}/{}", environment.path, escaped(name)), "environment", says));
    }
}
