//! Reads the lines of a CSV file in bounded memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use csv::{ByteRecord, Position, StringRecord};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::columns::Columns;
use super::error::{ImportError, LineRefusal};
use super::phones::Country;

/// The maximum length of a line in bytes. A longer one probably has an unclosed quote.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads the lines after the header.
pub(super) struct Lines {
    reader: csv::Reader<BoundedReader>,
    columns: Columns,
    /// The country of national phone numbers.
    country: Option<Country>,
    seen: Rc<RefCell<ReadProgress>>,
    /// The number of line ends before the current position.
    passed: u64,
    path: PathBuf,
    line: ByteRecord,
}

/// A line: its number, and its contact or the reason for its refusal.
pub(super) struct ImportLine {
    pub(super) number: u64,
    pub(super) contact: Result<Value, LineRefusal>,
    /// Its phone as the file has it, if the contact's is another text.
    pub(super) rewritten: Option<String>,
}

impl Lines {
    /// Opens the file at `from`, or at the first line after the header.
    pub(super) fn open(
        path: &Path,
        from: Option<Position>,
        country: Option<Country>,
    ) -> Result<Self, ImportError> {
        let csv = |error: csv::Error| ImportError::csv(path, &error);
        let file = File::open(path).map_err(|source| ImportError::io(path, source))?;
        let seen = Rc::new(RefCell::new(ReadProgress::default()));
        let file = BoundedReader { file, seen: Rc::clone(&seen) };
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
        Ok(Self { reader, columns, country, seen, passed, path: path.to_owned(), line })
    }

    /// Returns the position of the next line.
    pub(super) fn position(&self) -> Position {
        let mut position = self.reader.position().clone();
        position.set_line(self.passed + 1);
        position
    }

    /// Reads the next line.
    pub(super) fn next(&mut self) -> Result<Option<ImportLine>, ImportError> {
        self.seen.borrow_mut().bytes = 0;
        let is_line = self.reader.read_byte_record(&mut self.line);
        if !is_line.map_err(|error| ImportError::csv(&self.path, &error))? {
            return Ok(None);
        }
        // The reader's own line number is wrong for files whose lines end in two bytes.
        let (ends, is_ended) = self.seen.borrow_mut().pass(self.reader.position().byte());
        self.passed += ends;
        let within = self.line.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
        let number = 1 + self.passed - u64::from(is_ended) - within;
        let text = StringRecord::from_byte_record(self.line.clone());
        let Ok(text) = text else {
            let contact = Err(LineRefusal::new("", "it is not UTF-8"));
            return Ok(Some(ImportLine { number, contact, rewritten: None }));
        };
        let contact = self.columns.contact(&text, self.country);
        let sent = contact.as_ref().ok().and_then(|contact| contact["phone"].as_str());
        let written = self.columns.phone(&text);
        let rewritten = sent.filter(|sent| *sent != written).map(|_| written.to_owned());
        Ok(Some(ImportLine { number, contact, rewritten }))
    }
}

/// A reader that fails on a line longer than [`LINE_BYTES_MAX`].
struct BoundedReader {
    file: File,
    seen: Rc<RefCell<ReadProgress>>,
}

/// The progress of reading a file.
#[derive(Default)]
struct ReadProgress {
    /// The offset of the next byte.
    at: u64,
    /// The bytes read since the start of the line. Read-ahead counts too, so this is an upper
    /// bound.
    bytes: u64,
    /// The offsets of line ends that were not passed yet.
    ends: VecDeque<u64>,
}

impl ReadProgress {
    /// Returns the number of lines that end before `place`, and whether one ends right before it.
    fn pass(&mut self, place: u64) -> (u64, bool) {
        let count = self.ends.partition_point(|end| *end < place);
        let last = self.ends.drain(..count).next_back();
        (count as u64, last.is_some_and(|end| end + 1 == place))
    }
}

impl Read for BoundedReader {
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

impl Seek for BoundedReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = self.file.seek(to)?;
        *self.seen.borrow_mut() = ReadProgress { at, ..ReadProgress::default() };
        Ok(at)
    }
}

/// Returns the SHA-256 of a file, in hexadecimal, and its size.
pub(super) fn file_hash(path: &Path) -> Result<(String, u64), ImportError> {
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
    use postrider_actors::domain::fuzz::{SCRIPT_BYTES_MAX, edited};

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
        let mut all = Lines::open(&path, None, None).unwrap();
        let mut read = Vec::new();
        let mut places = Vec::new();
        loop {
            places.push(all.position());
            let Some(line) = all.next().unwrap() else { break };
            read.push((line.number, line.contact.map(|contact| contact["name"].to_string())));
        }
        let numbers: Vec<_> = read.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [2, 4, 6, 7, 8]);
        assert_eq!(read[1].1.as_deref().unwrap(), r#""b\nb""#);
        assert!(read[2].1.is_err() && read[3].1.is_err());
        for (at, place) in places.into_iter().enumerate().take(5) {
            let mut rest = Lines::open(&path, Some(place), None).unwrap();
            let next = rest.next().unwrap().unwrap();
            let contact = next.contact.map(|contact| contact["name"].to_string());
            assert_eq!((next.number, contact), read[at]);
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_does_not_swallow_the_file() {
        let mut content = b"name\na\n\"b\n".to_vec();
        content.resize(8 << 20, b'x');
        let (_dir, path) = lines(&content);
        let mut lines = Lines::open(&path, None, None).unwrap();
        assert!(lines.next().unwrap().is_some());
        let error = lines.next().err().unwrap().to_string();
        assert!(error.contains("double quote"), "{error}");
    }

    #[test]
    fn fuzz_lines() {
        let examples: [&[u8]; 3] = [
            b"\xef\xbb\xbfname,phone,tags\r\nAna,+15550123456,a;b\r\n\"B\nC\",,\"[\"\"x\"\"]\"\r\n",
            b"name,custom_fields,custom.plan,id\nBo,\"{\"\"n\"\":1}\",gold,con_1\n'=1,,,\n",
            b"name\na\n\nb",
        ];
        let (_dir, path) = lines(b"");
        let fuzzer = bolero::check!().with_iterations(1_000);
        fuzzer.for_each(|script: &[u8]| {
            let content = edited(&examples, &script[..script.len().min(SCRIPT_BYTES_MAX)]);
            std::fs::write(&path, &content).unwrap();
            let Ok(mut lines) = Lines::open(&path, None, None) else { return };
            let mut last = 0;
            while let Ok(Some(line)) = lines.next() {
                assert!(line.number >= last.max(1), "line {} after {last}", line.number);
                last = line.number;
                // An import may resume behind each line.
                let passed = lines.position().line() - 1;
                assert!(passed <= content.iter().filter(|byte| **byte == b'\n').count() as u64);
            }
        });
    }
}
