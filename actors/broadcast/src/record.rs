//! Pure: the stored record of a broadcast, and the keys of all its tables.
//!
//! [`Table::Broadcasts`] holds the record under `workspace ‖ 0 ‖ b ‖ id`. It holds a draft under
//! `workspace ‖ 0 ‖ d ‖ id` while the audience is being written. It holds the counts under
//! `workspace ‖ 0 ‖ c ‖ id` once the broadcast is settled. If nothing of a broadcast was sent, a
//! mark under `workspace ‖ 0 ‖ x ‖ sequence ‖ id` exists until its recipients are deleted.
//! [`Table::BroadcastAudience`] holds the recipients under `workspace ‖ 0 ‖ id ‖ segment ‖ part`.
//! [`Table::BroadcastPhones`] holds their index by phone under `workspace ‖ 0 ‖ id ‖ first phone`.
//! [`Table::BroadcastOutcomes`] holds the outcomes and [`Table::BroadcastReports`] the later
//! reports, both under `workspace ‖ 0 ‖ id ‖ window`. [`Table::BroadcastNames`] holds the
//! provider's ids of the messages, under that key and a place of the window.

use postrider_store::view::codec;
use postrider_store::{StoreError, Table, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use postrider_domain::template::TemplateCategory;
use postrider_domain::template::TemplateName;
use postrider_domain::{BroadcastId, MessageId, NumberId, SenderNotes, Timestamp, WorkspaceId};

/// The number of recipients of one segment of the audience.
pub const SEGMENT: u32 = 8000;
/// The number of recipients whose outcomes are stored in one record. It divides a segment.
pub const WINDOW: u32 = 500;
const _: () = assert!(SEGMENT.is_multiple_of(WINDOW));
// Failures are stored with their index in the window as a u16.
const _: () = assert!(WINDOW - 1 <= u16::MAX as u32);

/// The status of a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadcastStatus {
    /// It waits for its scheduled time.
    Scheduled,
    /// It is about to start.
    Queued,
    /// It is being sent.
    Sending,
    /// It is paused.
    Paused,
    /// All its messages were sent to the channel.
    Completed,
    /// A user cancelled it.
    Cancelled,
    /// It ended early because of an error.
    Failed,
}

impl BroadcastStatus {
    /// Returns the status as responses spell it.
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

    /// Returns whether the broadcast sends nothing more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Failed)
    }
}

/// The policy for messages that were claimed and have no outcome after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadcastPolicy {
    /// It is not sent again, and its outcome is unknown.
    #[default]
    AtMostOnce,
    /// It is sent again, so the recipient may get it twice.
    AtLeastOnce,
}

/// A broadcast as it is stored, in JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The broadcast's id.
    pub id: BroadcastId,
    /// The name that the user gave it.
    pub name: Box<str>,
    /// The template that it sends.
    pub template: TemplateName,
    /// The template's category when the broadcast was created. It decides the price.
    pub category: TemplateCategory,
    /// The policy for messages without an outcome after a crash.
    pub policy: BroadcastPolicy,
    /// Its status.
    pub status: BroadcastStatus,
    /// The reason for a pause or an end, unless a user requested it.
    pub reason: Option<Box<str>>,
    /// All recipients. Those that had opted out when it was created come last.
    pub total: u32,
    /// Recipients that had not opted out.
    pub sendable: u32,
    /// Credits that were reserved for each sendable recipient.
    pub price: u64,
    /// The number that it is sent from.
    pub number: NumberId,
    /// The components of the template from which its messages are made. They are from its creation,
    /// or else from the last choice of its numbers.
    pub definition: Vec<Value>,
    /// The template parameters that all messages share.
    pub components: Vec<Value>,
    /// Set if recipients have variables of their own.
    pub personal: bool,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time at which it starts; `None` for at once.
    pub schedule_at: Option<Timestamp>,
    /// The time of its start.
    pub started_at: Option<Timestamp>,
    /// The time at which it was completed, was cancelled or failed.
    pub finished_at: Option<Timestamp>,
    /// The broadcast whose failed recipients this one sends to again.
    pub retry_of: Option<BroadcastId>,
    /// The broadcast that sends to the failed recipients of this one again.
    pub retried_by: Option<BroadcastId>,
    /// Set if it is over, every outcome is recorded and the unused credits are refunded.
    pub settled: bool,
    /// Set if its recipients are deleted, because nothing was sent to any of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recipients_dropped: bool,
    /// The notes of its sender.
    #[serde(default, skip_serializing_if = "SenderNotes::is_empty")]
    pub notes: SenderNotes,
    /// The other numbers that it is sent from, all at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<NumberId>,
    /// The numbers that its creator named; without any, it is sent from those of the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<NumberId>,
}

impl Record {
    /// Returns the numbers that it is sent from.
    pub fn numbers(&self) -> impl Iterator<Item = NumberId> + '_ {
        std::iter::once(self.number).chain(self.beside.iter().copied())
    }

    /// Returns the record as sent from these numbers, or `None` if there are none.
    #[must_use]
    pub fn sent_from(self, numbers: impl IntoIterator<Item = NumberId>) -> Option<Self> {
        let mut numbers = numbers.into_iter();
        let number = numbers.next()?;
        Some(Self { number, beside: numbers.collect(), ..self })
    }
}

/// Returns the id of a broadcast's message to the recipient at `index`. It is the first 12 bytes of
/// the broadcast's id, then the index (u32, big endian).
pub fn message_id(broadcast: BroadcastId, index: u32) -> MessageId {
    let mut bytes = *broadcast.as_bytes();
    bytes[12..].copy_from_slice(&index.to_be_bytes());
    MessageId::from_bytes(bytes)
}

/// Returns the prefix of the key of the broadcast of this message, and the recipient's index in it.
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

/// Returns the prefix of the keys of a workspace's broadcasts.
pub fn records_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    key(workspace, &[b"b"])
}

/// Returns the key of a broadcast's record.
pub fn record_key(workspace: &WorkspaceId, id: BroadcastId) -> Vec<u8> {
    key(workspace, &[b"b", id.as_bytes()])
}

/// Returns the key of a broadcast that is being created.
pub fn draft_key(workspace: &WorkspaceId, id: BroadcastId) -> Vec<u8> {
    key(workspace, &[b"d", id.as_bytes()])
}

/// Returns the key of the counts of a settled broadcast.
pub fn counts_key(workspace: &WorkspaceId, id: BroadcastId) -> Vec<u8> {
    key(workspace, &[b"c", id.as_bytes()])
}

/// Returns the prefix of the marks of broadcasts whose recipients are to be deleted.
pub fn dropped_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    key(workspace, &[b"x"])
}

/// Returns the key of the mark of a broadcast whose recipients are to be deleted. The mark is
/// removed with the last recipient. The sequence grows, so that later marks follow earlier ones.
pub fn dropped_key(workspace: &WorkspaceId, sequence: u64, id: BroadcastId) -> Vec<u8> {
    key(workspace, &[b"x", &sequence.to_be_bytes(), id.as_bytes()])
}

/// Returns the prefix of the keys of a broadcast's audience and outcomes.
pub fn parts_prefix(workspace: &WorkspaceId, id: BroadcastId) -> Vec<u8> {
    key(workspace, &[id.as_bytes()])
}

/// A part of a segment of the audience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentPart {
    /// The recipients' phones, 8 bytes each, big endian.
    Phones = 0,
    /// The recipients' variables, in postcard's format.
    Variables = 1,
}

/// Returns the key of a part of a segment.
pub fn segment_key(
    workspace: &WorkspaceId,
    id: BroadcastId,
    segment: u32,
    part: SegmentPart,
) -> Vec<u8> {
    key(workspace, &[id.as_bytes(), &segment.to_be_bytes(), &[part as u8]])
}

/// Returns the key of the chunk of the phone index that starts with this phone.
pub fn phones_key(workspace: &WorkspaceId, id: BroadcastId, first: u64) -> Vec<u8> {
    key(workspace, &[id.as_bytes(), &first.to_be_bytes()])
}

/// Returns the key of a window's outcomes.
pub fn window_key(workspace: &WorkspaceId, id: BroadcastId, window: u32) -> Vec<u8> {
    key(workspace, &[id.as_bytes(), &window.to_be_bytes()])
}

/// Returns the key of the provider's ids of messages of a window, from this place on.
pub fn names_key(workspace: &WorkspaceId, id: BroadcastId, window: u32, place: u16) -> Vec<u8> {
    key(workspace, &[id.as_bytes(), &window.to_be_bytes(), &place.to_be_bytes()])
}

/// Returns the key of a reported id of the message at this place of a window. It has a bit that no
/// place has, so it differs from each key of ids that came with outcomes.
pub fn reported_name_key(
    workspace: &WorkspaceId,
    id: BroadcastId,
    window: u32,
    place: u16,
) -> Vec<u8> {
    /// The bit that no place has.
    const REPORTED: u16 = 1 << 15;
    names_key(workspace, id, window, place | REPORTED)
}

/// Reads the committed record of a broadcast, if there is one.
///
/// # Errors
/// [`StoreError::Damaged`] if it cannot be decoded, and the errors of [`View::get`].
pub fn read(
    view: &dyn View,
    workspace: &WorkspaceId,
    id: BroadcastId,
) -> Result<Option<Record>, StoreError> {
    let value = view.get(Table::Broadcasts, &record_key(workspace, id))?;
    value.map(|json| codec::decode(&json)).transpose()
}
