//! What is kept of a broadcast, and under which keys.
//!
//! [`Table::Broadcasts`] holds the record under `workspace ‖ 0 ‖ b ‖ id`, `workspace ‖ 0 ‖ d ‖ id`
//! while the audience is being written, and the counts under `workspace ‖ 0 ‖ c ‖ id` once it is
//! settled. [`Table::BroadcastAudience`] holds the recipients under
//! `workspace ‖ 0 ‖ id ‖ segment ‖ part`, [`Table::BroadcastPhones`] where each phone is under
//! `workspace ‖ 0 ‖ id ‖ first phone`, [`Table::BroadcastOutcomes`] what became of them, and
//! [`Table::BroadcastReports`] what was reported later, under `workspace ‖ 0 ‖ id ‖ window`.

use postrider_store::view::codec;
use postrider_store::{StoreError, Table, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use postrider_channel::TemplateName;
use postrider_domain::template::TemplateCategory;
use postrider_domain::{BroadcastId, MessageId, NumberId, Timestamp, WorkspaceId};

/// Recipients of one segment of the audience.
pub const SEGMENT: u32 = 8000;
/// Recipients that are claimed at a time; a segment has a whole number of windows.
pub const WINDOW: u32 = 500;

/// Where a broadcast stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadcastStatus {
    /// It waits for its time.
    Scheduled,
    /// It is about to begin.
    Queued,
    /// It is being sent.
    Sending,
    /// It is held.
    Paused,
    /// All of it has been handed over.
    Completed,
    /// It was stopped.
    Cancelled,
    /// It ended early.
    Failed,
}

impl BroadcastStatus {
    /// The status as an answer spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Whether nothing more is sent.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Failed)
    }
}

/// What becomes of a message that was claimed and whose outcome a crash has swallowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadcastPolicy {
    /// It is not sent again: its outcome is unknown.
    #[default]
    AtMostOnce,
    /// It is sent again: somebody may get it twice.
    AtLeastOnce,
}

/// What the store keeps of a broadcast.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub id: BroadcastId,
    pub name: Box<str>,
    pub template: TemplateName,
    pub category: TemplateCategory,
    pub policy: BroadcastPolicy,
    pub status: BroadcastStatus,
    /// Why it was paused or ended, unless somebody asked for it.
    pub reason: Option<Box<str>>,
    /// All recipients. Those that had opted out when it was made are the last ones.
    pub total: u32,
    /// Recipients that had not opted out.
    pub sendable: u32,
    /// Credits that were reserved for each of those.
    pub price: u64,
    /// The number that it leaves through.
    pub number: NumberId,
    /// The template's components.
    pub definition: Vec<Value>,
    /// The parameters that all messages have.
    pub components: Vec<Value>,
    /// Whether recipients have variables of their own.
    pub personal: bool,
    pub created_at: Timestamp,
    pub schedule_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub retry_of: Option<BroadcastId>,
    /// The broadcast that sends to its failed recipients again.
    #[serde(default)]
    pub retried_by: Option<BroadcastId>,
    /// Messages that the channel took and then reported as failed, until it is settled.
    #[serde(default)]
    pub reported_failed: u32,
    /// Whether it is over, every outcome is noted and the rest of the credits given back.
    pub settled: bool,
}

/// The id of a broadcast's message to the recipient at `index`: the broadcast's moment and half of
/// what makes it unique, then the index.
pub fn message_id(broadcast: BroadcastId, index: u32) -> MessageId {
    let mut bytes = *broadcast.as_bytes();
    bytes[12..].copy_from_slice(&index.to_be_bytes());
    MessageId::from_bytes(bytes)
}

/// What the key of the broadcast's record begins with that has this message, if one has, and the
/// recipient's place in it.
pub fn of_message(workspace: &WorkspaceId, id: MessageId) -> (Vec<u8>, u32) {
    let (broadcast, index) = id.as_bytes().split_at(12);
    let index = index.try_into().map_or(u32::MAX, u32::from_be_bytes);
    (key(workspace, &[b"b", broadcast]), index)
}

fn key(workspace: &WorkspaceId, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = [workspace.as_str().as_bytes(), &[0]].concat();
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

/// What the keys of a workspace's broadcasts start with.
pub fn records_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    key(workspace, &[b"b"])
}

/// The key of a broadcast's record.
pub fn record_key(workspace: &WorkspaceId, id: BroadcastId) -> Vec<u8> {
    key(workspace, &[b"b", id.as_bytes()])
}

/// The key that says that a broadcast is being made.
pub fn draft_key(workspace: &WorkspaceId, id: BroadcastId) -> Vec<u8> {
    key(workspace, &[b"d", id.as_bytes()])
}

/// The key of the counts of a broadcast that is settled.
pub fn counts_key(workspace: &WorkspaceId, id: BroadcastId) -> Vec<u8> {
    key(workspace, &[b"c", id.as_bytes()])
}

/// What the keys of a broadcast's audience and outcomes start with.
pub fn parts_prefix(workspace: &WorkspaceId, id: BroadcastId) -> Vec<u8> {
    key(workspace, &[id.as_bytes()])
}

/// A part of a segment of the audience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentPart {
    Phones = 0,
    Variables = 1,
}

/// The key of a part of a segment.
pub fn segment_key(
    workspace: &WorkspaceId,
    id: BroadcastId,
    segment: u32,
    part: SegmentPart,
) -> Vec<u8> {
    key(workspace, &[id.as_bytes(), &segment.to_be_bytes(), &[part as u8]])
}

/// The key of the recipients whose phones begin with this one.
pub fn phones_key(workspace: &WorkspaceId, id: BroadcastId, first: u64) -> Vec<u8> {
    key(workspace, &[id.as_bytes(), &first.to_be_bytes()])
}

/// The key of a window's outcomes.
pub fn window_key(workspace: &WorkspaceId, id: BroadcastId, window: u32) -> Vec<u8> {
    key(workspace, &[id.as_bytes(), &window.to_be_bytes()])
}

/// The broadcast's record as it is committed, if there is one.
///
/// # Errors
/// [`StoreError`]: it cannot be read.
pub fn read(
    view: &dyn View,
    workspace: &WorkspaceId,
    id: BroadcastId,
) -> Result<Option<Record>, StoreError> {
    let value = view.get(Table::Broadcasts, &record_key(workspace, id))?;
    value.map(|json| codec::decode(&json)).transpose()
}
