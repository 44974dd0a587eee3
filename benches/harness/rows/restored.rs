//! `cluster_restore_seconds`: a node without records fetches a shard from its checkpoint.
//!
//! The records are contacts of one workspace with text that does not compress. An import brings
//! them into a cluster, and leaves one checkpoint of the shard and no log before it. The time goes
//! from the start of the node's process until it sends a code for the workspace. Beside it is the
//! same start with the records in place. No other node may own the shard and the name of the node
//! is free, so no lease is waited for.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_actors::random;
use serde_json::{Value, json};

use super::Group;
use crate::measure::{Phones, Stopwatch, median};
use crate::nodes::{Cluster, Process, call};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["cluster_restore_seconds"], run };

/// Seconds for a gigabyte.
const BUDGET_AND_GOAL: (f64, f64) = (30.0, 15.0);
/// The bytes of a contact's text, and the contacts per request.
const TEXT_BYTES: usize = 8_000;
const BATCH: usize = 50;
/// The number of requests in flight.
const CONCURRENT: usize = 4;
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(20);

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let Some(mut cluster) = Cluster::make()? else { return Ok(Vec::new()) };
    let data = setup::data_directory()?;
    let single = Process::start("single", &data, &[])?;
    let keys = single.workspaces()?;
    let key = keys.first().ok_or("there are workspaces")?;
    let phones = Phones::new();
    fill(&single, key, scale.restored_bytes, &phones)?;
    drop(single);
    let watch = Stopwatch::start();
    cluster.import(&data.path().join("single"))?;
    eprintln!("  imported in {:.2} s", watch.elapsed().as_secs_f64());
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..scale.restarts {
        if round > 0 {
            cluster.kill_last(false)?;
        }
        without.push(start(&mut cluster, key, &phones)?);
        cluster.kill_last(true)?;
        with.push(start(&mut cluster, key, &phones)?);
        let (without, with) = (without[round], with[round]);
        eprintln!("  round {}: {without:.2} s against {with:.2} s", round + 1);
    }
    let megabytes = bytes_of(&cluster.records_of_last()?)? as f64 / 1e6;
    let unit =
        format!("s from the start of a node without records to a code, {megabytes:.0} MB of them");
    let row = Row::of_value(GROUP.rows[0], unit, median(without), Some(BUDGET_AND_GOAL));
    let reference = Some("s with its records there".to_owned());
    Ok(vec![Row { reference, reference_value: Some(median(with)), ..row }])
}

/// Returns the bytes of all files below a directory.
fn bytes_of(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_of(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

/// Makes contacts with this many bytes of text.
fn fill(server: &Process, key: &str, bytes: usize, phones: &Phones) -> Result<()> {
    let batches = bytes.div_ceil(TEXT_BYTES * BATCH);
    let begun = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || {
            while begun.fetch_add(1, Ordering::Relaxed) < batches {
                let contacts: Vec<_> = (0..BATCH).map(|_| contact(phones.next())).collect();
                let body = json!({ "contacts": contacts });
                let made = call(server.address, key, "POST", "/v1/contacts/batch", &body)?;
                let (status, answer) = made;
                let is_made = |one: &Value| one["status"] == 201;
                let results = answer["data"].as_array().map_or(&[][..], Vec::as_slice);
                if results.len() != BATCH || !results.iter().all(is_made) {
                    return Err(Error::from(format!("contacts: {status} {answer}")));
                }
            }
            Ok(())
        };
        let running: Vec<_> = (0..CONCURRENT).map(|_| scope.spawn(work)).collect();
        for work in running {
            work.join().map_err(|_| "a client panicked")??;
        }
        Ok(())
    })
}

fn contact(phone: u64) -> Value {
    let bytes: Vec<u8> = (0..TEXT_BYTES / 32 * 3 / 4).flat_map(|_| random::bytes::<32>()).collect();
    let text = data_encoding::BASE64URL_NOPAD.encode(&bytes);
    json!({
        "name": "Ana Souza",
        "phone": format!("+{phone}"),
        "custom_fields": { "text": text },
    })
}

/// Starts the node; returns the seconds until it sends a code.
fn start(cluster: &mut Cluster, key: &str, phones: &Phones) -> Result<f64> {
    let watch = Stopwatch::start();
    let address = cluster.start_node()?.address;
    loop {
        let phone = json!({ "phone": format!("+{}", phones.next()) });
        let (status, answer) = call(address, key, "POST", "/v1/otp/send", &phone)?;
        match status {
            200 => return Ok(watch.elapsed().as_secs_f64()),
            503 if watch.elapsed() < PATIENCE => std::thread::sleep(LOOK),
            _ => return Err(format!("nobody restores it: {status} {answer}").into()),
        }
    }
}
