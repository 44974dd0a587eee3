//! The harness measures the engine and the server against their budgets.
//!
//! Where a row has a reference, both are measured in alternating rounds of one run on one machine.
//!
//! `cargo bench -- soak --minutes N` is a row of its own kind: see [`soak`].
//!
//! `cargo bench -- curve` prints and draws how sends depend on the connections: [`rows::curve`].
//!
//! `cargo bench --profile dist` runs all rows, prints a Markdown table and writes
//! `target/bench/report.json`. Without the profile it measures what `cargo run --release` starts,
//! which has no link-time optimization.
//! `cargo bench -- NAME…` runs the rows whose name contains one of the words, and of `=NAME` the
//! row of that name; `--quick` takes fewer and shorter rounds, and a tenth of the pending requests;
//! `--alone` leaves the references out, for a profiler, and writes no report. `--report FILE`
//! writes it there in any case. Progress goes to stderr.
//!
//! `benches/guard` compares the rows of two builds.
//!
//! Without `--bench`, which cargo passes only for `cargo bench`, every row runs once at a tiny
//! size. That tests whether it works, and measures nothing.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

mod bare_client;
mod callers;
mod client;
mod cpu;
mod measure;
mod memory;
mod nats;
mod nodes;
mod report;
mod rows;
mod scale;
mod setup;
mod sink;
mod soak;

#[path = "../../tests/fake/cloud_api/mod.rs"]
mod cloud_api;
#[path = "../../tests/fake/machine/mod.rs"]
mod machine;
#[path = "../../tests/support/ports.rs"]
mod ports;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use report::Report;
use rows::Group;
use scale::Scale;
use soak::Soak;

/// The server's allocator; the memory rows read its statistics.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The error of a row.
type Error = Box<dyn std::error::Error + Send + Sync>;
/// The result of a row.
type Result<T> = std::result::Result<T, Error>;

/// The options of the command line.
struct Arguments {
    scale: Scale,
    /// The words of which a row's name must contain one, or be one behind `=`; none selects all.
    words: Vec<String>,
    /// Set for a run as a test: nothing is reported.
    smoke: bool,
    /// The minutes of a soak.
    minutes: Option<String>,
    /// The file of the report, if it is named.
    report: Option<PathBuf>,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Self {
        let mut arguments: Vec<_> = arguments.collect();
        let mut value_of = |option: &str| {
            let place = arguments.iter().position(|argument| argument == option)?;
            let end = arguments.len().min(place + 2);
            Some(arguments.drain(place..end).nth(1).unwrap_or_default())
        };
        let (minutes, report) = (value_of("--minutes"), value_of("--report").map(PathBuf::from));
        let (options, words): (Vec<_>, Vec<_>) =
            arguments.into_iter().partition(|argument| argument.starts_with("--"));
        let given = |option: &str| options.iter().any(|it| it == option);
        let smoke = !given("--bench") || given("--test");
        let mut scale = match (smoke, given("--quick")) {
            (true, _) => Scale::SMOKE,
            (false, true) => Scale::QUICK,
            (false, false) => Scale::FULL,
        };
        scale.alone = given("--alone");
        Self { scale, words, smoke, minutes, report }
    }

    fn wants(&self, group: &Group) -> bool {
        let names_one = |word: &String| match word.strip_prefix('=') {
            Some(name) => group.rows.contains(&name),
            None => group.rows.iter().any(|row| row.contains(word.as_str())),
        };
        self.words.is_empty() || self.words.iter().any(names_one)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let outcome = match arguments.next_if(|first| first == rows::child::CHILD) {
        Some(_) => rows::child::run(arguments),
        // A test runner that asks for the names of tests gets none.
        None if arguments.peek().is_some_and(|first| first == "--list") => Ok(()),
        None => run(&Arguments::parse(arguments)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the benchmark failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the profile that cargo built this with: the program is in `target/PROFILE/deps`.
fn profile() -> Result<String> {
    let program = std::env::current_exe()?;
    let folder = program.parent().and_then(Path::parent).and_then(Path::file_name);
    Ok(folder.unwrap_or_default().to_string_lossy().into_owned())
}

fn run(arguments: &Arguments) -> Result<()> {
    let soaks = arguments.words.iter().any(|word| word == soak::NAME);
    if soaks || (arguments.smoke && arguments.words.is_empty()) {
        Soak::parse(arguments.minutes.as_deref(), arguments.smoke)?.run()?;
    }
    let curve = arguments.words.iter().any(|word| word == rows::curve::NAME);
    if curve || (arguments.smoke && arguments.words.is_empty()) {
        rows::curve::run(&arguments.scale, arguments.smoke)?;
    }
    if soaks || curve {
        return Ok(());
    }
    let mut report = Report { profile: profile()?, rows: Vec::new() };
    for group in rows::GROUPS.iter().filter(|group| arguments.wants(group)) {
        eprintln!("{} …", group.rows.join(", "));
        report.rows.extend((group.run)(&arguments.scale)?);
    }
    if let Some(path) = &arguments.report {
        report.write(path)?;
    }
    if arguments.smoke {
        eprintln!("{} rows ran at a tiny size; `cargo bench` measures them", report.rows.len());
        return Ok(());
    }
    println!("{}", report.markdown());
    let missed = report.missed();
    if !missed.is_empty() {
        eprintln!("{} rows miss their budget: {}", missed.len(), missed.join(", "));
    }
    if arguments.scale.alone || arguments.report.is_some() {
        return Ok(());
    }
    let path = setup::directory()?.join("report.json");
    report.write(&path)?;
    eprintln!("written to {}", path.display());
    Ok(())
}
