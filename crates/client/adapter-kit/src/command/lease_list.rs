//! Lists queued and leased steps.

use std::io::Write;
use std::sync::Arc;

use super::Trouble;
use super::places::places;
use crate::Options;

/// Prints the steps of every project that the adapter serves.
pub(super) async fn lease_list(options: Options, out: &mut (impl Write + Send)) -> Result<(), Trouble> {
    let mut rows =
        vec![["STEP", "VERB", "STATE", "GEN", "HOLDER", "UNTIL", "INSTANCE", "MESSAGE"].map(str::to_owned)];
    for place in places(&Arc::new(options)).await? {
        for state in ["leased", "queued"] {
            for step in place.steps(state).await? {
                rows.push([
                    step.id.to_string(),
                    step.verb.to_string(),
                    step.state.to_string(),
                    step.generation.to_string(),
                    step.holder.unwrap_or_else(|| "-".to_owned()),
                    step.leased_until.map_or_else(|| "-".to_owned(), |until| until.to_string()),
                    step.instance_id.to_string(),
                    step.message.unwrap_or_default(),
                ]);
            }
        }
    }
    let widths: [usize; 8] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for row in &rows {
        let line: String = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}  ")).collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
