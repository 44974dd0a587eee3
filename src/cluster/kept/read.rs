//! Reads the entries that a node has retained, by their positions.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::Bytes;
use postrider_actors::store::postrider_log::entry::HEADER_BYTES;
use postrider_actors::store::postrider_log::{Header, Position};
use postrider_cluster::repair::NodeEntries;

use super::file::is_name;

/// The size of a page in bytes, which may be exceeded by one entry.
const SOME_BYTES: usize = 1 << 20;

/// The start of each file: its format.
pub(super) const BEGINNING: &[u8] = b"postrider entries 1\n";

/// Returns the names of the files in a directory, oldest first; none if it does not exist.
pub(super) fn names(dir: &Path) -> io::Result<Vec<String>> {
    let listed = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let names = listed.map(|it| Ok(it?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.retain(|name| is_name(name));
    names.sort_unstable();
    Ok(names)
}

/// Visits the headers of the entries in a file, each with the offset of its entry.
///
/// Returns the length of the valid part of the file; 0 if it is of another format.
pub(super) fn scan(path: &Path, visit: &mut dyn FnMut(&Header, u64)) -> io::Result<u64> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut file = BufReader::new(file);
    let mut beginning = [0; BEGINNING.len()];
    let mut header = [0; HEADER_BYTES];
    let mut at = BEGINNING.len() as u64;
    if length < at || file.read_exact(&mut beginning).is_err() || beginning != *BEGINNING {
        return Ok(0);
    }
    while length - at >= HEADER_BYTES as u64 {
        file.read_exact(&mut header)?;
        let Ok(read) = Header::decode(&header) else { break };
        let bytes = read.entry_bytes() as u64;
        if length - at < bytes {
            break;
        }
        visit(&read, at);
        file.seek_relative(i64::try_from(bytes - HEADER_BYTES as u64).unwrap_or(i64::MAX))?;
        at += bytes;
    }
    Ok(at)
}

/// The entries of one shard in some files.
#[derive(Debug)]
pub(in crate::cluster) struct KeptFiles {
    files: Vec<File>,
    /// The entries by position: the file, the offset in it, and the number of bytes.
    places: BTreeMap<u64, Vec<(usize, u64, usize)>>,
}

impl KeptFiles {
    /// Opens the files in a directory, or one file.
    pub(in crate::cluster) fn open(path: &Path) -> io::Result<Self> {
        let paths = if path.is_file() {
            vec![path.to_owned()]
        } else {
            names(path)?.into_iter().map(|name| path.join(name)).collect()
        };
        let mut kept = Self { files: Vec::new(), places: BTreeMap::new() };
        for path in paths {
            let number = kept.files.len();
            kept.files.push(File::open(&path)?);
            let places = &mut kept.places;
            scan(&path, &mut |header, at| {
                let place = (number, at, header.entry_bytes());
                places.entry(header.position.0).or_default().push(place);
            })?;
        }
        Ok(kept)
    }
}

impl NodeEntries for KeptFiles {
    fn last(&self) -> Position {
        self.places.last_key_value().map_or(Position::START, |(last, _)| Position(*last))
    }

    fn at(&self, position: Position) -> Vec<Bytes> {
        let places = self.places.get(&position.0).into_iter().flatten();
        let read = |(file, at, bytes): &(usize, u64, usize)| {
            let mut entry = vec![0; *bytes];
            // An entry that cannot be read counts as missing.
            self.files.get(*file)?.read_exact_at(&mut entry, *at).ok()?;
            Some(Bytes::from(entry))
        };
        places.filter_map(read).collect()
    }
}

/// The position at which a reader of a whole directory continues.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(in crate::cluster) struct Place {
    /// The name of a file; empty before the first one.
    file: String,
    at: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.at)
    }
}

impl Place {
    /// Parses a place; `None` if the text is not one.
    pub(in crate::cluster) fn parse(text: &str) -> Option<Self> {
        let (file, at) = text.split_once(':')?;
        let is_one = file.is_empty() || is_name(file);
        let at = at.parse().ok().filter(|_| is_one)?;
        Some(Self { file: file.to_owned(), at })
    }
}

/// Returns a page of the entries in a directory, from a place on.
///
/// The first line is the place behind the page, which is empty at the end. Nothing before the start
/// is read.
pub(in crate::cluster) fn some_from(dir: &Path, from: &Place) -> io::Result<Vec<u8>> {
    let mut some = Vec::new();
    for file in names(dir)?.into_iter().filter(|name| *name >= from.file) {
        let begins = if file == from.file { from.at } else { 0 };
        let at = take_some(&dir.join(&file), begins, &mut some)?;
        if some.len() >= SOME_BYTES {
            let line = format!("{}\n", Place { file, at });
            return Ok([line.as_bytes(), &some].concat());
        }
    }
    Ok([b"\n", &some[..]].concat())
}

/// Adds whole entries of a file from an offset on until the page is full. Returns the end offset.
fn take_some(path: &Path, from: u64, some: &mut Vec<u8>) -> io::Result<u64> {
    let file = match File::open(path) {
        // It was among the oldest, and was removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(from),
        file => file?,
    };
    let mut at = from.max(BEGINNING.len() as u64);
    let mut beginning = [0; BEGINNING.len()];
    if file.read_exact_at(&mut beginning, 0).is_err() || beginning != *BEGINNING {
        return Ok(at);
    }
    let length = file.metadata()?.len();
    let mut file = BufReader::new(file);
    file.seek(SeekFrom::Start(at))?;
    let mut header = [0; HEADER_BYTES];
    while some.len() < SOME_BYTES && length.saturating_sub(at) >= HEADER_BYTES as u64 {
        file.read_exact(&mut header)?;
        let Ok(read) = Header::decode(&header) else { break };
        let bytes = read.entry_bytes() as u64;
        if length - at < bytes {
            break;
        }
        some.extend_from_slice(&header);
        let body = bytes - HEADER_BYTES as u64;
        if (&mut file).take(body).read_to_end(some)? as u64 != body {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += bytes;
    }
    Ok(at)
}

/// Writes the pages that [`some_from`] returns to a file, until there are no more.
///
/// # Errors
/// Errors of `ask` and of the file; a page is not one, or does not advance.
pub(in crate::cluster) fn write_all(
    to: &Path,
    ask: impl Fn(&Place) -> io::Result<Bytes>,
) -> io::Result<()> {
    let (mut file, mut from) = (File::create(to)?, Place::default());
    file.write_all(BEGINNING)?;
    loop {
        let page = ask(&from)?;
        let end = page.iter().position(|byte| *byte == b'\n');
        let (line, some) = end.and_then(|at| page.split_at_checked(at)).unwrap_or_default();
        file.write_all(some.get(1..).unwrap_or_default())?;
        if line.is_empty() && end.is_some() {
            return Ok(());
        }
        let next = std::str::from_utf8(line).ok().and_then(Place::parse);
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it says no place behind that");
        from = next.filter(|next| *next > from).ok_or_else(wrong)?;
    }
}
