//! Admin tokens besides the one of the settings: named, revocable, and stored as SHA-256.

use std::ops::ControlFlow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dashmap::DashMap;
use postrider_store::view::codec;
use serde::{Deserialize, Serialize};

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AdminTokenId, AuditContext, AuditEntry, Timestamp};
use postrider_people::{People, PeopleOptions, TokenWorks};
use postrider_runtime::Secret;
use postrider_runtime::random;
use postrider_runtime::task::detached;
use postrider_store::writer::CommitError;
use postrider_store::{Change, Direction, StoreError, Table, View};

use super::Access;
use super::keys::KeyHash;
use crate::audit::record_of;

/// The prefix of every token, so that a leaked one is recognised.
const TOKEN_PREFIX: &str = "pra_";
/// The number of characters of a token that lists show: its prefix and 30 bits of 256.
const SHOWN_CHARS: usize = TOKEN_PREFIX.len() + 5;
/// The prefix of a token's row in [`Table::Meta`]. Its id follows.
const ROW: &[u8] = b"admin_token/";

/// An admin token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAdminToken {
    /// The name of its holder, for people.
    pub name: String,
    /// The time at which it expires.
    pub expires_at: Option<Timestamp>,
}

/// A new admin token. Its text is shown here and never again.
#[derive(Debug, Clone)]
pub struct CreatedAdminToken {
    /// The token's public data.
    pub info: AdminTokenInfo,
    /// The bearer token.
    pub token: Secret,
}

/// The public data of an admin token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminTokenInfo {
    /// The token's id.
    pub id: AdminTokenId,
    /// The name of its holder, for people.
    pub name: String,
    /// Its first characters.
    pub prefix: String,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time at which it expires.
    pub expires_at: Option<Timestamp>,
}

/// A token in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenRecord {
    pub(super) id: AdminTokenId,
    pub(super) name: String,
    pub(super) hash: KeyHash,
    pub(super) prefix: String,
    pub(super) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
}

impl TokenRecord {
    fn create(new: NewAdminToken, now: Timestamp) -> (Self, Secret) {
        let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(random::bytes::<32>()));
        let record = Self {
            id: random::admin_token_id(now),
            name: new.name,
            hash: KeyHash::of(&token),
            prefix: token[..SHOWN_CHARS].to_owned(),
            created_at: now,
            expires_at: new.expires_at,
        };
        (record, Secret::new(token))
    }

    fn works_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }

    fn info(&self) -> AdminTokenInfo {
        AdminTokenInfo {
            id: self.id,
            name: self.name.clone(),
            prefix: self.prefix.clone(),
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
    }

    /// Returns the entry of its creation in the audit log.
    fn created_entry(&self) -> AuditEntry {
        let entry = AuditEntry::new("token.create").target(self.id);
        let end = self.expires_at.map(|at| at.to_string());
        entry.change("name", &self.name).change("expires_at", end)
    }

    /// Returns the entry of its revocation in the audit log.
    fn revoked_entry(&self) -> AuditEntry {
        AuditEntry::new("token.revoke").target(self.id).change("name", &self.name)
    }

    pub(super) fn put(&self) -> Change {
        Change::put(Table::Meta, row(self.id), codec::encode(self))
    }
}

fn row(id: AdminTokenId) -> Vec<u8> {
    [ROW, id.as_bytes()].concat()
}

impl Access {
    /// Returns the stored admin token of a bearer token. It is `None` if there is none, or it was
    /// revoked or has expired.
    #[must_use]
    pub fn authenticate_admin(&self, token: &str) -> Option<AdminTokenInfo> {
        self.inner.admin_tokens.authenticate(token, self.clock().now())
    }

    /// Loads the people who may sign in. A session that started with an admin token is active while
    /// that token works.
    pub(crate) async fn load_people(&self, options: PeopleOptions) -> Result<People, CommitError> {
        let (shared, access) = (&self.inner.shared, self.clone());
        let works: TokenWorks = Arc::new(move |id| {
            let found = id.parse().ok().and_then(|id| access.inner.admin_tokens.find(id));
            found.is_some_and(|record| record.works_at(access.clock().now()))
        });
        let (store, writer) = (Arc::clone(&shared.store), shared.writer.clone());
        let (clock, keys) = (shared.clock.clone(), shared.master_keys.clone());
        People::load(store, writer, clock, keys, (options, works)).await
    }

    /// Makes an admin token with an audit record; it works when this returns. The response alone
    /// has its text.
    ///
    /// # Errors
    /// [`Unavailable`]: the token cannot be made now.
    pub async fn create_admin_token(
        &self,
        new: NewAdminToken,
        by: Arc<AuditContext>,
    ) -> Result<CreatedAdminToken, Unavailable> {
        let access = self.clone();
        // In a task of its own, so that a caller that goes away does not leave it half done.
        detached(async move { Ok(access.create_token_attached(new, &by).await?) }).await
    }

    async fn create_token_attached(
        &self,
        new: NewAdminToken,
        by: &AuditContext,
    ) -> Result<CreatedAdminToken, CommitError> {
        let now = self.clock().now();
        let (record, token) = TokenRecord::create(new, now);
        let created = record_of(now, by, record.created_entry());
        self.inner.shared.writer.commit(vec![record.put(), created]).await?;
        let info = record.info();
        self.inner.admin_tokens.add(record);
        Ok(CreatedAdminToken { info, token })
    }

    /// Returns the stored admin tokens, oldest first.
    #[must_use]
    pub fn admin_tokens(&self) -> Vec<AdminTokenInfo> {
        self.inner.admin_tokens.list()
    }

    /// Revokes an admin token with an audit record; it no longer works when this returns. Returns
    /// `false` if there is none of this id.
    ///
    /// # Errors
    /// [`Unavailable`]: the token cannot be revoked now.
    pub async fn revoke_admin_token(
        &self,
        id: AdminTokenId,
        by: Arc<AuditContext>,
    ) -> Result<bool, Unavailable> {
        let access = self.clone();
        detached(async move { Ok(access.revoke_token_attached(id, &by).await?) }).await
    }

    async fn revoke_token_attached(
        &self,
        id: AdminTokenId,
        by: &AuditContext,
    ) -> Result<bool, CommitError> {
        let Some(record) = self.inner.admin_tokens.find(id) else { return Ok(false) };
        let revoked = record_of(self.clock().now(), by, record.revoked_entry());
        let changes = vec![Change::delete(Table::Meta, row(id)), revoked];
        self.inner.shared.writer.commit(changes).await?;
        self.inner.admin_tokens.by_hash.remove(&record.hash);
        Ok(true)
    }
}

/// The stored admin tokens, in memory by their hash.
#[derive(Debug, Default)]
pub(super) struct AdminTokens {
    by_hash: DashMap<KeyHash, Arc<TokenRecord>>,
}

impl AdminTokens {
    /// Reads the tokens. A token that cannot be read is logged and does not work.
    pub(super) fn load(store: &dyn View) -> Result<Self, StoreError> {
        let tokens = Self::default();
        store.scan(Table::Meta, ROW, None, Direction::Forward, &mut |name, value| {
            match codec::decode::<TokenRecord>(value) {
                Ok(record) => drop(tokens.by_hash.insert(record.hash, Arc::new(record))),
                Err(error) => {
                    tracing::error!(%error, ?name, "an admin token cannot be read and does not work");
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(tokens)
    }

    /// Returns the token of this text. It is `None` if there is none, or it was revoked or has
    /// expired.
    pub(super) fn authenticate(&self, token: &str, now: Timestamp) -> Option<AdminTokenInfo> {
        let hash = KeyHash::of(token);
        let record = self.by_hash.get(&hash)?;
        let works = record.hash.matches(&hash) && record.works_at(now);
        works.then(|| record.info())
    }

    fn add(&self, record: TokenRecord) {
        self.by_hash.insert(record.hash, Arc::new(record));
    }

    fn find(&self, id: AdminTokenId) -> Option<Arc<TokenRecord>> {
        self.by_hash.iter().find(|record| record.id == id).map(|record| Arc::clone(&record))
    }

    /// Returns all tokens, oldest first.
    pub(super) fn list(&self) -> Vec<AdminTokenInfo> {
        let mut tokens: Vec<_> = self.by_hash.iter().map(|record| record.info()).collect();
        tokens.sort_by_key(|token| token.id);
        tokens
    }
}
