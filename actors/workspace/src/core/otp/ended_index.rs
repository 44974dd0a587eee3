//! Pure: the index of ended one-time passwords by phone and reference.
//!
//! [`Table::OtpIndex`] has, under `workspace ‖ 0`, for each record of one that has ended
//! `p ‖ phone ‖ 0 ‖ request` where the phone is known, and of one with a reference
//! `r ‖ reference ‖ 0 ‖ request`; the values are empty. Ids begin with the moment, so those of one
//! phone are in the order of time, as the records themselves are. An entry is written with its
//! record and goes with it.
//!
//! [`Table::OtpIndex`]: postrider_store::Table::OtpIndex

use std::borrow::Cow;

use postrider_domain::event::otp::OtpNotes;
use postrider_domain::{Phone, RequestId, WorkspaceId};

use crate::core::otp::ended::Ended;

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
pub(crate) fn keys(
    workspace: &WorkspaceId,
    id: RequestId,
    ended: &Ended,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    let phone = ended.phone.known().map(|phone| EndedBy::Phone(phone).key(workspace, id));
    // Few have one.
    let notes = ended.notes.as_deref().filter(|notes| notes.contains(REFERENCE));
    let reference = notes.and_then(|notes| OtpNotes::from_json(notes).reference);
    let reference = reference.map(|it| EndedBy::Reference(&it).key(workspace, id));
    phone.into_iter().chain(reference)
}

#[cfg(test)]
mod tests {
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    use super::*;
    use crate::core::otp::ended::tests::expired;

    #[test]
    fn keys_are_as_ever() {
        let ended = expired();
        let (workspace, mut sheet) = ("acme".parse().unwrap(), Sheet::default());
        let id = RequestId::from_parts(AT, UNIQUE);
        for key in keys(&workspace, id, &ended.clone().noted(Some(r#"{"reference":"é 1"}"#))) {
            sheet.text("key", &key);
        }
        let of_anybody = Ended { phone: Phone::ANYBODY, ..ended.clone() };
        assert_eq!(keys(&workspace, id, &of_anybody).count(), 0);
        let without = ended.noted(Some(r#"{"metadata":{"reference":"x"}}"#));
        assert_eq!(keys(&workspace, id, &without).count(), 1);
        sheet.is(expect_test::expect![[r#"
            key: acme\x00p+15550123456\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
            key: acme\x00r\xc3\xa9 1\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        "#]]);
    }
}
