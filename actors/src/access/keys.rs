//! API keys as they are stored.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ipnet::IpNet;
use postrider_domain::{
    AuditActor, AuditEntry, KeyId, LimitsOverride, Scope, Scopes, Timestamp, WorkspaceId,
};
use postrider_runtime::random;
use postrider_store::view::codec;
use postrider_store::{Change, Direction, StoreError, Table, View};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub(super) use postrider_runtime::Secret;

/// The prefix of every key, so that a leaked one is recognised.
const KEY_PREFIX: &str = "pr_";
/// The number of random bytes of a key.
const RANDOM_BYTES: usize = 32;
/// Characters of a key that lists show: its prefix and 30 bits of 256.
const SHOWN_CHARS: usize = KEY_PREFIX.len() + 5;

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The name for people.
    pub name: String,
    /// The key's permissions.
    pub scopes: Scopes,
    /// The key's own limits, if it has any.
    pub limits: LimitsOverride,
    /// The time at which it expires.
    pub expires_at: Option<Timestamp>,
    /// The subnets from which it may be used. Empty: any.
    pub allowed_subnets: Vec<IpNet>,
}

impl NewKey {
    /// Returns a key that never expires, may be used from anywhere, and has no limits of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, scopes: Scopes) -> Self {
        Self {
            name: name.into(),
            scopes,
            limits: LimitsOverride::default(),
            expires_at: None,
            allowed_subnets: Vec::new(),
        }
    }
}

/// The changes to a key; a field that is `None` keeps its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// The name for people.
    pub name: Option<String>,
    /// All limits of its own.
    pub limits: Option<LimitsOverride>,
    /// The time at which it expires; `Some(None)` for never.
    pub expires_at: Option<Option<Timestamp>>,
}

/// A new key. Its text is shown here and never again.
#[derive(Debug, Clone)]
pub struct CreatedKey {
    /// The key's public data.
    pub info: KeyInfo,
    /// The bearer token.
    pub key: Secret,
}

/// The public data of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// The key's id.
    pub id: KeyId,
    /// The name for people.
    pub name: String,
    /// The key's permissions.
    pub scopes: Scopes,
    /// The key's own limits, if it has any.
    pub limits: LimitsOverride,
    /// Its first characters.
    pub prefix: String,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The author of the key.
    pub created_by: AuditActor,
    /// The time at which it expires.
    pub expires_at: Option<Timestamp>,
    /// The time of the last request with it, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// The subnets from which it may be used. Empty: any.
    pub allowed_subnets: Vec<IpNet>,
}

/// The first bytes of a key's hash. By them a cluster finds the home of a key that does not carry
/// it. They reveal nothing of the key.
pub type KeyMark = [u8; 8];

/// Returns the first two bytes of the SHA-256 of a workspace's id, which select its shard.
#[must_use]
pub fn home_of(workspace: &WorkspaceId) -> u16 {
    let digest = Sha256::digest(workspace.as_str().as_bytes());
    u16::from_be_bytes([digest[0], digest[1]])
}

/// Returns the home of the workspace of a key that carries it.
#[must_use]
pub fn home_in_key(key: &str) -> Option<u16> {
    let bytes = URL_SAFE_NO_PAD.decode(key.strip_prefix(KEY_PREFIX)?).ok()?;
    let bytes: [u8; RANDOM_BYTES + 2] = bytes.try_into().ok()?;
    Some(u16::from_be_bytes([bytes[RANDOM_BYTES], bytes[RANDOM_BYTES + 1]]))
}

/// Returns the mark of a key that does not carry its home, such as a single node's key.
#[must_use]
pub fn key_mark(key: &str) -> Option<KeyMark> {
    let bytes = URL_SAFE_NO_PAD.decode(key.strip_prefix(KEY_PREFIX)?).ok()?;
    (bytes.len() == RANDOM_BYTES).then(|| KeyHash::of(key).mark())
}

/// The SHA-256 of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct KeyHash([u8; 32]);

impl KeyHash {
    pub(super) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    fn mark(&self) -> KeyMark {
        std::array::from_fn(|at| self.0[at])
    }

    /// Returns whether both are of the same key, in constant time.
    pub(super) fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// A key in the store, under its id in [`Table::Keys`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyRecord {
    pub(super) id: KeyId,
    pub(super) workspace: WorkspaceId,
    pub(super) name: String,
    pub(super) scopes: Scopes,
    pub(super) limits: LimitsOverride,
    pub(super) hash: KeyHash,
    pub(super) prefix: String,
    pub(super) created_at: Timestamp,
    pub(super) created_by: AuditActor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "subnet_texts")]
    pub(super) allowed_subnets: Vec<IpNet>,
}

/// Subnets in a record, as texts such as `10.1.0.0/16`.
mod subnet_texts {
    use ipnet::IpNet;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        subnets: &[IpNet],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(subnets.iter().map(IpNet::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<IpNet>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

impl KeyRecord {
    /// Creates a key and its text.
    pub(super) fn create(
        workspace: &WorkspaceId,
        new: NewKey,
        now: Timestamp,
        by: &AuditActor,
        carries_home: bool,
    ) -> (Self, Secret) {
        let mut bytes = random::bytes::<RANDOM_BYTES>().to_vec();
        if carries_home {
            // At the end, so that the visible part of the key stays random.
            bytes.extend(home_of(workspace).to_be_bytes());
        }
        let token = format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        let NewKey { name, scopes, limits, expires_at, allowed_subnets } = new;
        let record = Self {
            id: random::key_id(now),
            workspace: workspace.clone(),
            name,
            scopes,
            limits,
            hash: KeyHash::of(&token),
            prefix: token[..SHOWN_CHARS].to_owned(),
            created_at: now,
            created_by: by.clone(),
            expires_at,
            allowed_subnets,
        };
        (record, Secret::new(token))
    }

    pub(super) fn info(&self, last_used_at: Option<Timestamp>) -> KeyInfo {
        KeyInfo {
            id: self.id,
            name: self.name.clone(),
            scopes: self.scopes,
            limits: self.limits,
            prefix: self.prefix.clone(),
            created_at: self.created_at,
            created_by: self.created_by.clone(),
            expires_at: self.expires_at,
            last_used_at,
            allowed_subnets: self.allowed_subnets.clone(),
        }
    }

    /// Returns whether the key has expired.
    pub(super) fn has_expired(&self, now: impl FnOnce() -> Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now())
    }

    /// Returns whether the key may be used from this address.
    pub(super) fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let subnets = &self.allowed_subnets;
        subnets.is_empty() || subnets.iter().any(|subnet| subnet.contains(&address))
    }

    /// Returns the entry of its creation in the audit log.
    pub(super) fn created_entry(&self) -> AuditEntry {
        let scopes: Vec<_> = self.scopes.iter().map(Scope::as_str).collect();
        let entry = AuditEntry::new("key.create").target(self.id).workspace(&self.workspace);
        let entry = entry.change("name", &self.name).change("scopes", scopes);
        let subnets: Vec<_> = self.allowed_subnets.iter().map(IpNet::to_string).collect();
        let end = self.expires_at.map(|at| at.to_string());
        let entry = entry.change("limits", self.limits).change("expires_at", end);
        entry.change("allowed_subnets", subnets)
    }

    /// Returns the key after a change, and the entry of the change in the audit log.
    pub(super) fn changed(&self, change: KeyChange) -> (Self, AuditEntry) {
        let mut after = self.clone();
        let mut entry = AuditEntry::new("key.update").target(self.id).workspace(&self.workspace);
        if let Some(name) = change.name {
            entry = entry.change("name", &name);
            entry.replaces("name", &self.name);
            after.name = name;
        }
        if let Some(limits) = change.limits {
            entry = entry.change("limits", limits);
            entry.replaces("limits", self.limits);
            after.limits = limits;
        }
        if let Some(end) = change.expires_at {
            let text = |end: Option<Timestamp>| end.map(|at| at.to_string());
            entry = entry.change("expires_at", text(end));
            entry.replaces("expires_at", text(self.expires_at));
            after.expires_at = end;
        }
        (after, entry)
    }

    /// Returns the entry of its revocation in the audit log.
    pub(super) fn revoked_entry(&self) -> AuditEntry {
        let entry = AuditEntry::new("key.revoke").target(self.id).workspace(&self.workspace);
        entry.change("name", &self.name)
    }

    pub(super) fn put(&self) -> Change {
        Change::put(Table::Keys, *self.id.as_bytes(), codec::encode(self))
    }

    pub(super) fn delete(&self) -> Change {
        Change::delete(Table::Keys, *self.id.as_bytes())
    }
}

/// Reads every key in the store. A key that cannot be read is logged and does not work.
pub(super) fn load_all(store: &dyn View) -> Result<Vec<KeyRecord>, StoreError> {
    let mut keys = Vec::new();
    store.scan(Table::Keys, &[], None, Direction::Forward, &mut |id, value| {
        match codec::decode(value) {
            Ok(key) => keys.push(key),
            Err(error) => tracing::error!(%error, ?id, "a key cannot be read and does not work"),
        }
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(keys)
}

/// The fields of a key's record that copies need.
pub(crate) struct KeyParts {
    pub(crate) id: KeyId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) mark: KeyMark,
}

/// Returns the parts of a record in the store, or `None` if it cannot be read.
pub(crate) fn key_parts(value: &[u8]) -> Option<KeyParts> {
    let KeyRecord { id, workspace, hash, .. } = codec::decode(value).ok()?;
    Some(KeyParts { id, workspace, mark: hash.mark() })
}
