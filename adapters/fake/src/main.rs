//! A fake adapter for tests. Its app class has no meaning: a hub is a cell that holds a file for each unit, and a unit
//! works when that file contains `UP`. A test can make every request succeed, fail, slow down, be forged or be ignored
//! (`modes`), and verifies the effect by the files, never by the adapter's reports.

mod death;
mod fake;
mod modes;

use std::process::ExitCode;

use fake::Fake;
use modes::Modes;

fn main() -> ExitCode {
    match Modes::parse(|name| std::env::var(name).ok()) {
        Ok(modes) => muster_adapter_kit::main(Fake::new(modes)),
        Err(why) => {
            eprintln!("fake: {why}");
            ExitCode::from(2)
        }
    }
}
