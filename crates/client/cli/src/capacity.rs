//! `muster capacity`: whether it fits, why not, and the nearest fit.

use jiff::Timestamp;
use serde_json::Value;

use crate::amount::{amount, asked};
use crate::columns::BY_GPUS;
use crate::operation::text;
use crate::table::{plain, table};

/// Formats the report.
pub(crate) fn shown(report: &Value, now: Timestamp) -> String {
    let nodes = report["nodes"].as_i64().unwrap_or(0);
    let asked = match asked(&report["capacity"]) {
        nothing if nothing.is_empty() => text(report, "shape"),
        amounts => format!("{} with {amounts}", text(report, "shape")),
    };
    let mut shown = if report["fits_now"] == Value::Bool(true) {
        let could = if nodes == 1 { "1 node could".to_owned() } else { format!("{nodes} nodes could") };
        format!("yes: {could} take a {asked}\n")
    } else {
        format!("no {asked} now: {}\n", text(report, "message"))
    };
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            shown.push_str(&format!("{:<13} {value}\n", format!("{name}:")));
        }
    };
    fact("would fit", text(&report["nearest"], "change"));
    fact("largest free", amount(&report["largest"]));
    fact(
        "quota left",
        match plain(&report["quota_left"]) {
            none if none.is_empty() => "no limit".to_owned(),
            left => left,
        },
    );
    fact("queue", report["waiting"].to_string());
    if let Some(rows) = report["by_gpus"].as_array().filter(|rows| !rows.is_empty()) {
        shown.push_str(&table(Some(BY_GPUS), rows, now));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::now;
    use serde_json::json;

    #[test]
    fn it_says_yes_or_no_and_what_would_fit() {
        let mut report = json!({
            "shape": "gpu_slice", "capacity": {"gpus": 5, "cpus": 0, "memory_mb": 0, "disk_mb": 0}, "fits_now": false,
            "nodes": 0, "largest": {"gpus": 4, "cpus": 16, "memory_mb": 65_536, "disk_mb": 102_400},
            "by_gpus": [{"gpus": 1, "nodes": 2, "in_one_island": 2}], "waiting": 1, "quota_left": {"gpus": 8},
            "reason": "gpus", "message": "needs 5 GPUs; most free on one node: 4", "nearest": {"change": "4 GPUs instead of 5"},
        });
        let expected = "\
no gpu_slice with 5 GPUs now: needs 5 GPUs; most free on one node: 4
would fit:    4 GPUs instead of 5
largest free: 4 GPUs, 16 CPUs, 64 GiB memory, 100 GiB disk
quota left:   gpus=8
queue:        1
GPUS  NODES  IN ONE NVLINK DOMAIN
1     2      2
";
        assert_eq!(shown(&report, now()), expected);
        report["fits_now"] = json!(true);
        report["nodes"] = json!(1);
        report["quota_left"] = json!({});
        let yes = shown(&report, now());
        assert!(yes.starts_with("yes: 1 node could take a gpu_slice with 5 GPUs"), "{yes}");
        assert!(yes.contains("no limit"), "{yes}");
    }
}
