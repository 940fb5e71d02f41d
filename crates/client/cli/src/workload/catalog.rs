//! The catalog: where an app fits, and the permissions it requests.

use jiff::Timestamp;
use serde_json::Value;

use crate::operation::text;
use crate::printable::printable;
use crate::table::lines;

/// Formats where a release fits, with the reasons for each shape.
pub(crate) fn compatibility(answer: &Value) -> String {
    let mut shown = format!("release {}\n", text(answer, "version"));
    for fit in answer["answers"].as_array().into_iter().flatten() {
        let (mark, word) =
            if fit["fits"] == Value::Bool(true) { ('✓', "fits") } else { ('✗', "does not fit") };
        shown.push_str(&format!("{mark} {}: {word}\n", text(fit, "shape")));
        for reason in texts(&fit["reasons"]) {
            shown.push_str(&format!("    {reason}\n"));
        }
        let change = text(fit, "change");
        if !change.is_empty() {
            shown.push_str(&format!("    would fit: {change}\n"));
        }
    }
    shown
}

/// Formats a grant; after a dry run, the requested permissions with the command that consents to exactly those.
pub(crate) fn granted(answer: &Value, now: Timestamp) -> String {
    if let Some(entitlement) = answer["entitlement"].as_object() {
        return lines(entitlement, now);
    }
    let permissions = texts(&answer["permissions"]);
    if permissions.is_empty() {
        return "its adapter requests no permission here\nnext: the same command without --dry-run\n"
            .to_owned();
    }
    let mut shown = "its adapter would get these permissions in the project, and no others:\n".to_owned();
    shown.extend(permissions.iter().map(|permission| format!("  {permission}\n")));
    let consent: String = permissions.iter().map(|permission| format!(" --consent {permission}")).collect();
    shown.push_str(&format!("next: the same command with{consent} instead of --dry-run\n"));
    shown
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(|text| printable(text).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::now;
    use serde_json::json;

    #[test]
    fn each_shape_has_an_answer_with_its_reasons_and_the_smallest_change() {
        let answer = json!({"version": "1.2", "answers": [
            {"shape": "gpu_slice", "fits": false, "reasons": ["it needs 9 GPUs on one node"], "change": "8 GPUs instead of 9"},
            {"shape": "baremetal", "fits": true, "reasons": []},
        ]});
        let expected = "\
release 1.2
✗ gpu_slice: does not fit
    it needs 9 GPUs on one node
    would fit: 8 GPUs instead of 9
✓ baremetal: fits
";
        assert_eq!(compatibility(&answer), expected);
    }

    #[test]
    fn a_dry_run_names_every_permission_and_the_command_that_consents() {
        let told = granted(&json!({"permissions": ["cell.list", "member.get"]}), now());
        assert!(told.contains("  cell.list\n  member.get\n"), "{told}");
        assert!(
            told.ends_with(
                "next: the same command with --consent cell.list --consent member.get instead of --dry-run\n"
            ),
            "{told}"
        );
        let told =
            granted(&json!({"entitlement": {"id": "ent_1", "app": "notebook"}, "permissions": []}), now());
        assert_eq!(told, "id:  ent_1\napp: notebook\n");
    }
}
