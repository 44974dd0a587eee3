//! `media_upload`: files uploaded over HTTP, beside bytes that a bare program makes durable.
//!
//! Both sides have one file in flight, and remove each that is stored, so that no disk fills.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::Group;
use super::otp_http::{BARE, Servers};
use crate::client::{Client, Script};
use crate::measure::{Measured, Stopwatch, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["media_upload"], run };

const BUDGET_AND_GOAL: (f64, f64) = (0.5, 0.7);
/// The bytes of a file.
const FILE_BYTES: usize = 4 << 20;
/// The bytes per write of the bare program.
const PART_BYTES: usize = 256 << 10;

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let servers = Servers::start(&BARE)?;
    let data = setup::data_directory()?;
    let key = servers.key().to_owned();
    // Each file differs: a stored content is not written again.
    let mut number = 0;
    let pair = alternate(
        scale,
        |time| {
            number += 1_000_000;
            let script = || Uploads::new(&key, number);
            let driven = Client::connect(servers.address(), 1)?.drive(time, script)?;
            Ok(Measured { rate: driven.rate * FILE_BYTES as f64, ..driven })
        },
        |time| bare(data.path(), time),
    )?;
    servers.stop()?;
    let unit = format!("bytes/s of files of {FILE_BYTES} bytes, one by one");
    let reference =
        "bytes/s of files of that size, written, synced with their directory and removed";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}

/// Uploads and deletes in turn.
struct Uploads {
    key: String,
    upload: Vec<u8>,
    /// The offset of the file's content.
    content: usize,
    number: u64,
    /// The request that deletes the stored file.
    delete: Option<Vec<u8>>,
    deletes: bool,
}

impl Uploads {
    fn new(key: &str, number: u64) -> Self {
        let head = format!(
            "POST /v1/media HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             content-type: text/plain\r\ncontent-length: {FILE_BYTES}\r\n\r\n"
        );
        let content = head.len();
        let upload = [head.as_bytes(), &[b'a'; FILE_BYTES]].concat();
        Self { key: key.to_owned(), upload, content, number, delete: None, deletes: false }
    }
}

impl Script for Uploads {
    fn next(&mut self) -> Option<&[u8]> {
        self.deletes = self.delete.is_some() && !self.deletes;
        if self.deletes {
            return self.delete.as_deref();
        }
        self.number += 1;
        let digits = format!("{:020}", self.number);
        self.upload[self.content..self.content + digits.len()].copy_from_slice(digits.as_bytes());
        Some(&self.upload)
    }

    fn check(&mut self, status: u16, body: &[u8]) -> Result<bool> {
        if self.deletes {
            return match status {
                204 => Ok(false),
                _ => Err(format!("a file is not deleted: {status}").into()),
            };
        }
        if status != 201 {
            let body = String::from_utf8_lossy(body);
            return Err(format!("a file is not taken: {status} {body}").into());
        }
        let answer: Value = serde_json::from_slice(body)?;
        let id = answer["media_id"].as_str().ok_or("a file has no id")?;
        let delete = format!(
            "DELETE /v1/media/{id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
            self.key
        );
        self.delete = Some(delete.into_bytes());
        Ok(true)
    }
}

/// Returns the bytes per second that a program writes as durably, without a server around it.
fn bare(dir: &Path, time: Duration) -> Result<Measured> {
    let (start, mut count) = (Stopwatch::start(), 0_u64);
    let part = vec![b'a'; PART_BYTES];
    while count == 0 || start.elapsed() < time {
        let (unnamed, named) = (dir.join("unnamed"), dir.join("named"));
        let mut file = File::create(&unnamed)?;
        for _ in 0..FILE_BYTES / PART_BYTES {
            file.write_all(&part)?;
        }
        file.sync_all()?;
        fs::rename(&unnamed, &named)?;
        File::open(dir)?.sync_all()?;
        fs::remove_file(&named)?;
        count += 1;
    }
    let bytes = count * FILE_BYTES as u64;
    Ok(Measured::rate(bytes as f64 / start.elapsed().as_secs_f64()))
}
