//! The moment of the last commit, which is stored with each commit.
//!
//! The store reads no clock: the caller that starts the writer supplies one. All data of a group
//! was created before its commit, so no moment in the data is later than the stored one.

use postrider_domain::Timestamp;

use crate::{Change, StoreError, Table, View};

/// Returns the present moment.
pub type Moments = Box<dyn Fn() -> Timestamp + Send>;

/// The key of the moment in [`Table::Meta`].
pub const KEY: &[u8] = b"durable_moment";
/// The first byte of the value. The moment in milliseconds follows, as u64, big endian.
const VERSION: u8 = 1;

pub(super) fn encode(at: Timestamp) -> [u8; 9] {
    let [a, b, c, d, e, f, g, h] = at.as_millis().to_be_bytes();
    [VERSION, a, b, c, d, e, f, g, h]
}

/// Returns the change that stores the moment of a commit.
pub(crate) fn last_moment_change(at: Timestamp) -> Change {
    Change::put(Table::Meta, KEY, encode(at))
}

/// The moment of the last commit; `None` where nothing was committed with one.
///
/// # Errors
/// Those of [`View::get`]; [`StoreError::Damaged`] when it is not a moment of this version.
pub fn last_moment(store: &dyn View) -> Result<Option<Timestamp>, StoreError> {
    let Some(bytes) = store.get(Table::Meta, KEY)? else { return Ok(None) };
    let millis = match bytes.split_first() {
        Some((&VERSION, millis)) => millis.try_into().ok().map(u64::from_be_bytes),
        _ => None,
    };
    let damaged = || StoreError::Damaged("the moment of the last commit".into());
    Ok(Some(Timestamp::from_millis(millis.ok_or_else(damaged)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, MemoryStore, Store as _};

    #[test]
    fn it_is_stored_as_ever() {
        let at = Timestamp::from_millis(1_700_000_000_123);
        assert_eq!(encode(at), [1, 0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0x7b]);
        let store = MemoryStore::new();
        assert_eq!(last_moment(&store), Ok(None));
        store.commit(Group::new(None, &[Change::put(Table::Meta, KEY, encode(at))])).unwrap();
        assert_eq!(last_moment(&store), Ok(Some(at)));
        store.commit(Group::new(None, &[Change::put(Table::Meta, KEY, [2; 9])])).unwrap();
        assert!(last_moment(&store).is_err());
    }
}
