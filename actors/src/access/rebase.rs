//! Rebases the clock of data: of saved buckets and last uses.

use std::ops::ControlFlow;

use postrider_domain::Timestamp;
use postrider_runtime::shared_bucket::nanos;
use postrider_store::{Change, Direction, StoreError, Table, View};

use super::{last_use, saved_buckets};

/// Returns the changes after which no bucket is full later than `to`, and no key was used later. A
/// bucket that would stay empty for as long as the clock was ahead is full.
pub(crate) fn rebased(store: &dyn View, to: Timestamp) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    store.scan(Table::Buckets, &[], None, Direction::Forward, &mut |name, value| {
        if let Ok(full_at_ns) = value.try_into()
            && u64::from_be_bytes(full_at_ns) > nanos(to)
        {
            changes.push(saved_buckets::put(name, nanos(to)));
        }
        ControlFlow::Continue(())
    })?;
    let uses = last_use::load_all(store)?;
    let later = uses.into_iter().filter(|(_, at)| *at > to);
    changes.extend(later.map(|(key, _)| last_use::put(key, to)));
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use postrider_domain::KeyId;
    use postrider_store::{Group, MemoryStore, Store as _};

    use super::*;

    #[test]
    fn buckets_are_full_and_uses_are_not_later() {
        let at = Timestamp::from_millis;
        let key = |number| KeyId::from_parts(at(1), number);
        let store = MemoryStore::new();
        let (early, late) =
            (saved_buckets::key_name(key(1), 60), saved_buckets::key_name(key(2), 60));
        let saved = [
            saved_buckets::put(&early, nanos(at(1_000))),
            saved_buckets::put(&late, nanos(at(9_000))),
            last_use::put(key(1), at(1_000)),
            last_use::put(key(2), at(9_000)),
        ];
        store.commit(Group::new(None, &saved)).unwrap();
        let to = at(2_000);
        let expected = [saved_buckets::put(&late, nanos(to)), last_use::put(key(2), to)];
        assert_eq!(rebased(&store, to).unwrap(), expected);
        store.commit(Group::new(None, &expected)).unwrap();
        assert_eq!(rebased(&store, to).unwrap(), []);
    }
}
