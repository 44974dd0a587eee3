//! The lines of a CSV file, in bounded memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use csv::{ByteRecord, Position, StringRecord};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::columns::{Columns, Refusal};
use super::error::ImportError;

/// Most bytes of a line; one that has more has a quote too many.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// The lines after the first.
pub(super) struct Lines {
    reader: csv::Reader<Bounded>,
    columns: Columns,
    seen: Rc<RefCell<Seen>>,
    /// Ends of lines before the place that was read to.
    passed: u64,
    path: PathBuf,
    line: ByteRecord,
}

/// A line: its number, and what it says.
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) contact: Result<Value, Refusal>,
}

impl Lines {
    /// Opens the file at `from`, or at its first line after the names of the columns.
    pub(super) fn open(path: &Path, from: Option<Position>) -> Result<Self, ImportError> {
        let csv = |error: csv::Error| ImportError::csv(path, &error);
        let file = File::open(path).map_err(|source| ImportError::io(path, source))?;
        let seen = Rc::new(RefCell::new(Seen::default()));
        let file = Bounded { file, seen: Rc::clone(&seen) };
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
        let header = reader.headers().map_err(csv)?;
        let columns = Columns::of(header)
            .map_err(|source| ImportError::Columns { path: path.to_owned(), source })?;
        let (mut passed, _) = seen.borrow_mut().pass(reader.position().byte());
        if let Some(from) = from {
            passed = from.line().saturating_sub(1);
            reader.seek(from).map_err(csv)?;
        }
        let line = ByteRecord::new();
        Ok(Self { reader, columns, seen, passed, path: path.to_owned(), line })
    }

    /// Where the next line begins.
    pub(super) fn position(&self) -> Position {
        let mut position = self.reader.position().clone();
        position.set_line(self.passed + 1);
        position
    }

    /// The next line.
    pub(super) fn next(&mut self) -> Result<Option<Line>, ImportError> {
        self.seen.borrow_mut().bytes = 0;
        let is_line = self.reader.read_byte_record(&mut self.line);
        if !is_line.map_err(|error| ImportError::csv(&self.path, &error))? {
            return Ok(None);
        }
        // The reader's own number does not know that two bytes may end a line.
        let (ends, is_ended) = self.seen.borrow_mut().pass(self.reader.position().byte());
        self.passed += ends;
        let within = self.line.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
        let number = 1 + self.passed - u64::from(is_ended) - within;
        let text = StringRecord::from_byte_record(self.line.clone());
        let contact = match text {
            Ok(text) => self.columns.contact(&text),
            Err(_) => Err(Refusal::new("", "it is not UTF-8")),
        };
        Ok(Some(Line { number, contact }))
    }
}

/// A file of which no line is longer than is sensible.
struct Bounded {
    file: File,
    seen: Rc<RefCell<Seen>>,
}

/// What was read of a file.
#[derive(Default)]
struct Seen {
    /// Where the next byte is.
    at: u64,
    /// Bytes since the line began; what is buffered counts for the line that began before it, so
    /// this is a bound and no measure.
    bytes: u64,
    /// Where lines end that were not passed yet.
    ends: VecDeque<u64>,
}

impl Seen {
    /// How many lines end before `place`, and whether one ends right before it.
    fn pass(&mut self, place: u64) -> (u64, bool) {
        let count = self.ends.partition_point(|end| *end < place);
        let last = self.ends.drain(..count).next_back();
        (count as u64, last.is_some_and(|end| end + 1 == place))
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        let mut seen = self.seen.borrow_mut();
        let at = seen.at;
        seen.ends.extend(
            (at..).zip(&buffer[..count]).filter(|(_, byte)| **byte == b'\n').map(|it| it.0),
        );
        seen.at += count as u64;
        seen.bytes += count as u64;
        if seen.bytes > LINE_BYTES_MAX {
            let why =
                "a line has more than 1 MiB: a double quote that opens a cell may not be closed";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(count)
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = self.file.seek(to)?;
        *self.seen.borrow_mut() = Seen { at, ..Seen::default() };
        Ok(at)
    }
}

/// The SHA-256 of a file, in hexadecimal, and its size.
pub(super) fn hash(path: &Path) -> Result<(String, u64), ImportError> {
    let io = |source| ImportError::io(path, source);
    let mut file = File::open(path).map_err(io)?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).map_err(io)? {
            0 => break,
            count => {
                hash.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
    Ok((hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        std::fs::write(&path, content).unwrap();
        (dir, path)
    }

    #[test]
    fn lines_have_their_numbers_and_can_be_taken_up_again() {
        let content = b"\xef\xbb\xbfname,tags\r\na,x\r\n\r\n\"b\nb\",\r\nc\n\xff,y\ne,\n";
        let (_dir, path) = lines(content);
        let mut all = Lines::open(&path, None).unwrap();
        let mut told = Vec::new();
        let mut places = Vec::new();
        loop {
            places.push(all.position());
            let Some(line) = all.next().unwrap() else { break };
            told.push((line.number, line.contact.map(|contact| contact["name"].to_string())));
        }
        let numbers: Vec<_> = told.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [2, 4, 6, 7, 8]);
        assert_eq!(told[1].1.as_deref().unwrap(), r#""b\nb""#);
        assert!(told[2].1.is_err() && told[3].1.is_err());
        for (at, place) in places.into_iter().enumerate().take(5) {
            let mut rest = Lines::open(&path, Some(place)).unwrap();
            let next = rest.next().unwrap().unwrap();
            let contact = next.contact.map(|contact| contact["name"].to_string());
            assert_eq!((next.number, contact), told[at]);
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_does_not_swallow_the_file() {
        let mut content = b"name\na\n\"b\n".to_vec();
        content.resize(8 << 20, b'x');
        let (_dir, path) = lines(&content);
        let mut lines = Lines::open(&path, None).unwrap();
        assert!(lines.next().unwrap().is_some());
        let error = lines.next().err().unwrap().to_string();
        assert!(error.contains("double quote"), "{error}");
    }
}
