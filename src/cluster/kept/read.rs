//! Reads entries that a node has kept, by their positions.

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

/// How much is returned at once, and up to one entry more.
const SOME_BYTES: usize = 1 << 20;

/// What a file begins with: its format.
pub(super) const BEGINNING: &[u8] = b"postrider entries 1\n";

/// The names of the files in a directory, the oldest first; none if it is not there.
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

/// Visits the headers of the entries in a file, each with where its entry begins. Returns up to
/// where the file is whole; 0 if it is of another format.
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
    /// By position: the file, where in it, and how many bytes.
    places: BTreeMap<u64, Vec<(usize, u64, usize)>>,
}

impl KeptFiles {
    /// Those in a directory, or in one file.
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
            // One that cannot be read is not there.
            self.files.get(*file)?.read_exact_at(&mut entry, *at).ok()?;
            Some(Bytes::from(entry))
        };
        places.filter_map(read).collect()
    }
}

/// Where whoever reads a directory from its beginning to its end goes on.
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
    /// That of a text; `None`: it is none.
    pub(in crate::cluster) fn parse(text: &str) -> Option<Self> {
        let (file, at) = text.split_once(':')?;
        let is_one = file.is_empty() || is_name(file);
        let at = at.parse().ok().filter(|_| is_one)?;
        Some(Self { file: file.to_owned(), at })
    }
}

/// Some of the entries in a directory from a place on, behind a line with the place behind them,
/// which is empty at the end. However much is before it, none of that is read.
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

/// Adds whole entries of a file from a place in it until there are enough. Returns up to where.
fn take_some(path: &Path, from: u64, some: &mut Vec<u8>) -> io::Result<u64> {
    let file = match File::open(path) {
        // It was among the oldest, and went meanwhile.
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

/// Writes what [`some_from`] returns to a file, again and again, until there is no more.
///
/// # Errors
/// Those of `ask`, and of the file; what comes is not what is asked for.
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
