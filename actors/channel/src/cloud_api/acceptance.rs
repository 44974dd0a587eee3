//! Pure: the report on a message in the answer that accepts it.

use serde::Deserialize;
use serde_json::value::RawValue;

use postrider_domain::{PartyId, PartyNames, json};

use super::body;
use crate::Acceptance;

/// The maximum number of bytes of the provider's id of a message.
const PROVIDER_ID_BYTES_MAX: usize = 512;

/// The statuses of a message that the provider accepted and holds back.
const HELD: [&str; 2] = ["held_for_quality_assessment", "paused"];

/// The body of an answer that accepts a message.
#[derive(Deserialize)]
pub(super) struct Accepted<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow)]
    contacts: Option<&'a RawValue>,
}

impl Accepted<'_> {
    /// Returns whether the answer names a message: otherwise a proxy in between may have sent it.
    pub(super) fn names_a_message(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Returns the report on a message to `to`.
    pub(super) fn of_message(&self, to: &PartyId) -> Acceptance {
        let first = self.messages.first();
        let message = first.map(|it| json::readable(it));
        let id = message.as_ref().and_then(|message| message["id"].as_str());
        let provider_id = id.filter(|id| id.len() <= PROVIDER_ID_BYTES_MAX).map(Box::from);
        let status = message.as_ref().and_then(|message| message["message_status"].as_str());
        let held = status.is_some_and(|status| HELD.contains(&status));
        Acceptance { known_as: self.known_as(to), provider_id, held }
    }

    /// Returns the provider's other names of the recipient, beside the one that was used.
    fn known_as(&self, to: &PartyId) -> PartyNames {
        let Some(contacts) = self.contacts.map(json::readable) else {
            return PartyNames::default();
        };
        let phone = contacts[0]["wa_id"].as_str().and_then(body::phone);
        let user_id = contacts[0]["user_id"].as_str().and_then(|id| id.parse().ok());
        PartyNames {
            phone: phone.filter(|phone| to.phone() != Some(*phone)),
            user_id: user_id.filter(|id| to.user_id() != Some(id)),
        }
    }
}
