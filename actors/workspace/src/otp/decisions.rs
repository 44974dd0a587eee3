//! Reads the decisions about sends to limited destinations, newest first, from the event log.

use postrider_domain::destination::Prefix;
use postrider_domain::event::decision::OtpDecision;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{EventId, LogEntry, Phone, PublicEvent, RequestId, Timestamp, WorkspaceId};
use postrider_store::view::event_log;
use postrider_store::{StoreError, View};
use serde::{Deserialize, Deserializer, de};

use crate::Workspace;
use crate::events::{self, EVENTS_LOOKED_AT_MAX};

/// The type of the events that have decisions.
const KIND: &str = "otp.decided";

/// The filter of decisions; the default matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionFilter {
    /// The first digits of the phones.
    pub prefix: Option<Prefix>,
    /// The phone of the decisions.
    pub phone: Option<Phone>,
    /// The request of the decisions.
    pub request_id: Option<RequestId>,
    /// The kind of the decisions.
    pub decision: Option<OtpDecision>,
    /// The earliest moment.
    pub since: Option<Timestamp>,
    /// The moment before which they were made.
    pub until: Option<Timestamp>,
}

/// The decision about one send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRow {
    /// The event that carries it.
    pub event_id: EventId,
    /// The time of the decision.
    pub at: Timestamp,
    /// The decision, and its figures.
    pub data: DecisionData,
}

/// The data of the event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DecisionData {
    /// The request; `None` if it was refused, so that there is none.
    pub request_id: Option<RequestId>,
    /// The destination phone.
    #[serde(deserialize_with = "phone")]
    pub phone: Phone,
    /// The destination that is limited.
    pub prefix: String,
    /// The kind of the limit: `prefix` or `country`.
    pub rule: String,
    /// The number of codes to it that had ended.
    pub sent: u32,
    /// The number of them that were verified.
    pub verified: u32,
    /// The decision.
    pub decision: OtpDecision,
}

fn phone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Phone, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// A page of decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionsPage {
    /// Newest first.
    pub rows: Vec<DecisionRow>,
    /// The sequence of the event before which the next page starts; `None` if there are no older
    /// ones.
    pub next_before: Option<u64>,
}

impl DecisionFilter {
    fn takes(&self, it: &DecisionData) -> bool {
        self.prefix.is_none_or(|digits| digits.matches(it.phone))
            && self.phone.is_none_or(|phone| phone == it.phone)
            && self.request_id.is_none_or(|id| Some(id) == it.request_id)
            && self.decision.is_none_or(|decision| decision == it.decision)
    }

    /// Returns the decision of an entry, if the filter matches.
    fn matching_decision(&self, entry: &LogEntry) -> Option<DecisionData> {
        match &entry.event {
            PublicEvent::Other { data, .. } if entry.event.kind() == KIND => {
                let decided = serde_json::from_str(data);
                let unreadable = |error| tracing::warn!(%error, "a decision cannot be read");
                decided.map_err(unreadable).ok().filter(|decided| self.takes(decided))
            }
            _ => None,
        }
    }
}

impl Workspace {
    /// Returns the decisions about sends to limited destinations, newest first.
    ///
    /// They are before the event of sequence `before`, and at most `limit`. Each call reads a
    /// bounded part of the log, so a page can be empty before the oldest.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn otp_decisions(
        &self,
        filter: DecisionFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<DecisionsPage, Unavailable> {
        self.scan(move |store, id| page(store, id, before, limit, &filter)).await
    }
}

fn page(
    store: &dyn View,
    id: &WorkspaceId,
    before: Option<u64>,
    limit: usize,
    filter: &DecisionFilter,
) -> Result<DecisionsPage, StoreError> {
    let mut last = before.unwrap_or(u64::MAX);
    if let Some(until) = filter.until {
        last = last.min(event_log::before(store, id, until)?.saturating_add(1));
    }
    let (mut rows, mut next_before, mut looked_at) = (Vec::new(), None, 0);
    let request = filter.request_id.map(|id| id.to_string());
    let about = request.or_else(|| filter.phone.map(|phone| phone.to_string()));
    let about: Vec<_> = about.into_iter().collect();
    events::visit_back(store, id, last, &about, &mut |sequence, entry| {
        if filter.since.is_some_and(|since| entry.at < since) {
            return false;
        }
        if rows.len() == limit || looked_at == EVENTS_LOOKED_AT_MAX {
            next_before = Some(last);
            return false;
        }
        (last, looked_at) = (sequence, looked_at + 1);
        if let Some(data) = filter.matching_decision(&entry) {
            let (event_id, at) = (entry.id(id, sequence), entry.at);
            rows.push(DecisionRow { event_id, at, data });
        }
        true
    })?;
    Ok(DecisionsPage { rows, next_before })
}
