//! The table of kinds in `docs/architecture/engine.md` is rendered from the definitions.

use std::path::Path;

use muster_engine::{Abandon, AtDeadline, Definition, KINDS, OnFailure, Undo};
use muster_testkit::golden;

const PAGE: &str = "../../../docs/architecture/engine.md";
const HEAD: &str = "| kind | steps | on refusal | at the deadline | cancel | no return | abandon |\n| --- | --- | --- | --- | --- | --- | --- |\n";

fn row(kind: &Definition) -> String {
    let steps = kind.steps.iter().map(|step| match step.undo {
        Undo::Run(_) => format!("{}↶", step.name),
        Undo::None(_) => step.name.to_owned(),
    });
    let refused = match kind.on_failure {
        OnFailure::Undo => "roll back".to_owned(),
        OnFailure::Block => "block".to_owned(),
        OnFailure::BlockFor(reasons) => format!("roll back; block for {}", reasons.join(", ")),
    };
    let late = match kind.at_deadline {
        AtDeadline::Undo => "roll back",
        AtDeadline::Block => "block",
        AtDeadline::Step => "the step decides",
    };
    let abandon = match kind.abandon {
        Abandon::Attest => "attest",
        Abandon::Undo => "roll back",
        Abandon::Never => "–",
    };
    let cells = [
        format!("`{}`", kind.kind),
        steps.collect::<Vec<_>>().join(" · "),
        refused,
        late.to_owned(),
        if kind.cancellable { "yes" } else { "no" }.to_owned(),
        kind.no_return.unwrap_or("–").to_owned(),
        abandon.to_owned(),
    ];
    format!("| {} |\n", cells.join(" | "))
}

#[test]
fn golden_the_table_of_kinds_is_rendered_from_the_definitions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(HEAD).expect("the page has the table's head");
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let rows: String = KINDS.iter().map(row).collect();
    golden(&path, &format!("{before}{HEAD}{rows}\n{after}"));
}
