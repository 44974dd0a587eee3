//! Pure: the home of each record, by which data is split over the shards of a cluster and united.

use hashbrown::HashMap;
use postrider_domain::{KeyId, WorkspaceId};
use postrider_store::copies::CopyError;
use postrider_store::{Change, Table, rebase};

use crate::access::{home_of, key_parts};

/// The prefix of the keys of records that no engine of a cluster reads. They wait in the first
/// shard for the way back: the name of the data.
pub(super) const ASIDE: &[u8] = b"single/";

/// Records of the engine as a whole that each shard needs.
const OF_EVERY: [&[u8]; 3] = [b"master_keys", b"clock_offset", b"durable_moment"];
/// Records of the audit log, which continues in the first shard.
const OF_FIRST: [&[u8]; 3] = [b"audit_head", b"audit_trimmed", rebase::KEY];
/// The prefixes of the keys of a workspace's records.
const OF_WORKSPACE: [&[u8]; 3] = [b"usage/", b"removed/", b"totp_required/"];
/// The prefixes of the keys of people, their sessions and the tokens of administrators. They are in
/// the first shard.
const OF_PEOPLE: [&[u8]; 5] =
    [b"admin_token/", b"person/", b"invite/", b"session/", b"sign_in_link/"];
/// Records that a cluster does not use: all of its nodes share another name.
const OF_SINGLE: [&[u8]; 1] = [b"people/name"];

/// Returns a change in a single node's form, from one that the first shard stored for the way back.
pub(super) fn single_node_form(change: Change) -> Change {
    let Change { table, key, value } = change;
    let key = match key.strip_prefix(ASIDE) {
        Some(own) if table == Table::Meta => own.to_vec(),
        _ => key,
    };
    Change { table, key, value }
}

/// The home of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Home {
    /// The shard of a workspace has it.
    Workspace(WorkspaceId),
    /// The shard of a key's workspace has it.
    Key(KeyId),
    /// Every shard has it.
    Every,
    /// The first shard has it.
    First,
    /// The first shard stores it for the way back.
    Aside,
}

/// Returns the home of a record.
///
/// # Errors
/// [`CopyError::Damaged`] for a record that no version of this program writes.
pub(super) fn home(table: Table, key: &[u8], value: &[u8]) -> Result<Home, CopyError> {
    let unknown = || {
        let (table, key) = (table.name(), key.escape_ascii());
        CopyError::Damaged(format!("the record {key} of the table {table} is not known"))
    };
    let workspace = |id: &[u8]| {
        let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
        id.map(Home::Workspace).ok_or_else(unknown)
    };
    match table {
        Table::Meta => {
            if let Some(of) = OF_WORKSPACE.iter().find(|of| key.starts_with(of)) {
                return workspace(&key[of.len()..]);
            }
            let is = |of: &[&[u8]]| of.contains(&key);
            Ok(match () {
                () if is(&OF_EVERY) => Home::Every,
                () if is(&OF_FIRST) => Home::First,
                () if OF_PEOPLE.iter().any(|of| key.starts_with(of)) => Home::First,
                () if is(&OF_SINGLE) => Home::Aside,
                () => return Err(unknown()),
            })
        }
        Table::Audit => Ok(Home::First),
        // A key that cannot be read works nowhere.
        Table::Keys => {
            Ok(key_parts(value).map_or(Home::First, |parts| Home::Workspace(parts.workspace)))
        }
        Table::Buckets => match key.split_first() {
            Some((b'a', _)) => Ok(Home::Every),
            Some((b'w', id)) => workspace(id),
            Some((b'k' | b'u', rest)) => {
                let id = rest.first_chunk().ok_or_else(unknown)?;
                Ok(Home::Key(KeyId::from_bytes(*id)))
            }
            _ => Err(unknown()),
        },
        _ => {
            let end = key.iter().position(|byte| *byte == 0).ok_or_else(unknown)?;
            workspace(&key[..end])
        }
    }
}

/// The places of a single node's records in a cluster.
pub(super) struct ShardPlaces {
    pub(super) shards: u16,
    /// The workspace of each key.
    pub(super) keys: HashMap<KeyId, WorkspaceId>,
}

/// The shards that have a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShardPlace {
    /// One of them, with this record.
    One(u16, Change),
    /// Each of them.
    Every(Change),
}

impl ShardPlaces {
    /// Returns the shard of a workspace.
    pub(super) fn shard_of(&self, workspace: &WorkspaceId) -> u16 {
        self.shard_at(home_of(workspace))
    }

    /// Returns the shard of workspaces of this home.
    pub(super) fn shard_at(&self, home: u16) -> u16 {
        // Both are powers of two.
        home.checked_shr(16 - self.shards.trailing_zeros()).unwrap_or(0)
    }

    /// Returns the place of a record.
    ///
    /// # Errors
    /// Those of [`home`].
    pub(super) fn of(&self, change: Change) -> Result<ShardPlace, CopyError> {
        let value = change.value.as_deref().unwrap_or_default();
        Ok(match home(change.table, &change.key, value)? {
            Home::Workspace(id) => ShardPlace::One(self.shard_of(&id), change),
            Home::Key(id) => {
                let shard = self.keys.get(&id).map_or(0, |workspace| self.shard_of(workspace));
                ShardPlace::One(shard, change)
            }
            Home::Every => ShardPlace::Every(change),
            Home::First if change.table == Table::Meta && change.key == rebase::KEY => {
                let value = rebase::behind(value)?;
                ShardPlace::One(0, Change::put(Table::Meta, rebase::KEY, value))
            }
            Home::First => ShardPlace::One(0, change),
            Home::Aside => {
                let key = [ASIDE, &change.key].concat();
                ShardPlace::One(0, Change { key, ..change })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use postrider_domain::Timestamp;

    use super::*;

    fn places() -> ShardPlaces {
        let key = KeyId::from_parts(Timestamp::from_millis(1), 7);
        ShardPlaces { shards: 4, keys: [(key, "acme".parse().unwrap())].into() }
    }

    #[test]
    fn every_table_of_workspaces_goes_to_their_shard() {
        let places = places();
        let acme = places.shard_of(&"acme".parse().unwrap());
        for table in Table::ALL.iter().copied().filter(|table| table.is_of_workspaces()) {
            let change = Change::put(table, *b"acme\0x", *b"v");
            let expected = ShardPlace::One(acme, change.clone());
            assert_eq!(places.of(change).unwrap(), expected, "{table:?}");
            let odd = Change::put(table, *b"acme", *b"v");
            assert_eq!(places.of(odd).unwrap_err().code(), "DAMAGED", "{table:?}");
        }
    }

    #[test]
    fn the_other_tables_have_a_place_for_each_record() {
        let places = places();
        let acme = places.shard_of(&"acme".parse().unwrap());
        assert_ne!(acme, 0, "the first shard must not be right by chance");
        let key = KeyId::from_parts(Timestamp::from_millis(1), 7);
        let deleted = KeyId::from_parts(Timestamp::from_millis(2), 7);
        let bucket = |of: &[u8], key: KeyId| [of, key.as_bytes(), &60_u32.to_be_bytes()].concat();
        let one = |table: Table, key: Vec<u8>| match places.of(Change::put(table, key, *b"v")) {
            Ok(ShardPlace::One(shard, change)) => (shard, change.key),
            other => panic!("{other:?}"),
        };
        assert_eq!(one(Table::Buckets, bucket(b"k", key)).0, acme);
        assert_eq!(one(Table::Buckets, bucket(b"u", key)).0, acme);
        assert_eq!(one(Table::Buckets, bucket(b"k", deleted)).0, 0);
        assert_eq!(one(Table::Buckets, b"wacme".to_vec()).0, acme);
        for name in OF_WORKSPACE {
            assert_eq!(one(Table::Meta, [name, b"acme"].concat()).0, acme);
        }
        assert_eq!(one(Table::Audit, vec![0; 8]).0, 0);
        assert_eq!(one(Table::Meta, b"audit_head".to_vec()), (0, b"audit_head".to_vec()));
        assert_eq!(one(Table::Meta, b"person/1".to_vec()), (0, b"person/1".to_vec()));
        let name = one(Table::Meta, b"people/name".to_vec());
        assert_eq!(name, (0, b"single/people/name".to_vec()));
        for (table, key) in OF_EVERY
            .map(|key| (Table::Meta, key))
            .into_iter()
            .chain([(Table::Buckets, &b"a127.0.0.1"[..])])
        {
            let change = Change::put(table, key, *b"v");
            assert_eq!(places.of(change.clone()).unwrap(), ShardPlace::Every(change));
        }
        for (table, key) in [(Table::Meta, "new"), (Table::Buckets, "x"), (Table::Meta, "held")] {
            let refused = places.of(Change::put(table, key, *b"v")).unwrap_err().to_string();
            assert!(refused.contains(key) && refused.contains("is not known"), "{refused}");
        }
    }
}
