//! Pure: the payloads of the events of broadcasts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::BroadcastId;

/// A broadcast.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BroadcastData {
    /// The broadcast.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub broadcast_id: BroadcastId,
    /// What it is called.
    pub name: Box<str>,
    /// `scheduled`, `queued`, `sending`, `paused`, `completed`, `cancelled` or `failed`.
    pub status: &'static str,
    /// To how many it goes.
    pub total_recipients: u32,
    /// Why it is where it is, if nobody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

/// A broadcast all of which has been handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BroadcastCompletedData {
    /// The broadcast.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub broadcast_id: BroadcastId,
    /// What it is called.
    pub name: Box<str>,
    /// `completed`.
    pub status: &'static str,
    /// To how many it goes.
    pub total_recipients: u32,
    /// Why it was paused before, if nobody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// What has become of its recipients so far, each counted once.
    pub counts: CompletedCounts,
    /// What its sender calls it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it; left out where that is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

/// Recipients of a broadcast that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CompletedCounts {
    /// The channel took the message and holds it back: it may send it later, or drop it.
    pub held: u32,
    /// The channel took the message; whether it arrives is reported by `message.delivered`.
    pub sent: u32,
    /// It was refused, or reported as failed.
    pub failed: u32,
    /// It was handed over and no answer came.
    pub unknown: u32,
    /// The phone had opted out.
    pub suppressed: u32,
}
