//! Reads what was decided of sends to limited destinations, newest first, from the event log.

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

/// Which decisions are asked for; the default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecisionFilter {
    /// Those about phones that begin with these digits.
    pub prefix: Option<Prefix>,
    /// Those about this phone.
    pub phone: Option<Phone>,
    /// Those about this request.
    pub request_id: Option<RequestId>,
    /// Those of this kind.
    pub decision: Option<OtpDecision>,
    /// Those of this moment or later.
    pub since: Option<Timestamp>,
    /// Those before this moment.
    pub until: Option<Timestamp>,
}

/// What was decided of one send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRow {
    /// The event that has it.
    pub event_id: EventId,
    /// When it was decided.
    pub at: Timestamp,
    /// What was decided, and by which figures.
    pub decided: Decided,
}

/// The data of the event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Decided {
    /// The request; `None`: it was refused, and there is none.
    pub request_id: Option<RequestId>,
    /// Where it was to go.
    #[serde(deserialize_with = "phone")]
    pub phone: Phone,
    /// The destination that is limited.
    pub prefix: String,
    /// `prefix` or `country`: what it is limited by.
    pub rule: String,
    /// Codes to it that had ended.
    pub sent: u32,
    /// Those of them that were verified.
    pub verified: u32,
    /// What was decided.
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
    /// The sequence of the event to go on before; `None`: there are no older ones.
    pub next_before: Option<u64>,
}

impl DecisionFilter {
    fn takes(&self, it: &Decided) -> bool {
        self.prefix.is_none_or(|digits| digits.matches(it.phone))
            && self.phone.is_none_or(|phone| phone == it.phone)
            && self.request_id.is_none_or(|id| Some(id) == it.request_id)
            && self.decision.is_none_or(|decision| decision == it.decision)
    }

    /// The decision of an entry, if it is one that is asked for.
    fn found(&self, entry: &LogEntry) -> Option<Decided> {
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
    /// What was decided of sends to limited destinations, newest first, from before the event of
    /// sequence `before` on: at most `limit` rows. Looks at a bounded part of the log, so a page
    /// can be empty before the oldest.
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
        if let Some(decided) = filter.found(&entry) {
            let (event_id, at) = (entry.id(id, sequence), entry.at);
            rows.push(DecisionRow { event_id, at, decided });
        }
        true
    })?;
    Ok(DecisionsPage { rows, next_before })
}
