//! Pure: the record of a one-time password that has ended, and its index entries.
//!
//! It is written once, in the commit of that end: the right code, the fifth wrong one, or the end
//! of its time. So sending a code writes none. [`Table::Otps`] has it under
//! `workspace ‖ 0 ‖ request`, in the order of time. It is the version (1), the phone (eight bytes,
//! zero where it is not known), the seconds of validity (two), the status, the delivery, the wrong
//! codes and the sends (one each), the moments at which it was verified (zero where it was not) and
//! at which it ended (eight each), all big endian, and what is noted of it, as JSON.
//!
//! [`Table::OtpIndex`] has, under `workspace ‖ 0`, for each record `p ‖ phone ‖ 0 ‖ request` where
//! the phone is known, and of one with a reference `r ‖ reference ‖ 0 ‖ request`; the values are
//! empty. Ids begin with the moment, so those of one phone are in the order of time, as the records
//! themselves are. An entry is written with its record and goes with it.
//!
//! [`Table::Otps`]: postrider_store::Table::Otps
//! [`Table::OtpIndex`]: postrider_store::Table::OtpIndex

use std::borrow::Cow;

use postrider_domain::event::otp::OtpNotes;
use postrider_domain::event::{Delivery, OtpStatus};
use postrider_domain::{Phone, RequestId, Timestamp, WorkspaceId};
use postrider_store::StoreError;

use crate::core::otp::requests::Otp;

const VERSION: u8 = 1;
const STATUSES: [OtpStatus; 5] = [
    OtpStatus::Active,
    OtpStatus::Verified,
    OtpStatus::Expired,
    OtpStatus::Invalidated,
    OtpStatus::Cancelled,
];
const DELIVERIES: [Delivery; 6] = [
    Delivery::Queued,
    Delivery::Sent,
    Delivery::Failed,
    Delivery::Unknown,
    Delivery::Delivered,
    Delivery::Read,
];

/// The outcome of a one-time password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedOtp {
    pub(crate) phone: Phone,
    pub(crate) valid_seconds: u16,
    pub(crate) status: OtpStatus,
    pub(crate) delivery: Delivery,
    pub(crate) attempts: u8,
    pub(crate) sends: u8,
    pub(crate) verified_at: Option<Timestamp>,
    /// The time of its end.
    pub(crate) ended_at: Timestamp,
    /// The notes of the request, as JSON.
    pub(crate) notes: Option<Box<str>>,
}

impl EndedOtp {
    /// Returns the record of a request with so many sends that ends at `at`.
    pub(crate) fn of(otp: &Otp, sends: u8, status: OtpStatus, at: Timestamp) -> Self {
        Self {
            phone: otp.phone,
            valid_seconds: otp.expiry.as_seconds(),
            status,
            delivery: otp.delivery,
            attempts: otp.attempts,
            sends,
            verified_at: (status == OtpStatus::Verified).then_some(at),
            ended_at: at,
            notes: None,
        }
    }

    /// Adds the notes of the request.
    pub(crate) fn noted(self, notes: Option<&str>) -> Self {
        Self { notes: notes.map(Into::into), ..self }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let place = |at: Option<usize>| at.map_or(0, |at| at as u8);
        let status = place(STATUSES.iter().position(|it| *it == self.status));
        let delivery = place(DELIVERIES.iter().position(|it| *it == self.delivery));
        let verified_at = self.verified_at.map_or(0, Timestamp::as_millis);
        let mut bytes = Vec::with_capacity(31);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.phone.as_u64().to_be_bytes());
        bytes.extend_from_slice(&self.valid_seconds.to_be_bytes());
        bytes.extend_from_slice(&[status, delivery, self.attempts, self.sends]);
        bytes.extend_from_slice(&verified_at.to_be_bytes());
        bytes.extend_from_slice(&self.ended_at.as_millis().to_be_bytes());
        bytes.extend_from_slice(self.notes.as_ref().map_or(&[], |notes| notes.as_bytes()));
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::read(bytes).ok_or_else(|| StoreError::Damaged("a one-time password".into()))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = bytes.split_first()? else { return None };
        let (phone, rest) = rest.split_first_chunk()?;
        let (seconds, rest) = rest.split_first_chunk()?;
        let ([status, delivery, attempts, sends], rest) = rest.split_first_chunk()?;
        let (verified_at, rest) = rest.split_first_chunk()?;
        let (ended_at, notes) = rest.split_first_chunk()?;
        let verified_at = u64::from_be_bytes(*verified_at);
        let notes = std::str::from_utf8(notes).ok()?;
        Some(Self {
            phone: match u64::from_be_bytes(*phone) {
                0 => Phone::ANYBODY,
                digits => Phone::from_digits(digits).ok()?,
            },
            valid_seconds: u16::from_be_bytes(*seconds),
            status: *STATUSES.get(usize::from(*status))?,
            delivery: *DELIVERIES.get(usize::from(*delivery))?,
            attempts: *attempts,
            sends: *sends,
            verified_at: (verified_at > 0).then(|| Timestamp::from_millis(verified_at)),
            ended_at: Timestamp::from_millis(u64::from_be_bytes(*ended_at)),
            notes: (!notes.is_empty()).then(|| notes.into()),
        })
    }
}

/// Returns the key prefix of a workspace's records.
pub(crate) fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0]].concat()
}

/// Returns the key of a request's record.
pub(crate) fn key(workspace: &WorkspaceId, id: RequestId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], id.as_bytes()].concat()
}

/// The text in the notes of a request that its sender has named.
const REFERENCE: &str = r#""reference":"#;

/// A search key of ended requests.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EndedBy<'a> {
    /// The phone to which the code went.
    Phone(Phone),
    /// The sender's reference for the request.
    Reference(&'a str),
}

impl EndedBy<'_> {
    /// Returns the key prefix of these requests.
    pub(crate) fn prefix(self, workspace: &WorkspaceId) -> Vec<u8> {
        self.followed_by(workspace, &[])
    }

    pub(crate) fn key(self, workspace: &WorkspaceId, id: RequestId) -> Vec<u8> {
        self.followed_by(workspace, id.as_bytes())
    }

    fn followed_by(self, workspace: &WorkspaceId, end: &[u8]) -> Vec<u8> {
        let (kind, value) = match self {
            Self::Phone(phone) => (b'p', Cow::Owned(phone.canonical().to_string())),
            Self::Reference(reference) => (b'r', Cow::Borrowed(reference)),
        };
        [workspace.as_str().as_bytes(), &[0, kind], value.as_bytes(), &[0], end].concat()
    }
}

/// Returns the keys of all entries of a request.
pub(crate) fn index_keys(
    workspace: &WorkspaceId,
    id: RequestId,
    ended: &EndedOtp,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    let phone = ended.phone.known().map(|phone| EndedBy::Phone(phone).key(workspace, id));
    // Few have one.
    let notes = ended.notes.as_deref().filter(|notes| notes.contains(REFERENCE));
    let reference = notes.and_then(|notes| OtpNotes::from_json(notes).reference);
    let reference = reference.map(|it| EndedBy::Reference(&it).key(workspace, id));
    phone.into_iter().chain(reference)
}

#[cfg(test)]
mod ended_index_tests {
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    use super::*;
    use crate::core::otp::ended_record::tests::expired;

    #[test]
    fn keys_are_as_ever() {
        let ended = expired();
        let (workspace, mut sheet) = ("acme".parse().unwrap(), Sheet::default());
        let id = RequestId::from_parts(AT, UNIQUE);
        for key in index_keys(&workspace, id, &ended.clone().noted(Some(r#"{"reference":"é 1"}"#)))
        {
            sheet.text("key", &key);
        }
        let of_anybody = EndedOtp { phone: Phone::ANYBODY, ..ended.clone() };
        assert_eq!(index_keys(&workspace, id, &of_anybody).count(), 0);
        let without = ended.noted(Some(r#"{"metadata":{"reference":"x"}}"#));
        assert_eq!(index_keys(&workspace, id, &without).count(), 1);
        sheet.is(expect_test::expect![[r#"
            key: acme\x00p+15550123456\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
            key: acme\x00r\xc3\xa9 1\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        "#]]);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use expect_test::expect;

    use super::*;
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    pub(crate) fn expired() -> EndedOtp {
        EndedOtp {
            phone: "+15550123456".parse().unwrap(),
            valid_seconds: 300,
            status: OtpStatus::Expired,
            delivery: Delivery::Delivered,
            attempts: 2,
            sends: 3,
            verified_at: None,
            ended_at: AT,
            notes: None,
        }
    }

    fn verified() -> EndedOtp {
        EndedOtp { status: OtpStatus::Verified, verified_at: Some(AT), ..expired() }
    }

    fn noted(ended: &EndedOtp) -> EndedOtp {
        ended.clone().noted(Some(r#"{"test":true}"#))
    }

    #[test]
    fn what_has_ended_is_stored_as_ever() {
        let (expired, verified) = (expired(), verified());
        let mut sheet = Sheet::default();
        sheet.text("key", &key(&"acme".parse().unwrap(), RequestId::from_parts(AT, UNIQUE)));
        sheet.bytes("expired", &expired.encode());
        sheet.bytes("verified", &verified.encode());
        sheet.bytes("noted", &noted(&expired).encode());
        sheet.bytes("noted and verified", &noted(&verified).encode());
        sheet.is(expect![[r#"
            key: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
            expired: 01000000039edc0dc0012c0204020300000000000000000000018bcfe5687b
            verified: 01000000039edc0dc0012c010402030000018bcfe5687b0000018bcfe5687b
            noted:
                01000000039edc0dc0012c0204020300000000000000000000018bcfe5687b7b2274657374223a74
                7275657d
            noted and verified:
                01000000039edc0dc0012c010402030000018bcfe5687b0000018bcfe5687b7b2274657374223a74
                7275657d
        "#]]);
        for ended in [noted(&expired), noted(&verified)] {
            assert_eq!(EndedOtp::decode(&ended.encode()), Ok(ended));
        }
        for ended in [expired.clone(), verified] {
            let bytes = ended.encode();
            assert_eq!(EndedOtp::decode(&bytes), Ok(ended));
            for cut in 0..bytes.len() {
                assert!(EndedOtp::decode(&bytes[..cut]).is_err(), "{cut}");
            }
            assert!(EndedOtp::decode(&[bytes, vec![0xff]].concat()).is_err());
        }
        for (at, wrong) in [(0, 2), (11, 5), (12, 6)] {
            let mut bytes = expired.encode();
            bytes[at] = wrong;
            assert!(EndedOtp::decode(&bytes).is_err(), "{at}");
        }
        for (at, status) in STATUSES.into_iter().enumerate() {
            let bytes = EndedOtp { status, ..expired.clone() }.encode();
            assert_eq!(usize::from(bytes[11]), at);
        }
        for (at, delivery) in DELIVERIES.into_iter().enumerate() {
            let bytes = EndedOtp { delivery, ..expired.clone() }.encode();
            assert_eq!(usize::from(bytes[12]), at);
        }
    }
}
