//! Amounts of capacity in human-readable form: `2 GPUs, 8 CPUs, 64 GiB memory, 100 GiB disk`.

use serde_json::Value;

/// Formats all four amounts.
pub(crate) fn amount(capacity: &Value) -> String {
    parts(capacity).map(|(_, words)| words).join(", ")
}

/// Formats the non-zero amounts; empty if there are none.
pub(crate) fn asked(capacity: &Value) -> String {
    let some = parts(capacity).into_iter().filter(|(number, _)| *number != 0);
    some.map(|(_, words)| words).collect::<Vec<_>>().join(", ")
}

fn parts(capacity: &Value) -> [(i64, String); 4] {
    let number = |name: &str| capacity[name].as_i64().unwrap_or(0);
    let [gpus, cpus, memory, disk] = ["gpus", "cpus", "memory_mb", "disk_mb"].map(number);
    [
        (gpus, count(gpus, "GPU")),
        (cpus, count(cpus, "CPU")),
        (memory, format!("{} memory", mebibytes(memory))),
        (disk, format!("{} disk", mebibytes(disk))),
    ]
}

/// `1 GPU`, `2 GPUs`.
pub(crate) fn count(number: i64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Formats an amount in the largest unit without a fraction.
pub(crate) fn mebibytes(amount: i64) -> String {
    const UNITS: [(i64, &str); 2] = [(1024 * 1024, "TiB"), (1024, "GiB")];
    let unit = UNITS.into_iter().find(|(size, _)| amount != 0 && amount % size == 0);
    match unit {
        Some((size, unit)) => format!("{} {unit}", amount / size),
        None => format!("{amount} MiB"),
    }
}

/// Formats an approximate number of bytes: `1.2 GiB`.
pub(crate) fn bytes(amount: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(size, _)| amount >= *size) {
        Some((size, unit)) => format!("{:.1} {unit}", amount as f64 / size as f64),
        None => format!("{amount} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_are_told_in_units_that_lose_nothing() {
        let told = amount(&json!({"gpus": 1, "cpus": 16, "memory_mb": 1536, "disk_mb": 2_097_152}));
        assert_eq!(told, "1 GPU, 16 CPUs, 1536 MiB memory, 2 TiB disk");
        assert_eq!(mebibytes(0), "0 MiB");
        assert_eq!(mebibytes(65_536), "64 GiB");
    }

    #[test]
    fn bytes_are_told_roughly() {
        let told = [0, 1023, 1024, 1_288_490_189, 5 << 40].map(bytes);
        assert_eq!(told, ["0 B", "1023 B", "1.0 KiB", "1.2 GiB", "5.0 TiB"]);
    }
}
