//! Which shard has which number of a provider: a key of the bucket for each, by compare-and-swap.
//!
//! It owns these keys and this node's copy of them.
//! It promises that of several shards that claim a number of one name only one gets it, and that a
//! copy that was brought up to date has every claim that had succeeded when that began. A shard
//! says once that all of its numbers are claimed; until each has, what is missing proves nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::coordination::{Coordination, CoordinationError, KeyValue, decode, encode};

/// What the keys of numbers begin with.
const NUMBERS: &str = "number.";
/// What the keys begin with by which shards say that all of their numbers are claimed. It is among
/// those of numbers, so that a copy reads both at once.
const KEPT: &str = "number.kept.";
/// How often a write is tried that another one came before, or that nobody answered.
const TRIES: usize = 5;
/// Keys that are read at a time: each is a request, and all of them have a second.
const KEYS_AT_ONCE: usize = 50;

/// Who has a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberHolder {
    /// The number's id.
    pub number: String,
    /// The shard of its workspace.
    pub shard: u16,
    /// The apps whose callbacks may be about it: more than one while its secret changes.
    pub apps: Vec<String>,
}

/// The numbers of all shards, as this node knows them.
#[derive(Debug)]
pub struct NumberList {
    bucket: Arc<dyn Coordination>,
    /// Held while the bucket is read, so that what is older is not put over what is newer.
    reading: Mutex<()>,
    /// Never held while somebody waits for the bucket.
    copy: Mutex<Copy>,
}

#[derive(Debug, Default)]
struct Copy {
    /// When the bucket was made that it is of; `None`: it is of none yet.
    made_at: Option<u64>,
    /// Everything up to this revision was read.
    read_to: u64,
    by_key: BTreeMap<String, NumberHolder>,
    keys: HashMap<String, String>,
    /// The shards that have said that all of their numbers are claimed.
    kept: BTreeSet<u16>,
}

/// The key by which a shard says that all of its numbers are claimed.
fn kept_key(shard: u16) -> String {
    format!("{KEPT}{shard}")
}

impl Copy {
    /// Takes up a key as it was written. What cannot be read is left as it was known before: it
    /// must not keep the others away.
    fn take_up(&mut self, key: String, kept: &KeyValue) {
        match key.strip_prefix(KEPT) {
            Some(shard) => self.kept.extend(shard.parse::<u16>()),
            None => match decode(&key, &kept.value) {
                Ok(holder) => self.put(key, holder),
                Err(error) => tracing::error!(%error, "who has a number is not known"),
            },
        }
        self.read_to = self.read_to.max(kept.revision);
    }

    fn put(&mut self, key: String, holder: Option<NumberHolder>) {
        let before = match &holder {
            Some(holder) => {
                self.keys.insert(holder.number.clone(), key.clone());
                self.by_key.insert(key.clone(), holder.clone())
            }
            None => self.by_key.remove(&key),
        };
        let is_other =
            |it: &NumberHolder| holder.as_ref().is_none_or(|now| now.number != it.number);
        if let Some(before) = before.filter(is_other) {
            self.keys.remove(&before.number);
        }
    }
}

/// The key of the number that its provider calls so. Names of keys have few letters.
fn key_of(provider_id: &str) -> String {
    let digest = Sha256::digest(provider_id.as_bytes());
    let digits: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{NUMBERS}{digits}")
}

impl NumberList {
    /// The numbers in this bucket; none is known yet.
    #[must_use]
    pub(crate) fn new(bucket: Arc<dyn Coordination>) -> Self {
        Self { bucket, reading: Mutex::default(), copy: Mutex::default() }
    }

    /// Reads what has changed since it was read last, and all of a bucket that was made anew.
    /// Blocks.
    ///
    /// # Errors
    /// [`CoordinationError`]: what was read until then is kept.
    pub fn refresh(&self) -> Result<(), CoordinationError> {
        let _reading = self.reading.lock();
        let made_at = Some(self.bucket.made_at()?);
        if self.copy.lock().made_at != made_at {
            *self.copy.lock() = Copy { made_at, ..Copy::default() };
        }
        loop {
            let read_to = self.copy.lock().read_to;
            let changed = self.bucket.keys_after(NUMBERS, read_to, KEYS_AT_ONCE)?;
            let is_all = changed.len() < KEYS_AT_ONCE;
            let mut copy = self.copy.lock();
            changed.into_iter().for_each(|(key, kept)| copy.take_up(key, &kept));
            if is_all {
                return Ok(());
            }
        }
    }

    /// Has a shard hold the number that the provider calls so, and returns whether it does now: not
    /// if another shard holds it. What the shard itself held under that name is replaced. Blocks.
    ///
    /// # Errors
    /// [`CoordinationError`]: it may hold it or not.
    pub fn claim(
        &self,
        provider_id: &str,
        holder: &NumberHolder,
    ) -> Result<bool, CoordinationError> {
        let key = key_of(provider_id);
        let change = |there: Option<&NumberHolder>| match there {
            Some(it) if it.shard != holder.shard => None,
            _ => Some(Some(holder.clone())),
        };
        self.change(&key, &change).map(|now| now.as_ref() == Some(holder))
    }

    /// Has nobody hold a number, if this shard holds it under this id. Blocks.
    ///
    /// # Errors
    /// [`CoordinationError`]: it may be held still.
    pub fn release(
        &self,
        provider_id: &str,
        shard: u16,
        number: &str,
    ) -> Result<(), CoordinationError> {
        self.release_key(&key_of(provider_id), shard, number)
    }

    fn release_key(&self, key: &str, shard: u16, number: &str) -> Result<(), CoordinationError> {
        let change = |there: Option<&NumberHolder>| {
            let is_own = there.is_some_and(|it| it.shard == shard && it.number == number);
            is_own.then_some(None)
        };
        self.change(key, &change).map(drop)
    }

    /// Has a shard hold these numbers, by their names at the provider, and no others, and say so.
    /// Returns those that another shard holds. The copy must be up to date, and the shard must
    /// claim nothing meanwhile. `may` is asked before each change: an owner that was replaced
    /// changes nothing that the next one has. Blocks.
    ///
    /// # Errors
    /// [`CoordinationError`]: only a part may be done.
    pub fn keep(
        &self,
        shard: u16,
        held: &[(String, NumberHolder)],
        may: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, CoordinationError> {
        let must = || match may() {
            true => Ok(()),
            false => Err(CoordinationError::Silent("another node owns the shard".to_owned())),
        };
        let known: Vec<_> = {
            let copy = self.copy.lock();
            let own = copy.by_key.iter().filter(|(_, it)| it.shard == shard);
            own.map(|(key, it)| (key.clone(), it.clone())).collect()
        };
        let known: HashMap<String, NumberHolder> = known.into_iter().collect();
        let mut others = Vec::new();
        let mut left = known.clone();
        for (name, holder) in held {
            let key = key_of(name);
            left.remove(&key);
            if known.get(&key) == Some(holder) {
                continue;
            }
            must()?;
            if !self.claim(name, holder)? {
                others.push(holder.number.clone());
            }
        }
        for (key, it) in left {
            must()?;
            self.release_key(&key, shard, &it.number)?;
        }
        must()?;
        self.say_kept(shard)?;
        Ok(others)
    }

    fn say_kept(&self, shard: u16) -> Result<(), CoordinationError> {
        if self.copy.lock().kept.contains(&shard) {
            return Ok(());
        }
        let key = kept_key(shard);
        if self.bucket.read(&key)?.is_none() {
            self.bucket.write(&key, Bytes::from_static(b"true"), 0, None)?;
        }
        Ok(())
    }

    /// Whether each of so many shards has said that all of its numbers are claimed. Until then, one
    /// that is not in the list may be connected nevertheless.
    #[must_use]
    pub fn is_complete(&self, shards: u16) -> bool {
        let copy = self.copy.lock();
        (0..shards).all(|shard| copy.kept.contains(&shard))
    }

    /// Who has the number of this id.
    #[must_use]
    pub fn holder(&self, number: &str) -> Option<NumberHolder> {
        let copy = self.copy.lock();
        copy.by_key.get(copy.keys.get(number)?).cloned()
    }

    /// The numbers in other shards that callbacks to this one may be about, by shard.
    #[must_use]
    pub fn beside(&self, holder: &NumberHolder) -> BTreeMap<u16, Vec<String>> {
        beside(holder, self.copy.lock().by_key.values())
    }

    /// Those of them that a callback is about which is about these alone, by their names at the
    /// provider.
    #[must_use]
    pub fn named<'a>(
        &self,
        holder: &NumberHolder,
        names: impl IntoIterator<Item = &'a str>,
    ) -> BTreeMap<u16, Vec<String>> {
        let copy = self.copy.lock();
        beside(holder, names.into_iter().filter_map(|name| copy.by_key.get(&key_of(name))))
    }

    /// Changes who holds a key, as long as it is to be changed. Returns who holds it then.
    fn change(
        &self,
        key: &str,
        change: &dyn Fn(Option<&NumberHolder>) -> Option<Option<NumberHolder>>,
    ) -> Result<Option<NumberHolder>, CoordinationError> {
        let mut last = CoordinationError::Silent("others change the same number".to_owned());
        for _ in 0..TRIES {
            let kept = match self.bucket.read(key) {
                Ok(kept) => kept,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            let revision = kept.as_ref().map_or(0, |kept| kept.revision);
            let there = kept.map(|kept| decode::<Option<NumberHolder>>(key, &kept.value));
            let there = there.transpose()?.flatten();
            let Some(wanted) = change(there.as_ref()).filter(|wanted| *wanted != there) else {
                return Ok(there);
            };
            match self.bucket.write(key, encode(key, &wanted)?, revision, None) {
                Ok(Some(_)) => return Ok(wanted),
                // A sole writer may be refused, and what was not answered may have been written:
                // the next look says what is there.
                Ok(None) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Those in other shards that share an app with this one, by shard.
fn beside<'a>(
    holder: &NumberHolder,
    all: impl Iterator<Item = &'a NumberHolder>,
) -> BTreeMap<u16, Vec<String>> {
    let mut beside: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    let shares = |it: &&NumberHolder| it.apps.iter().any(|app| holder.apps.contains(app));
    for it in all.filter(|it| it.shard != holder.shard).filter(shares) {
        beside.entry(it.shard).or_default().push(it.number.clone());
    }
    beside
}

#[cfg(test)]
mod tests;
