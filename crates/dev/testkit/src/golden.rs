//! Golden files: important lists, for review.

use std::path::Path;

/// Compares `actual` with the committed file; `make bless` writes it instead.
pub fn golden(path: &Path, actual: &str) {
    if std::env::var_os("MUSTER_BLESS").is_some() {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("the golden folder can be made");
        }
        std::fs::write(path, actual).expect("the golden file can be written");
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if expected == actual {
        return;
    }
    let mut difference = String::new();
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    for line in old.iter().filter(|line| !new.contains(line)) {
        difference.push_str(&format!("- {line}\n"));
    }
    for line in new.iter().filter(|line| !old.contains(line)) {
        difference.push_str(&format!("+ {line}\n"));
    }
    panic!("{} has changed; if that is meant, run `make bless` and commit it:\n{difference}", path.display());
}
