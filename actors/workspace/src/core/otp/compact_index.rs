//! Pure: an index from a key to a small number, which does not hold the keys.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};

/// Parts that grow on their own, so that growing stalls for a sixteenth of the time.
const SHARDS: usize = 16;

/// Maps keys to `u32`s. The caller knows the key of every number that is in the index; that is
/// why an entry costs 5 bytes and some slack.
#[derive(Debug, Default)]
pub(crate) struct CompactIndex {
    shards: [HashTable<u32>; SHARDS],
    hasher: DefaultHashBuilder,
}

impl CompactIndex {
    /// Returns the number of `key`, where `key_of` returns the key of a number.
    pub(crate) fn get<K: Hash + Eq>(&self, key: &K, key_of: impl Fn(u32) -> K) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.shards[shard(hash)].find(hash, |number| key_of(*number) == *key).copied()
    }

    /// Sets the number of `key` and returns the one it had.
    pub(crate) fn set<K: Hash + Eq>(
        &mut self,
        key: &K,
        number: u32,
        key_of: impl Fn(u32) -> K,
    ) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        let shard = &mut self.shards[shard(hash)];
        if let Some(old) = shard.find_mut(hash, |number| key_of(*number) == *key) {
            return Some(std::mem::replace(old, number));
        }
        shard.insert_unique(hash, number, |number| self.hasher.hash_one(key_of(*number)));
        None
    }

    /// Sets the number of a key that has none.
    pub(crate) fn insert_new<K: Hash + Eq>(
        &mut self,
        key: &K,
        number: u32,
        key_of: impl Fn(u32) -> K,
    ) {
        let hash = self.hasher.hash_one(key);
        let shard = &mut self.shards[shard(hash)];
        shard.insert_unique(hash, number, |number| self.hasher.hash_one(key_of(*number)));
    }

    /// Removes `key` if its number is `number`.
    pub(crate) fn remove<K: Hash + Eq>(&mut self, key: &K, number: u32) {
        let hash = self.hasher.hash_one(key);
        if let Ok(entry) = self.shards[shard(hash)].find_entry(hash, |found| *found == number) {
            entry.remove();
        }
    }
}

/// The top bits choose the part: a part's own table uses the others.
const fn shard(hash: u64) -> usize {
    (hash >> 52) as usize % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_it_was_given() {
        let keys: Vec<u64> = (0..10_000).map(|number| number * 7919).collect();
        let key_of = |number: u32| keys[number as usize];
        let mut index = CompactIndex::default();
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(index.set(key, number as u32, key_of), None);
        }
        assert_eq!(index.get(&7919, key_of), Some(1));
        assert_eq!(index.get(&1, key_of), None);
        assert_eq!(index.set(&7919, 1, key_of), Some(1));
        index.remove(&7919, 2);
        assert_eq!(index.get(&7919, key_of), Some(1), "only that number is removed");
        index.remove(&7919, 1);
        assert_eq!(index.get(&7919, key_of), None);
    }
}
