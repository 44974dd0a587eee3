//! The contents of files, in an object store of NATS JetStream beside that of the checkpoints.
//!
//! A name ends with the epoch of the owner that stored it and with a text unique to the attempt. So
//! no two attempts ever write one object. An unanswered request may be carried out late. It then
//! changes only the remains of a failed attempt, or a removed object, and nothing that was
//! acknowledged since.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use async_nats::jetstream::context::UpdateStreamErrorKind;
use async_nats::jetstream::object_store::InfoErrorKind;
use async_nats::jetstream::stream::Config;

use super::{ANSWER_WITHIN, NatsArchives, config, failed, subjects};
use crate::checkpoints::{CheckpointsError, Digest};
use crate::clock::{BootClock, SteadyClock as _};
use crate::name::NodeName;
use crate::nats::{Nats, NatsError};

/// The maximum time of reading a content, in milliseconds.
const READ_WITHIN_MS: u64 = 60_000;

/// The required settings of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilesSpec {
    /// The number of servers that store it.
    pub(crate) replicas: usize,
    /// The maximum number of its bytes, all of which NATS reserves; more are refused.
    pub(crate) bytes_max: i64,
}

/// The contents of files of a cluster. All calls block.
#[derive(Debug)]
pub struct NatsFiles(NatsArchives);

/// The files of one shard, for an owner of this epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesOf {
    /// The shard.
    pub shard: u16,
    /// The epoch of its owner.
    pub epoch: u64,
}

impl FilesOf {
    /// Returns the prefix of the names of a content, by its SHA-256 in hexadecimal digits.
    fn content(self, hash: &str) -> String {
        format!("{}.{}.{hash}", self.shard, hash.get(..2).unwrap_or_default())
    }

    /// Returns the name of a content that this owner stores in this attempt.
    fn name(self, hash: &str, attempt: u128) -> String {
        format!("{}.{}.{attempt:032x}", self.content(hash), self.epoch)
    }
}

/// Returns the hash and the epoch in a name.
fn parts(name: &str) -> Option<(&str, u64)> {
    let mut parts = name.split('.').skip(2);
    Some((parts.next()?, parts.next()?.parse().ok()?))
}

fn bucket(cluster: &NodeName) -> String {
    format!("PR_{cluster}_files")
}

fn stream_config(cluster: &NodeName, spec: FilesSpec) -> Config {
    Config { max_bytes: spec.bytes_max, ..config(&bucket(cluster), spec.replicas) }
}

impl NatsFiles {
    /// Makes the object store.
    ///
    /// # Errors
    /// The errors of making a stream.
    pub(crate) fn create(
        nats: &Nats,
        cluster: &NodeName,
        spec: FilesSpec,
    ) -> Result<(), NatsError> {
        nats.create_stream(stream_config(cluster, spec))
    }

    /// Returns the settings of the stream; [`NatsError::Missing`] when there is none.
    pub(crate) fn found(nats: &Nats, cluster: &NodeName) -> Result<FilesSpec, NatsError> {
        let name = format!("OBJ_{}", bucket(cluster));
        let found = nats.stream_info(&nats.open_stream(&name)?, &name)?.config;
        Ok(FilesSpec { replicas: found.num_replicas, bytes_max: found.max_bytes })
    }

    /// Sets the maximum number of bytes of the stream.
    pub(crate) fn update(
        nats: &Nats,
        cluster: &NodeName,
        spec: FilesSpec,
    ) -> Result<(), NatsError> {
        let (context, config) = (nats.context(), stream_config(cluster, spec));
        let stream = config.name.clone();
        let updated = nats.wait(async move { context.update_stream(config).await });
        let silent = || NatsError::Unreachable("no answer in time".to_owned());
        updated.ok_or_else(silent)?.map(drop).map_err(|error| match error.kind() {
            UpdateStreamErrorKind::JetStream(what) => {
                NatsError::Stream { stream, what: what.to_string() }
            }
            _ => NatsError::Unreachable(error.to_string()),
        })
    }

    /// Opens the object store over a connection of its own.
    pub(crate) fn open(nats: Arc<Nats>, cluster: &NodeName) -> Result<Self, NatsError> {
        NatsArchives::open_bucket(nats, bucket(cluster)).map(Self)
    }

    /// Stores the content of a file under its hash, and returns its name.
    ///
    /// No other attempt may have the same `attempt`. When this returns, every server that stores
    /// the content has synced it.
    ///
    /// # Errors
    /// [`CheckpointsError`]: the content is not stored.
    pub fn put(
        &self,
        of: FilesOf,
        hash: &str,
        attempt: u128,
        file: &Path,
    ) -> Result<String, CheckpointsError> {
        let name = of.name(hash, attempt);
        match self.0.store(&name, file, &|| false) {
            Ok(()) => Ok(name),
            Err(error) => {
                // The remains of the attempt take room. If they stay, they are removed with the
                // content.
                self.0.purge(&name).ok();
                Err(error)
            }
        }
    }

    /// Returns the length of the content under a name; `None` unless all of it is stored.
    ///
    /// # Errors
    /// [`CheckpointsError`]: the length is not known.
    pub fn length(&self, name: &str) -> Result<Option<u64>, CheckpointsError> {
        let chunks = self.named(name)?.get(name).copied();
        let Some((length, of)) = self.about(name)? else { return Ok(None) };
        Ok((chunks == Some(of)).then_some(length))
    }

    /// Returns the name and the length of the newest whole copy of a content.
    ///
    /// Returns `None` if there is none.
    ///
    /// # Errors
    /// [`CheckpointsError`]: the content is damaged, or it is not known whether it exists.
    pub fn find(&self, of: FilesOf, hash: &str) -> Result<Option<(String, u64)>, CheckpointsError> {
        let mut names: Vec<_> = self.names(of, hash)?.into_iter().collect();
        names.sort_by_key(|(name, _)| Reverse(parts(name).map(|(_, epoch)| epoch)));
        let mut damaged = None;
        for (name, there) in names {
            match self.about(&name)? {
                Some((length, chunks)) if chunks == there => return Ok(Some((name, length))),
                Some(_) => damaged = Some(name),
                None => {}
            }
        }
        let what = "not there as a whole".to_owned();
        damaged.map_or(Ok(None), |name| Err(CheckpointsError::Damaged { name, what }))
    }

    /// Writes a content, by its name, to a file, which is not synced.
    ///
    /// It is given up after a minute.
    ///
    /// # Errors
    /// [`CheckpointsError`]: the content does not arrive, or is damaged.
    pub fn get(&self, name: &str, to: &Path) -> Result<Digest, CheckpointsError> {
        let until = BootClock.now_ms() + READ_WITHIN_MS;
        self.0.read(name, Some(to), false, &|| BootClock.now_ms() > until)
    }

    /// Removes a content that this owner or an earlier one has stored. `may` is called last.
    ///
    /// # Errors
    /// [`CheckpointsError`]: a part of it may remain.
    pub fn remove(
        &self,
        of: FilesOf,
        hash: &str,
        may: &dyn Fn() -> bool,
    ) -> Result<(), CheckpointsError> {
        let names = self.names(of, hash)?;
        let is_later = |name: &String| parts(name).is_some_and(|(_, epoch)| epoch > of.epoch);
        let later = names.keys().any(is_later);
        for name in names.into_keys() {
            if later || !may() {
                return Err(failed("another node owns the shard"));
            }
            self.0.purge(&name)?;
        }
        Ok(())
    }

    /// Returns the hashes that begin with this byte of the contents of a shard.
    ///
    /// They include contents that were not stored completely.
    ///
    /// # Errors
    /// [`CheckpointsError`]: they cannot be listed.
    pub fn list(&self, of: FilesOf, first: u8) -> Result<BTreeSet<String>, CheckpointsError> {
        let names = self.named(&format!("{}.{first:02x}.>", of.shard))?;
        let hash = |name: &String| parts(name).map(|(hash, _)| hash.to_owned());
        Ok(names.keys().filter_map(hash).collect())
    }

    /// Returns the number of chunks of a content, in all attempts.
    #[cfg(test)]
    pub(crate) fn list_chunks(&self, of: FilesOf, hash: &str) -> Result<u64, CheckpointsError> {
        Ok(self.names(of, hash)?.values().sum())
    }

    /// Returns the names of a content, with their numbers of chunks.
    fn names(&self, of: FilesOf, hash: &str) -> Result<HashMap<String, u64>, CheckpointsError> {
        self.named(&format!("{}.>", of.content(hash)))
    }

    /// Returns the names that match a filter, with their numbers of chunks.
    fn named(&self, filter: &str) -> Result<HashMap<String, u64>, CheckpointsError> {
        let prefix = format!("$O.{}.C.", self.0.bucket);
        let (context, bucket) = (self.0.nats.context(), self.0.bucket.clone());
        let filter = format!("{prefix}{filter}");
        let found =
            self.0.run(&|| false, async move { subjects(&context, &bucket, &filter).await })?;
        let name = |(subject, chunks): (String, u64)| {
            Some((subject.strip_prefix(&prefix)?.to_owned(), chunks))
        };
        Ok(found.into_iter().filter_map(name).collect())
    }

    /// Returns the length and the number of chunks of a content that was stored completely.
    fn about(&self, name: &str) -> Result<Option<(u64, u64)>, CheckpointsError> {
        let (store, name) = (self.0.store.clone(), name.to_owned());
        self.0.run(&|| false, async move {
            let asked = tokio::time::timeout(ANSWER_WITHIN, store.info(name)).await;
            match asked.map_err(failed)? {
                Ok(about) => {
                    Ok((!about.deleted).then_some((about.size as u64, about.chunks as u64)))
                }
                Err(error) if error.kind() == InfoErrorKind::NotFound => Ok(None),
                Err(error) => Err(failed(error)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_hash_and_who_stored_it() {
        let hash = "a7".repeat(32);
        let name = FilesOf { shard: 12, epoch: 34 }.name(&hash, 0xf);
        assert_eq!(name, format!("12.a7.{hash}.34.{:0>32}", "f"));
        assert_eq!(parts(&name), Some((hash.as_str(), 34)));
        // The form of a name before attempts had a text.
        assert_eq!(parts(&format!("12.a7.{hash}.34")), Some((hash.as_str(), 34)));
        assert_eq!((parts("a7.x"), parts("")), (None, None));
    }
}
