//! Checks `docs/reference/errors.md`, which is written by hand, because "what to do next" cannot be derived. It must have a
//! section for every code, in order, none for a removed code, and the facts in each section must match the code.

use muster_api::Code;

/// Path of the page; error responses link to it.
pub(crate) const PATH: &str = "docs/reference/errors.md";

/// Returns the line under a section's heading.
fn facts(code: Code) -> String {
    let retryable =
        if code.retryable() { "the same request may succeed later" } else { "the same request fails again" };
    format!("Status {} · {retryable} · *{}*", code.status(), code.title())
}

/// Returns the errors in the page.
pub(crate) fn findings(page: &str) -> Vec<String> {
    let sections: Vec<(&str, &str)> = page
        .split("\n## ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .collect();
    let mut findings = Vec::new();
    for code in Code::ALL {
        let word = code.as_str();
        let Some((_, text)) = sections.iter().find(|(heading, _)| heading.trim() == word) else {
            findings.push(format!(
                "{PATH}: the code {word} has no section; add `## {word}` with a paragraph on what to do next"
            ));
            continue;
        };
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        if lines.next() != Some(facts(*code).as_str()) {
            findings.push(format!("{PATH}: under `## {word}` the first line must be: {}", facts(*code)));
        }
        if lines.map(str::len).sum::<usize>() < 80 {
            findings
                .push(format!("{PATH}: `## {word}` needs a paragraph: what it means, and what to do next"));
        }
    }
    for (heading, _) in &sections {
        if !Code::ALL.iter().any(|code| code.as_str() == heading.trim()) {
            findings.push(format!("{PATH}: `## {heading}` names no code that the API answers with"));
        }
    }
    let words: Vec<&str> = sections.iter().map(|(heading, _)| heading.trim()).collect();
    if findings.is_empty() && words != Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>() {
        findings
            .push(format!("{PATH}: the sections must stand once each, in the order of the codes, by status"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let paragraph = "It means this and that, for this and that reason; do this and that next, and then try once more.";
        let sections = Code::ALL
            .iter()
            .map(|code| format!("\n## {}\n\n{}\n\n{paragraph}\n", code.as_str(), facts(*code)));
        format!("# Errors\n{}", sections.collect::<String>())
    }

    #[test]
    fn a_whole_page_passes() {
        assert_eq!(findings(&page()), Vec::<String>::new());
    }

    #[test]
    fn missing_wrong_and_surplus_error_sections_are_named() {
        let missing = findings(&page().replace("## name_taken", "## nmae_taken"));
        assert!(missing[0].contains("the code name_taken has no section"), "{missing:?}");
        assert!(missing[1].contains("nmae_taken` names no code"), "{missing:?}");
        let wrong = findings(&page().replace("Status 409", "Status 410"));
        assert!(wrong[0].contains("the first line must be: Status 409"), "{wrong:?}");
        let first = Code::ALL[0].as_str();
        let double = findings(&format!("{}\n## {first}\n", page()));
        assert!(double[0].contains("once each"), "{double:?}");
    }
}
