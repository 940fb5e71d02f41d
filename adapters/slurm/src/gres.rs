//! GPUs as Slurm counts them. Pure.

/// Returns the `Gres` value of a worker with these devices; none without devices.
pub(crate) fn gres(devices: &[String], kind: Option<&str>) -> Option<String> {
    if devices.is_empty() {
        return None;
    }
    Some(match kind {
        Some(kind) => format!("gpu:{kind}:{}", devices.len()),
        None => format!("gpu:{}", devices.len()),
    })
}

/// The line of `gres.conf` for a worker with these devices.
pub(crate) fn line(node: &str, devices: &[String], kind: Option<&str>) -> String {
    let kind = kind.map(|kind| format!(" Type={kind}")).unwrap_or_default();
    format!("NodeName={node} Name=gpu{kind} File={}", devices.join(","))
}

/// Renders the file from the lines of all workers.
pub(crate) fn conf(lines: &[String]) -> String {
    let mut text = "AutoDetect=off\n".to_owned();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_names_its_node() {
        let two = ["/dev/nvidia0".to_owned(), "/dev/nvidia3".to_owned()];
        assert_eq!(gres(&two, None).as_deref(), Some("gpu:2"));
        assert_eq!(gres(&two, Some("h200")).as_deref(), Some("gpu:h200:2"));
        assert_eq!(gres(&[], Some("h200")), None);
        assert_eq!(
            conf(&[line("lab-worker-1", &two, Some("h200"))]),
            "AutoDetect=off\nNodeName=lab-worker-1 Name=gpu Type=h200 File=/dev/nvidia0,/dev/nvidia3\n"
        );
    }
}
