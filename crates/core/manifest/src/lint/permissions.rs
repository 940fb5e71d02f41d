//! Permissions of the adapter's account must exist and be allowed for such an account.

use super::Context;
use crate::fault::{At, Fault};

pub(super) fn all(root: &At<'_>, context: &Context<'_>, faults: &mut Vec<Fault>) {
    for place in root.get("permissions").items() {
        let Some(permission) = place.text() else { continue };
        let word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let says = if !permission.split_once('.').is_some_and(|(noun, verb)| word(noun) && word(verb)) {
            "a permission is written noun.verb, like member.get: change it"
        } else if !context.known_permissions.contains(&permission) {
            "there is no such permission: see the reference of permissions"
        } else if !context.grantable.contains(&permission) {
            faults.push(Fault::error(
                place.path,
                "forbidden_permission",
                "no adapter's account can have this: remove it, and leave it to the project's people",
            ));
            continue;
        } else {
            continue;
        };
        faults.push(Fault::error(place.path, "unknown_permission", says));
    }
}
