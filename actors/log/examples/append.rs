//! Measures appends of 4 KiB through the log in files beside bare writes to a zero-filled file.
//!
//! `cargo run --release -p postrider-log --example append [DIR]`
//!
//! Short rounds alternate, because a disk is not as fast in one second as in the next. The ratio is
//! the median of the ratios of neighbours.

#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use postrider_log::{
    Claim, FileLog, FileOptions, Kind, Log, LogId, Start, claim, encode_commit, entry,
};

const ENTRY_BYTES: usize = 4 * 1024;
const ROUNDS: usize = 25;
const ROUND: Duration = Duration::from_millis(200);
/// The first appends are not counted: the next segment is being prepared meanwhile.
const WARM_UP: Duration = Duration::from_secs(2);
const FILE_BYTES: u64 = 64 * 1024 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = match std::env::args().nth(1) {
        Some(parent) => tempfile::tempdir_in(parent)?,
        None => tempfile::tempdir()?,
    };
    let id = LogId(*b"a log to measure");
    let log = FileLog::open(&dir.path().join("log"), FileOptions::default(), Start::new(id))?;
    let me = Claim {
        node: "bench".to_owned(),
        incarnation: [0; 16],
        program: String::new(),
        readable_from: 1,
    };
    claim(&log, &me, 0)?;
    let bare = Bare::new(&dir.path().join("bare"))?;
    per_second(WARM_UP, |_| append(&log))?;
    let (mut rates, mut bare_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (rate, bare_rate) =
            (per_second(ROUND, |_| append(&log))?, per_second(ROUND, |index| bare.write(index))?);
        rates.push(rate);
        bare_rates.push(bare_rate);
        ratios.push(rate / bare_rate);
    }
    let (rate, bare_rate, ratio) =
        (median(&mut rates), median(&mut bare_rates), median(&mut ratios));
    println!("| row | 4 KiB appends/s | bare pwrite + fdatasync/s | ratio |");
    println!("|---|---|---|---|");
    println!("| log_append | {rate:.0} | {bare_rate:.0} | {ratio:.2} |");
    let after = log.tail()?.last;
    println!("\n{after} entries in {} segments", log.segments());
    Ok(log.close()?)
}

/// Encodes and appends one commit, as a writer does.
fn append(log: &FileLog) -> Result<(), Box<dyn Error>> {
    let tail = log.tail()?;
    let next = tail.next(tail.epoch);
    let body = [7; ENTRY_BYTES - entry::OVERHEAD_BYTES];
    let entries = encode_commit(&next, Kind::Group, 0, &body, log.entry_bytes_max())?;
    Ok(log.append(next.position, &entries)?)
}

/// A file of zeros, written from its beginning on, again and again.
struct Bare(File);

impl Bare {
    fn new(path: &Path) -> Result<Self, Box<dyn Error>> {
        let file = OpenOptions::new().create_new(true).write(true).open(path)?;
        let zeros = vec![0; 1024 * 1024];
        for at in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        Ok(Self(file))
    }

    fn write(&self, index: u64) -> Result<(), Box<dyn Error>> {
        let at = index * ENTRY_BYTES as u64 % FILE_BYTES;
        self.0.write_all_at(&[7; ENTRY_BYTES], at)?;
        Ok(self.0.sync_data()?)
    }
}

#[allow(clippy::disallowed_methods, reason = "a measurement reads the time")]
fn per_second(
    round: Duration,
    mut run: impl FnMut(u64) -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < round {
        run(count)?;
        count += 1;
    }
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
