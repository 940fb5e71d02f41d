//! A tree of two levels: a root and its branches.

/// A root and its branches.
pub(super) struct Tree {
    root: String,
    branches: Vec<(String, Vec<String>)>,
}

impl Tree {
    pub(super) fn new(root: String) -> Self {
        Self { root, branches: Vec::new() }
    }

    /// Adds a branch, unless it is empty.
    pub(super) fn branch(&mut self, name: &str, leaves: Vec<String>) {
        let leaves: Vec<String> = leaves.into_iter().filter(|leaf| !leaf.is_empty()).collect();
        if !leaves.is_empty() {
            self.branches.push((name.to_owned(), leaves));
        }
    }

    pub(super) fn shown(&self) -> String {
        let mut lines = vec![self.root.clone()];
        let mark = |place: usize, count: usize| if place + 1 == count { "└─" } else { "├─" };
        for (place, (name, leaves)) in self.branches.iter().enumerate() {
            lines.push(format!("{} {name}", mark(place, self.branches.len())));
            let beside = if place + 1 == self.branches.len() { " " } else { "│" };
            let leaves = leaves
                .iter()
                .enumerate()
                .map(|(at, leaf)| format!("{beside}  {} {leaf}", mark(at, leaves.len())));
            lines.extend(leaves);
        }
        lines.into_iter().map(|line| format!("{line}\n")).collect()
    }
}
