//! The limit on the creation of contacts: a token bucket for each workspace.

use std::time::Duration;

use dashmap::DashMap;

use postrider_domain::{Timestamp, WorkspaceId};
use postrider_runtime::clock::Clock;

use postrider_runtime::shared_bucket::{SharedBucket, nanos};

const MINUTE: Duration = Duration::from_secs(60);

const OF_WORKSPACE: u8 = b'w';

/// A bucket for each workspace that has created contacts recently.
#[derive(Debug, Default)]
pub struct Creations(DashMap<WorkspaceId, SharedBucket>);

impl Creations {
    /// Restores a saved bucket, if its name is one of these. Its size is set when it is used.
    pub fn restore(&self, name: &[u8], full_at_ns: u64, clock: &Clock) {
        if let Some((&OF_WORKSPACE, id)) = name.split_first()
            && let Some(id) = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok())
            && let Some(bucket) = SharedBucket::new(1, MINUTE, Some(full_at_ns), clock)
        {
            self.0.insert(id, bucket);
        }
    }

    /// Takes one token from a workspace's bucket of `limit` a minute; 0 is no limit.
    ///
    /// # Errors
    /// The time until the next token.
    pub fn take(&self, workspace: &WorkspaceId, limit: u32, clock: &Clock) -> Result<(), Duration> {
        let full_at_ns = match self.0.get(workspace) {
            Some(bucket) if bucket.limit() == limit => return bucket.take(clock),
            Some(bucket) => Some(bucket.full_at_ns()),
            None => None,
        };
        // Only the workspace's actor takes tokens, so the bucket is not created concurrently.
        let Some(bucket) = SharedBucket::new(limit, MINUTE, full_at_ns, clock) else {
            return Ok(());
        };
        let taken = bucket.take(clock);
        self.0.insert(workspace.clone(), bucket);
        taken
    }

    /// Returns the number of tokens that a workspace has taken and its bucket has not regained.
    pub fn taken(&self, workspace: &WorkspaceId, now: Timestamp) -> u32 {
        let bucket = self.0.get(workspace);
        bucket.map_or(0, |bucket| bucket.limit().saturating_sub(bucket.state(now).remaining))
    }

    /// Removes the full buckets and lists the others.
    pub fn collect(&self, all: &mut Vec<(Vec<u8>, u64)>, now: Timestamp) {
        let now_ns = nanos(now);
        self.0.retain(|id, bucket| {
            let full_at_ns = bucket.full_at_ns();
            all.push(([&[OF_WORKSPACE], id.as_str().as_bytes()].concat(), full_at_ns));
            full_at_ns > now_ns
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_outlives_a_change_of_its_size_and_is_forgotten_when_full() {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let creations = Creations::default();
        let [acme, other] = ["acme", "other"].map(|id| id.parse::<WorkspaceId>().unwrap());
        let take = |limit| creations.take(&acme, limit, &clock);
        assert_eq!(creations.taken(&acme, clock.now()), 0);
        assert_eq!(take(2), Ok(()));
        assert_eq!(take(2), Ok(()));
        assert_eq!(creations.taken(&acme, clock.now()), 2);
        assert_eq!(take(2), Err(Duration::from_secs(30)));
        assert_eq!(take(0), Ok(()), "no limit");
        assert_eq!(creations.take(&other, 2, &clock), Ok(()));
        assert_eq!(take(60), Err(Duration::from_secs(1)), "a larger one is not full at once");
        clock.advance(Duration::from_secs(60));
        assert_eq!(take(60), Ok(()));
        assert_eq!(creations.taken(&acme, clock.now()), 1);
        clock.advance(Duration::from_secs(60));
        assert_eq!(creations.taken(&acme, clock.now()), 0);
        let mut all = Vec::new();
        creations.collect(&mut all, clock.now());
        assert_eq!((all.len(), creations.0.len()), (2, 0));
    }
}
