//! Pure: the subjects of an event, as hashes by which an index of the event log finds it.
//!
//! The index has the texts of an event's `data` that can identify one thing among many: ids,
//! phones, addresses and most references. The text alone decides whether it is one of those, so a
//! caller knows whether the index has it. Two texts may have one hash: a caller that finds an event
//! by it compares the text.

use super::PublicEvent;
use super::message::MessageStep;
use crate::{Phone, UserId, id, json};

/// The number of bytes of a text in the index.
const TEXT_BYTES: std::ops::RangeInclusive<usize> = 4..=200;
/// The length of a time as text, such as `2026-01-31T09:25:00.000Z`.
const MOMENT_BYTES: usize = 24;

/// Returns the hash of a text that can identify one thing. It is on disk and must not change.
#[must_use]
pub fn about_hash(text: &str) -> Option<u32> {
    if !identifies_one(text) {
        return None;
    }
    Some(match (text.parse::<Phone>(), id::bytes_of(text)) {
        (Ok(phone), _) => phone_hash(phone),
        (_, Some(id)) => id_hash(&id),
        // FNV-1a: the hash must be the same in every version. It need not resist attacks, because
        // users who make texts of one hash slow only their own searches.
        _ => spread_bits(text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })),
    })
}

/// Names have a digit or an `@` and no space, or are ids of users. Moments do not name anything.
fn identifies_one(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_moment = || bytes.len() == MOMENT_BYTES && bytes[10] == b'T' && bytes.ends_with(b"Z");
    TEXT_BYTES.contains(&bytes.len())
        && (bytes.iter().any(|byte| byte.is_ascii_digit() || *byte == b'@')
            || UserId::is_valid(text))
        && !bytes.iter().any(u8::is_ascii_whitespace)
        && !is_moment()
}

/// All forms of a phone have one hash.
fn phone_hash(phone: Phone) -> u32 {
    spread_bits(phone.canonical().as_u64())
}

/// Returns the hash of an id without its kind: a code's message has the code's id but another
/// prefix.
fn id_hash(id: &[u8; 16]) -> u32 {
    let number = u128::from_be_bytes(*id);
    spread_bits((number as u64) ^ ((number >> 64) as u64).rotate_left(29))
}

/// Spreads the bits over the hash, because an index uses its upper bits.
const fn spread_bits(bits: u64) -> u32 {
    let bits = (bits ^ bits >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits >> 32) as u32
}

impl PublicEvent {
    /// Passes the hash of every text in [`data`](Self::data) that has one, some more than once. An
    /// index calls it for every event, so frequent ones are not made into JSON for it.
    pub fn about(&self, take: &mut dyn FnMut(u32)) {
        match self {
            Self::OtpSent { request_id, phone, .. }
            | Self::OtpVerified { request_id, phone }
            | Self::OtpExpired { request_id, phone }
            | Self::OtpFailed { request_id, phone, .. } => {
                take(id_hash(request_id.as_bytes()));
                phone.known().into_iter().map(phone_hash).for_each(take);
            }
            Self::Noted { event, notes } => {
                event.about(take);
                json::each_text(notes, &mut |text| {
                    about_hash(text).into_iter().for_each(&mut *take)
                });
            }
            Self::Message(step) => step.about(take),
            Self::Other { data, .. } => {
                json::each_text(data, &mut |text| {
                    about_hash(text).into_iter().for_each(&mut *take)
                });
            }
        }
    }
}

impl MessageStep {
    fn about(&self, take: &mut dyn FnMut(u32)) {
        take(id_hash(self.message_id.as_bytes()));
        take(id_hash(self.number_id.as_bytes()));
        let to = match self.to.phone() {
            Some(phone) => phone.known().map(phone_hash),
            None => self.to.user_id().and_then(|user| about_hash(user.as_str())),
        };
        let template = self.template.iter().flat_map(|it| [&*it.name, &*it.language]);
        let error = self.error.iter().flat_map(|it| [&*it.reason, &*it.details]);
        let notes = self.reference.iter().chain(self.metadata.values()).map(String::as_str);
        let texts = template.chain(error).chain(notes).filter_map(about_hash);
        to.into_iter().chain(texts).for_each(take);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::golden::{AT, UNIQUE};
    use crate::{MessageId, RequestId};

    #[test]
    fn ids_phones_and_addresses_are_names_and_words_are_not() {
        let (request, message) =
            (RequestId::from_parts(AT, UNIQUE), MessageId::from_parts(AT, UNIQUE));
        let hashes = [
            "+15550123456",
            "15550123456",
            &request.to_string(),
            &request.to_string().to_uppercase(),
            "US.13491208",
            "jane@example.com",
            "order-4711",
        ]
        .map(|text| about_hash(text).unwrap());
        assert_eq!(hashes.iter().collect::<BTreeSet<_>>().len(), hashes.len());
        assert_eq!(about_hash(&request.to_string()), about_hash(&message.to_string()));
        assert_eq!(
            hashes.map(|hash| format!("{hash:08x}")),
            ["983b5746", "aa12bf14", "cea2eaa4", "4cede8f3", "3cb5c2ab", "96716999", "60daa0d1"]
        );
        assert!(about_hash("US.abcdef").is_some());
        let forms = ["+5491158749895", "+541158749895", "+54111558749895"].map(about_hash);
        assert!(forms[0].is_some() && forms[1..].iter().all(|form| *form == forms[0]));
        let moment = AT.to_string();
        for text in ["", "123", "failed", "in 2 parts", &moment, &"1".repeat(201)] {
            assert_eq!(about_hash(text), None, "{text}");
        }
    }
}
