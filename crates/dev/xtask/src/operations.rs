//! The golden list of endpoints: kind (command, machine or read), path, and permission. A review shows here if a command
//! became a read, which no test could detect.

/// Returns `kind method path operationId permission`, in columns.
pub(crate) fn list() -> String {
    let rows: Vec<[&str; 5]> = muster_api::endpoints()
        .iter()
        .map(|operation| {
            let permission = if operation.permission.is_empty() { "-" } else { operation.permission };
            [operation.kind.as_str(), operation.method.as_str(), operation.path, operation.id, permission]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    rows.iter()
        .map(|row| {
            let cells: String =
                (0..4).map(|column| format!("{:<1$}  ", row[column], widths[column])).collect();
            format!("{cells}{}\n", row[4])
        })
        .collect()
}
