//! The shard of each number of a provider: a key of the bucket per number, by compare-and-swap.
//!
//! It owns these keys and this node's copy of them. It promises that of several shards that claim a
//! number of one name only one gets it. A copy that was refreshed has every claim that had
//! succeeded when the refresh started. A shard notes once that all of its numbers are claimed.
//! Until every shard has, a missing number proves nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::coordination::{Coordination, CoordinationError, KeyValue, decode, encode};

/// The prefix of the keys of numbers.
const NUMBERS: &str = "number.";
/// The prefix of the keys by which shards note that all of their numbers are claimed.
///
/// It extends the prefix of numbers, so that a copy reads both at once.
const KEPT: &str = "number.kept.";
/// The number of attempts of a write that another write preceded, or that nobody answered.
const TRIES: usize = 5;
/// The number of keys read at a time: each is a request, and all of them have one second.
const KEYS_AT_ONCE: usize = 50;

/// The holder of a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberHolder {
    /// The number's id.
    pub number: String,
    /// The shard of its workspace.
    pub shard: u16,
    /// The apps whose callbacks may concern it: more than one while its secret changes.
    pub apps: Vec<String>,
}

/// The numbers of all shards, as far as this node knows.
#[derive(Debug)]
pub struct NumberList {
    bucket: Arc<dyn Coordination>,
    /// Locked while the bucket is read, so that older values do not replace newer ones.
    reading: Mutex<()>,
    /// Never locked while a thread waits for the bucket.
    copy: Mutex<Copy>,
}

#[derive(Debug, Default)]
struct Copy {
    /// The time at which the copied bucket was made; `None` before the first read.
    made_at: Option<u64>,
    /// The revision up to which everything was read.
    read_to: u64,
    by_key: BTreeMap<String, NumberHolder>,
    keys: HashMap<String, String>,
    /// The shards that have noted that all of their numbers are claimed.
    kept: BTreeSet<u16>,
}

/// Returns the key by which a shard notes that all of its numbers are claimed.
fn kept_key(shard: u16) -> String {
    format!("{KEPT}{shard}")
}

impl Copy {
    /// Adds a key to the copy as it was written.
    ///
    /// A value that cannot be read is left as it was known before, so that it does not block the
    /// others.
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

/// Returns the key of the number with this id of its provider. Names of keys have few letters.
fn key_of(provider_id: &str) -> String {
    let digest = Sha256::digest(provider_id.as_bytes());
    let digits: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{NUMBERS}{digits}")
}

impl NumberList {
    /// Creates the list of the numbers in this bucket; none is known yet.
    #[must_use]
    pub(crate) fn new(bucket: Arc<dyn Coordination>) -> Self {
        Self { bucket, reading: Mutex::default(), copy: Mutex::default() }
    }

    /// Reads the changes since the last read, or everything if the bucket was made again. Blocks.
    ///
    /// # Errors
    /// [`CoordinationError`]; the values read until then are kept.
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

    /// Lets a shard hold the number with this id of the provider, and returns whether it does now.
    ///
    /// It does not if another shard holds the number. An earlier entry of the same shard under that
    /// id is replaced. Blocks.
    ///
    /// # Errors
    /// [`CoordinationError`]; the shard may or may not hold the number.
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

    /// Releases a number, if this shard holds it under this id. Blocks.
    ///
    /// # Errors
    /// [`CoordinationError`]; the number may still be held.
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

    /// Lets a shard hold exactly these numbers, by the provider's ids, and notes that it does.
    ///
    /// Returns the ids that another shard holds. The copy must be up to date, and the shard must
    /// claim nothing meanwhile. `may` is called before each change, so that a replaced owner
    /// changes nothing of the next one. Blocks.
    ///
    /// # Errors
    /// [`CoordinationError`]; only a part may be done.
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

    /// Returns whether each of `shards` shards has noted that all of its numbers are claimed.
    ///
    /// Until then, a number that is not in the list may be connected nevertheless.
    #[must_use]
    pub fn is_complete(&self, shards: u16) -> bool {
        let copy = self.copy.lock();
        (0..shards).all(|shard| copy.kept.contains(&shard))
    }

    /// Returns the holder of the number with this id.
    #[must_use]
    pub fn holder(&self, number: &str) -> Option<NumberHolder> {
        let copy = self.copy.lock();
        copy.by_key.get(copy.keys.get(number)?).cloned()
    }

    /// Returns the numbers in other shards that callbacks to this one may concern, by shard.
    #[must_use]
    pub fn beside(&self, holder: &NumberHolder) -> BTreeMap<u16, Vec<String>> {
        beside(holder, self.copy.lock().by_key.values())
    }

    /// Returns those of [`beside`](Self::beside) that have one of these ids at the provider.
    ///
    /// They are for a callback that concerns these numbers alone.
    #[must_use]
    pub fn named<'a>(
        &self,
        holder: &NumberHolder,
        names: impl IntoIterator<Item = &'a str>,
    ) -> BTreeMap<u16, Vec<String>> {
        let copy = self.copy.lock();
        beside(holder, names.into_iter().filter_map(|name| copy.by_key.get(&key_of(name))))
    }

    /// Changes the holder of a key for as long as `change` asks for it. Returns the holder after
    /// that.
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
                // The only writer may still be refused, and an unanswered write may have succeeded:
                // the next read shows it.
                Ok(None) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Returns the numbers in other shards that share an app with this one, by shard.
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
