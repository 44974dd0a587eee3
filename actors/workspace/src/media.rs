//! Files that a workspace sends and receives: their records. The contents are stored beside them.
//!
//! [`Table::Media`] has, under `workspace ‖ 0`:
//! - `m ‖ media id`: a [`MediaState`] as JSON;
//! - `h ‖ hash ‖ media id` for each, to find out whether a content is still named;
//! - `p ‖ media id` for each whose content is still to be downloaded;
//! - `u`: the bytes of all of them.
//!
//! A record names a content only once that is durable. A content is deleted once no workspace names
//! it.

mod api;
mod commands;
mod fetch;
#[cfg(test)]
mod golden;
pub mod upkeep;

use serde::{Deserialize, Serialize};

use postrider_domain::{MediaId, MessageId, NumberId, Timestamp, WorkspaceId};
use postrider_store::blobs::BlobHash;
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table, View};

pub use api::{MediaBytes, MediaUnderWay, may_stage, stage};
pub use commands::AddMediaError;
pub(crate) use commands::{NoteUpload, doubt_upload, expect_file};

use std::ops::ControlFlow;
use std::time::Duration;

/// The time for which an id of the channel is used: the channel keeps uploads for 30 days.
const UPLOAD_KEPT: Duration = Duration::from_secs(29 * 24 * 3600);
/// The time for which an id that replaced a doubted one is not doubted itself.
///
/// In that time the channel refuses the file, not the id.
const RENEWED_KEPT: Duration = Duration::from_secs(24 * 3600);
/// The time for which the channel offers an inbound file.
const OFFERED: Duration = Duration::from_secs(7 * 24 * 3600);

/// A file and its data. This is its record too, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediaState {
    /// The id that names the file in every call.
    pub media_id: MediaId,
    /// Its type.
    pub mime_type: String,
    /// Its length in bytes.
    pub size: u64,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Its name, if it has one.
    pub filename: Option<String>,
    /// The time of the upload.
    pub created_at: Timestamp,
    /// The time of its deletion.
    pub expires_at: Timestamp,
    /// The channel's ids of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) uploads: Vec<ChannelUpload>,
    /// The message of an inbound file; `None` for an upload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The reason why its content is missing for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
    /// The source of its content, while that is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<MediaSource>,
}

/// The source of the content of an inbound file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MediaSource {
    /// The number that received it.
    pub(crate) number: NumberId,
    /// The channel's id of it.
    pub(crate) id: Box<str>,
    /// The SHA-256 that its content must have, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
}

/// An upload to the channel, through one number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChannelUpload {
    pub(crate) number: NumberId,
    pub(crate) id: Box<str>,
    pub(crate) at: Timestamp,
    /// Set if the channel may have deleted it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) doubted: bool,
    /// Set if it replaced a doubted one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) renewed: bool,
}

impl MediaState {
    /// Returns the channel's id of it for a number, if the channel still has it.
    pub(crate) fn channel_id(&self, number: NumberId, now: Timestamp) -> Option<&str> {
        let of_number = self.uploads.iter().find(|upload| upload.number == number)?;
        let is_kept = !of_number.doubted && of_number.at.plus(UPLOAD_KEPT) > now;
        is_kept.then_some(&*of_number.id)
    }

    /// Returns whether its content is still to be downloaded.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        self.source.is_some()
    }

    /// Returns whether its content is stored.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.source.is_none() && self.error.is_none()
    }

    pub(crate) fn hash(&self) -> Option<BlobHash> {
        BlobHash::parse(&self.sha256)
    }
}

/// Returns the prefix of the keys of a workspace's files.
fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, b'm']].concat()
}

pub(crate) fn media_key(workspace: &WorkspaceId, id: MediaId) -> Vec<u8> {
    [prefix(workspace).as_slice(), id.as_bytes()].concat()
}

/// Returns the prefix of the keys of files whose content is to be downloaded.
fn pending_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, b'p']].concat()
}

fn pending_key(workspace: &WorkspaceId, id: MediaId) -> Vec<u8> {
    [pending_prefix(workspace).as_slice(), id.as_bytes()].concat()
}

fn used_key(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, b'u']].concat()
}

/// Returns the prefix of the keys by which a workspace names contents.
fn all_names(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, b'h']].concat()
}

/// Returns the content that the record with this key names, if it is such a record.
#[must_use]
pub fn named_content(key: &[u8]) -> Option<BlobHash> {
    let end = key.iter().position(|byte| *byte == 0)?;
    let hash = key.get(end + 1..)?.strip_prefix(b"h")?.first_chunk();
    hash.map(|hash| BlobHash(*hash))
}

/// Returns the prefix of the keys by which a workspace names this content.
fn names_prefix(workspace: &WorkspaceId, hash: &BlobHash) -> Vec<u8> {
    [all_names(workspace).as_slice(), &hash.0].concat()
}

fn name_key(workspace: &WorkspaceId, hash: &BlobHash, id: MediaId) -> Vec<u8> {
    [names_prefix(workspace, hash).as_slice(), id.as_bytes()].concat()
}

/// Returns the records of a file. The next upkeep deletes its content and corrects the count.
pub(crate) fn records(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: MediaId,
) -> Result<Vec<(Table, Vec<u8>)>, StoreError> {
    let key = media_key(workspace, id);
    let Some(json) = store.get(Table::Media, &key)? else { return Ok(Vec::new()) };
    let state: MediaState = codec::decode(&json)?;
    let name = state.hash().map(|hash| name_key(workspace, &hash, id));
    let pending = state.is_pending().then(|| pending_key(workspace, id));
    let keys = [Some(key), name, pending].into_iter().flatten();
    Ok(keys.map(|key| (Table::Media, key)).collect())
}

/// Returns whether a record of a workspace names a content.
fn names(store: &dyn View, workspace: &WorkspaceId, hash: &BlobHash) -> Result<bool, StoreError> {
    let mut is_named = false;
    let prefix = names_prefix(workspace, hash);
    store.scan(Table::Media, &prefix, None, Direction::Forward, &mut |_, _| {
        is_named = true;
        ControlFlow::Break(())
    })?;
    Ok(is_named)
}
