//! Pure: identifiers are a prefix that names the kind, then a ULID in lower case (`otp_01j9…`).
//!
//! A ULID has 48 bits of milliseconds and 80 bits that make it unique. So identifiers sort by time
//! and carry their time of creation.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::time::Timestamp;

/// The number of characters of a ULID in its text form.
const ULID_CHARS: usize = 26;

/// The reason for which a text is not an identifier of the wanted kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier of the form {prefix}… followed by 26 lower-case characters")]
pub struct IdError {
    /// The prefix that the identifier must have, with its underscore.
    pub prefix: &'static str,
}

fn ulid_from_text(text: &str) -> Option<[u8; 16]> {
    let canonical = text.len() == ULID_CHARS
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    if !canonical {
        return None;
    }
    let ulid = ulid::Ulid::from_string(text).ok()?;
    let mut buffer = [0_u8; ULID_CHARS];
    // Crockford's alphabet reads `i`, `l` and `o` as digits: only the canonical spelling is
    // accepted.
    (lower_case(ulid, &mut buffer) == text).then(|| ulid.to_bytes())
}

/// Returns the 16 bytes of an identifier of any kind.
pub(crate) fn bytes_of(text: &str) -> Option<[u8; 16]> {
    ulid_from_text(text.split_once('_')?.1)
}

fn lower_case(ulid: ulid::Ulid, buffer: &mut [u8; ULID_CHARS]) -> &str {
    let text = ulid.array_to_str(buffer);
    text.make_ascii_lowercase();
    text
}

macro_rules! identifiers {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The text that every identifier of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an identifier from its time and 80 bits (the upper 48 of `unique` are
            /// ignored).
            #[must_use]
            pub fn from_parts(at: Timestamp, unique: u128) -> Self {
                Self(ulid::Ulid::from_parts(at.as_millis(), unique).to_bytes())
            }

            /// Creates the identifier with these 16 bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// Returns the 16 bytes, most significant first: they sort as the text does.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// Returns the time of the identifier's creation, in milliseconds.
            #[must_use]
            pub fn timestamp(&self) -> Timestamp {
                let [a, b, c, d, e, f, ..] = self.0;
                Timestamp::from_millis(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    serializer.serialize_bytes(&self.0)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    let text = <Cow<'de, str>>::deserialize(deserializer)?;
                    text.parse().map_err(D::Error::custom)
                } else {
                    let bytes = <&'de [u8]>::deserialize(deserializer)?;
                    bytes.try_into().map(Self).map_err(D::Error::custom)
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut buffer = [0_u8; ULID_CHARS];
                f.write_str(Self::PREFIX)?;
                f.write_str(lower_case(ulid::Ulid::from_bytes(self.0), &mut buffer))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix(Self::PREFIX)
                    .and_then(ulid_from_text)
                    .map(Self)
                    .ok_or(IdError { prefix: Self::PREFIX })
            }
        }
    )*};
}

identifiers! {
    /// A request for a one-time password. The HTTP interface calls it `request_id`.
    RequestId = "otp_";
    /// The public name of an API key. The key itself is never stored.
    KeyId = "key_";
    /// The public name of an admin token. The token itself is never stored.
    AdminTokenId = "tok_";
    /// Somebody who signs in.
    PersonId = "usr_";
    /// The public name of a session. Its token is never stored.
    SessionId = "ses_";
    /// An invite to a workspace. Its token is never stored.
    InviteId = "inv_";
    /// A messaging number connected to a workspace.
    NumberId = "num_";
    /// An entry of a workspace's event log.
    EventId = "evt_";
    /// A contact.
    ContactId = "con_";
    /// A conversation with a contact.
    ConversationId = "cnv_";
    /// A note beside a conversation.
    NoteId = "note_";
    /// An answer that is written often.
    QuickReplyId = "qrp_";
    /// A saved filter of contacts.
    SegmentId = "seg_";
    /// A message. The channel reports on it under this id.
    MessageId = "msg_";
    /// An endpoint that events are delivered to.
    WebhookId = "whk_";
    /// One template sent to many recipients.
    BroadcastId = "brd_";
    /// A file that was uploaded, or that a contact sent.
    MediaId = "med_";
    /// A record of the audit log.
    AuditId = "aud_";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_are_the_same_identifier() {
        let id = RequestId::from_parts(Timestamp::from_millis(1_700_000_000_123), 42);
        let text = id.to_string();
        assert!(text.starts_with("otp_0"), "{text}");
        assert_eq!(text.len(), 4 + ULID_CHARS);
        assert_eq!(text.parse::<RequestId>(), Ok(id));
        assert_eq!(id.timestamp().as_millis(), 1_700_000_000_123);
    }

    #[test]
    fn other_spellings_are_refused() {
        let good = RequestId::from_parts(Timestamp::from_millis(1), 7).to_string();
        for bad in [
            String::new(),
            "otp_".into(),
            good.to_uppercase(),
            good.replace("otp_", "msg_"),
            format!("{good}0"),
            good[..good.len() - 1].to_owned(),
            good.replace('0', "o"),
            format!("otp_8{}", &good[5..]),
            format!("otp_{}é", &good[6..]),
        ] {
            assert!(bad.parse::<RequestId>().is_err(), "{bad}");
        }
    }
}
