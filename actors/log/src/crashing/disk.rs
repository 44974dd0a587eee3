//! A disk in memory that distinguishes synced from written bytes, down to the sector.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Fault, Keep};
use crate::file::disk::{Disk, DiskFile};

/// Bytes that reach the disk whole or not at all.
const SECTOR_BYTES: usize = 512;
type Sector = [u8; SECTOR_BYTES];

/// A handle of the disk. It fails once the power was cut.
#[derive(Debug, Clone)]
pub(crate) struct SimDisk {
    machine: Arc<Mutex<Machine>>,
    life: u64,
}

#[derive(Debug, Default)]
struct Machine {
    files: Vec<SimFile>,
    /// The names that running processes see.
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    changed_names: Vec<NameChange>,
    /// The number of power cuts.
    life: u64,
    /// The failures of the next appends; `None` for success.
    script: VecDeque<Option<Fault>>,
    /// The fault between an append's write and its sync.
    syncing: Option<Fault>,
    /// The operations that succeed before one fails, and whether everything fails from then on.
    fails_after: Option<(u64, bool)>,
    operations: u64,
}

#[derive(Debug, Clone)]
enum NameChange {
    Created(String, usize),
    Renamed(String, String),
    Removed(String),
}

#[derive(Debug, Default, Clone)]
struct SimFile {
    /// The bytes that running processes see.
    cache: Vec<u8>,
    synced: Vec<u8>,
    /// The earlier contents of each sector since the last sync, oldest first.
    unsynced: BTreeMap<usize, Vec<Sector>>,
}

impl SimDisk {
    pub(crate) fn new() -> Self {
        Self { machine: Arc::default(), life: 0 }
    }

    /// Cuts the power, or only ends the process, and returns the disk that the next one finds.
    pub(crate) fn crash(&self, keep: Keep) -> Self {
        let mut machine = self.machine.lock();
        machine.life += 1;
        machine.script.clear();
        (machine.syncing, machine.fails_after) = (None, None);
        if keep != Keep::Cache {
            let mut choose = Chooser::new(keep);
            machine.files.iter_mut().for_each(|file| file.cut_power(&mut choose));
            let count = choose.choose(machine.changed_names.len());
            let mut names = std::mem::take(&mut machine.synced_names);
            machine.changed_names.drain(..).take(count).for_each(|change| change.apply(&mut names));
            (machine.names, machine.synced_names) = (names.clone(), names);
        }
        Self { machine: self.machine.clone(), life: machine.life }
    }

    pub(crate) fn script(&self, fault: Option<Fault>) {
        self.machine.lock().script.push_back(fault);
    }

    pub(crate) fn script_is_done(&self) -> bool {
        self.machine.lock().script.is_empty()
    }

    /// Lets this many changing operations succeed and the next one fail.
    ///
    /// If `for_good`, nothing succeeds from then on.
    #[cfg(test)]
    pub(crate) fn fail_after(&self, operations: u64, for_good: bool) {
        self.machine.lock().fails_after = Some((operations, for_good));
    }

    /// Returns the number of changing operations.
    #[cfg(test)]
    pub(crate) fn operations(&self) -> u64 {
        self.machine.lock().operations
    }

    /// Changes a file as no program does: in the cache and on the disk.
    #[cfg(test)]
    pub(crate) fn damage(&self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        let mut machine = self.machine.lock();
        let inode = machine.names[name];
        change(&mut machine.files[inode].cache);
        change(&mut machine.files[inode].synced);
    }

    /// Returns a copy of the disk, for a test that tries many things on the same one.
    #[cfg(test)]
    pub(crate) fn fork(&self) -> Self {
        let machine = self.machine.lock();
        let copy = Machine {
            files: machine.files.clone(),
            names: machine.names.clone(),
            synced_names: machine.synced_names.clone(),
            changed_names: machine.changed_names.clone(),
            ..Machine::default()
        };
        Self { machine: Arc::new(Mutex::new(copy)), life: 0 }
    }

    fn with<T>(&self, run: impl FnOnce(&mut Machine) -> io::Result<T>) -> io::Result<T> {
        let mut machine = self.machine.lock();
        if machine.life != self.life {
            return Err(io::Error::other("the power was cut"));
        }
        run(&mut machine)
    }

    fn change<T>(&self, run: impl FnOnce(&mut Machine) -> io::Result<T>) -> io::Result<T> {
        self.with(|machine| {
            machine.step()?;
            run(machine)
        })
    }
}

/// Decides which unsynced bytes survive.
struct Chooser {
    keep: Keep,
    state: u64,
}

impl Chooser {
    const fn new(keep: Keep) -> Self {
        let state = if let Keep::Seed(seed) = keep { seed } else { 0 };
        Self { keep, state }
    }

    /// Chooses one of `0..=count`.
    const fn choose(&mut self, count: usize) -> usize {
        match self.keep {
            Keep::Nothing => 0,
            Keep::Everything | Keep::Cache => count,
            Keep::Seed(_) => {
                // SplitMix64.
                self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut mixed = self.state;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                ((mixed ^ (mixed >> 31)) % (count as u64 + 1)) as usize
            }
        }
    }
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Created(name, inode) => {
                names.insert(name, inode);
            }
            Self::Renamed(from, to) => {
                if let Some(inode) = names.remove(&from) {
                    names.insert(to, inode);
                }
            }
            Self::Removed(name) => {
                names.remove(&name);
            }
        }
    }
}

impl SimFile {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.cache.len() < end {
            self.cache.resize(end, 0);
        }
        self.cache[at..end].copy_from_slice(bytes);
        for sector in at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let from = sector * SECTOR_BYTES;
            let to = self.cache.len().min(from + SECTOR_BYTES);
            let mut content = [0; SECTOR_BYTES];
            content[..to - from].copy_from_slice(&self.cache[from..to]);
            self.unsynced.entry(sector).or_default().push(content);
        }
    }

    fn sync(&mut self) {
        self.synced.resize(self.cache.len(), 0);
        for (sector, versions) in std::mem::take(&mut self.unsynced) {
            if let Some(content) = versions.last() {
                put_sector(&mut self.synced, sector, content);
            }
        }
    }

    /// Forgets the unsynced bytes.
    ///
    /// After a failed sync the kernel considers them written: a later sync does not write them
    /// either.
    fn forget_unsynced(&mut self) {
        self.unsynced.clear();
    }

    fn cut_power(&mut self, choose: &mut Chooser) {
        let length = self.cache.len();
        for (sector, versions) in std::mem::take(&mut self.unsynced) {
            let Some(kept) = choose.choose(versions.len()).checked_sub(1) else { continue };
            let end = length.min((sector + 1) * SECTOR_BYTES);
            if self.synced.len() < end {
                self.synced.resize(end, 0);
            }
            put_sector(&mut self.synced, sector, &versions[kept]);
        }
        self.cache = self.synced.clone();
    }
}

fn put_sector(content: &mut [u8], sector: usize, bytes: &Sector) {
    let from = sector * SECTOR_BYTES;
    let to = content.len().min(from + SECTOR_BYTES);
    content[from..to].copy_from_slice(&bytes[..to - from]);
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.with(|machine| Ok(machine.names.keys().cloned().collect()))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.with(|machine| machine.names.get(name).copied().ok_or_else(not_found))?;
        Ok(Arc::new(OpenFile { disk: self.clone(), inode }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.change(|machine| {
            let inode = machine.files.len();
            machine.files.push(SimFile::default());
            machine.change_name(NameChange::Created(name.to_owned(), inode));
            Ok(inode)
        })?;
        Ok(Arc::new(OpenFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(|machine| {
            machine.names.get(from).ok_or_else(not_found)?;
            machine.change_name(NameChange::Renamed(from.to_owned(), to.to_owned()));
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(|machine| {
            machine.names.get(name).ok_or_else(not_found)?;
            machine.change_name(NameChange::Removed(name.to_owned()));
            Ok(())
        })
    }

    fn sync_names(&self) -> io::Result<()> {
        self.change(|machine| {
            machine.changed_names.clear();
            machine.synced_names = machine.names.clone();
            Ok(())
        })
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Machine {
    /// Counts a changing operation, and fails if its turn has come.
    fn step(&mut self) -> io::Result<()> {
        self.operations += 1;
        match &mut self.fails_after {
            Some((0, true)) => return Err(io::Error::other("the power is being cut")),
            Some((0, false)) => {
                self.fails_after = None;
                return Err(io::Error::other("an operation that fails once"));
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    fn change_name(&mut self, change: NameChange) {
        change.clone().apply(&mut self.names);
        self.changed_names.push(change);
    }

    /// Returns whether the file is a segment, which only appends write to.
    fn is_segment(&self, inode: usize) -> bool {
        self.names.iter().any(|(name, it)| *it == inode && name.ends_with(".log"))
    }
}

#[derive(Debug)]
struct OpenFile {
    disk: SimDisk,
    inode: usize,
}

impl DiskFile for OpenFile {
    fn length(&self) -> io::Result<u64> {
        self.disk.with(|machine| Ok(machine.files[self.inode].cache.len() as u64))
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.with(|machine| {
            let content = &machine.files[self.inode].cache;
            let from = content.len().min(at as usize);
            let read = buffer.len().min(content.len() - from);
            buffer[..read].copy_from_slice(&content[from..from + read]);
            Ok(read)
        })
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.change(|machine| {
            let scripted = machine.is_segment(self.inode);
            let fault = if scripted { machine.script.pop_front().flatten() } else { None };
            let written = match fault {
                Some(Fault::Lost) => 0,
                Some(Fault::Torn(count)) => count.min(bytes.len()),
                _ => bytes.len(),
            };
            machine.files[self.inode].write(at as usize, &bytes[..written]);
            machine.syncing = fault;
            match fault {
                Some(Fault::Lost | Fault::Torn(_)) => Err(io::Error::other("a scripted fault")),
                _ => Ok(()),
            }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.with(|machine| {
            let stepped = machine.step();
            let fault = machine.syncing.take();
            let fails_for_good = machine.fails_after.is_some();
            let file = &mut machine.files[self.inode];
            if let Err(error) = stepped {
                if !fails_for_good {
                    file.forget_unsynced();
                }
                return Err(error);
            }
            match fault {
                Some(Fault::Written) => return Err(io::Error::other("a scripted fault")),
                Some(Fault::FailedSync) => {
                    file.forget_unsynced();
                    return Err(io::Error::other("a scripted fault"));
                }
                Some(Fault::Lying) => file.forget_unsynced(),
                _ => file.sync(),
            }
            Ok(())
        })
    }
}
