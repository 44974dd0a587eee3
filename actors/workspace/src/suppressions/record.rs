//! The record of an opt-out.

use serde::{Deserialize, Serialize};

use postrider_domain::opt_out::OptOutSource;
use postrider_domain::{PartyId, Phone, Timestamp};
use postrider_store::StoreError;
use postrider_store::view::codec;

use super::Suppression;

/// The value under the key of a phone or a person.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) reason: Option<String>,
    pub(super) created_at: Timestamp,
    /// What opted the phone or the person out.
    pub(super) source: OptOutSource,
    /// The phone as it was written, where the key has another form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) phone: Option<Phone>,
}

impl Record {
    pub(super) fn of(suppression: &Suppression) -> Self {
        let Suppression { party, reason, source, created_at } = suppression;
        let is_another = |phone: &Phone| phone.as_u64() != phone.canonical().as_u64();
        Self {
            reason: reason.clone(),
            created_at: *created_at,
            source: *source,
            phone: party.phone().filter(is_another),
        }
    }
}

/// Returns the party of a key, which is given without the workspace.
pub(super) fn party_of(key: &[u8]) -> Result<PartyId, StoreError> {
    let text = std::str::from_utf8(key).ok();
    let party = text.and_then(|text| match text.strip_prefix('@') {
        Some(id) => id.parse().ok().map(PartyId::User),
        None => text.parse().ok().map(PartyId::Phone),
    });
    party.ok_or_else(|| StoreError::Damaged("the key of an opt-out".into()))
}

/// Returns an opt-out by its key and its record.
pub(super) fn suppression(party: &[u8], value: &[u8]) -> Result<Suppression, StoreError> {
    let party = party_of(party)?;
    let record: Record = codec::decode(value)?;
    let Record { reason, created_at, source, phone } = record;
    let party = phone.map_or(party, PartyId::from);
    Ok(Suppression { party, reason, source, created_at })
}
