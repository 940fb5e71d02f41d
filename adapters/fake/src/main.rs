//! An adapter that stands for any. Its app class has no meaning: a hub is a cell that holds a file for each unit, and a unit
//! works when that file says `UP`. So whatever is asked for can be done, refused, slowed down, forged or forgotten as a test
//! wants (`modes`), and whether it was done is seen by looking at the files, never by asking the adapter.

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
