//! Pure: the channel's name of a person: a phone, or an id if the phone is hidden.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Phone;

/// The maximum number of letters and digits behind an id's prefix.
const TAIL_MAX: usize = 128;

/// The id by which the channel knows a person, whether or not the phone is hidden.
///
/// It is two capital letters, a dot, perhaps `ENT.`, and 1 to 128 letters and digits. Its case
/// matters. `Debug` hides its end, so that a log line cannot show it by accident.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(Arc<str>);

/// The text is not a [`UserId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be two capital letters, a dot and 1 to 128 letters and digits")]
pub struct UserIdError;

impl UserId {
    /// Checks whether a text has the form of such an id.
    pub(crate) fn is_valid(text: &str) -> bool {
        let Some((country, rest)) = text.split_once('.') else { return false };
        let tail = rest.strip_prefix("ENT.").unwrap_or(rest);
        country.len() == 2
            && country.bytes().all(|byte| byte.is_ascii_uppercase())
            && (1..=TAIL_MAX).contains(&tail.len())
            && tail.bytes().all(|byte| byte.is_ascii_alphanumeric())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UserId {
    type Err = UserIdError;

    fn from_str(text: &str) -> Result<Self, UserIdError> {
        if Self::is_valid(text) { Ok(Self(text.into())) } else { Err(UserIdError) }
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", &self.0[..3])
    }
}

impl Serialize for UserId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for UserId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A person, as the channel names them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartyId {
    /// A person by their phone.
    Phone(Phone),
    /// A person by the channel's id.
    User(UserId),
}

impl PartyId {
    /// Returns the phone, if that is the name.
    #[must_use]
    pub const fn phone(&self) -> Option<Phone> {
        match self {
            Self::Phone(phone) => Some(*phone),
            Self::User(_) => None,
        }
    }

    /// Returns the channel's id, if that is the name.
    #[must_use]
    pub const fn user_id(&self) -> Option<&UserId> {
        match self {
            Self::Phone(_) => None,
            Self::User(id) => Some(id),
        }
    }

    /// Returns the bytes that identify the person in a key: those of a phone, or `u` and the id. No
    /// number is large enough to start with that letter.
    #[must_use]
    pub fn key_bytes(&self) -> Vec<u8> {
        match self {
            Self::Phone(phone) => phone.key_bytes().to_vec(),
            Self::User(id) => [b"u", id.as_str().as_bytes()].concat(),
        }
    }

    /// Returns the text that identifies the person in a key or for an order: a phone in canonical
    /// form.
    #[must_use]
    pub fn key_text(&self) -> String {
        match self {
            Self::Phone(phone) => phone.canonical().to_string(),
            Self::User(id) => id.as_str().to_owned(),
        }
    }
}

impl fmt::Display for PartyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phone(phone) => phone.fmt(f),
            Self::User(id) => id.fmt(f),
        }
    }
}

/// The names by which the channel knows one person; either may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PartyNames {
    /// The phone, unless the person hides it.
    pub phone: Option<Phone>,
    /// The channel's id.
    pub user_id: Option<UserId>,
}

impl PartyNames {
    /// Returns whether there is no name.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.phone.is_none() && self.user_id.is_none()
    }

    /// Returns the existing names, the phone first.
    #[must_use]
    pub fn parties(&self) -> Vec<PartyId> {
        let user = self.user_id.clone().map(PartyId::from);
        self.phone.map(PartyId::from).into_iter().chain(user).collect()
    }
}

/// The text is neither a phone in E.164 nor a [`UserId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a phone in E.164, or the channel's id of a person")]
pub struct PartyIdError;

impl FromStr for PartyId {
    type Err = PartyIdError;

    fn from_str(text: &str) -> Result<Self, PartyIdError> {
        let phone = text.parse().map(Self::Phone);
        phone.or_else(|_| text.parse().map(Self::User)).map_err(|_: UserIdError| PartyIdError)
    }
}

/// The JSON form of a party: a phone as the integer of its digits, an id as its text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Phone(Phone),
    User(UserId),
}

/// The binary form of a party.
#[derive(Deserialize)]
enum Tagged {
    Phone(Phone),
    User(UserId),
}

impl Serialize for PartyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self, serializer.is_human_readable()) {
            (Self::Phone(phone), true) => phone.serialize(serializer),
            (Self::User(id), true) => id.serialize(serializer),
            (Self::Phone(phone), false) => {
                serializer.serialize_newtype_variant("Tagged", 0, "Phone", phone)
            }
            (Self::User(id), false) => {
                serializer.serialize_newtype_variant("Tagged", 1, "User", id)
            }
        }
    }
}

impl<'de> Deserialize<'de> for PartyId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Ok(match Tagged::deserialize(deserializer)? {
                Tagged::Phone(phone) => Self::Phone(phone),
                Tagged::User(id) => Self::User(id),
            });
        }
        Ok(match Stored::deserialize(deserializer)? {
            Stored::Phone(phone) => Self::Phone(phone),
            Stored::User(id) => Self::User(id),
        })
    }
}

impl PartialEq<Phone> for PartyId {
    fn eq(&self, other: &Phone) -> bool {
        self.phone() == Some(*other)
    }
}

impl From<Phone> for PartyId {
    fn from(phone: Phone) -> Self {
        Self::Phone(phone)
    }
}

impl From<UserId> for PartyId {
    fn from(id: UserId) -> Self {
        Self::User(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_two_letters_a_dot_and_letters_and_digits() {
        let long = format!("US.{}", "a".repeat(128));
        for good in ["US.13491208655302741918", "BR.aZ9", "US.ENT.7", "US.ENT", &long] {
            let id: UserId = good.parse().unwrap();
            assert_eq!(id.to_string(), good);
            let json = serde_json::to_string(&id).unwrap();
            assert_eq!(serde_json::from_str::<UserId>(&json).unwrap(), id);
        }
        let longer = format!("{long}a");
        for bad in ["", "US", "US.", "us.1", "U.1", "USA.1", "US.ENT.", "US.a-b", "US.é", &longer]
        {
            assert_eq!(bad.parse::<UserId>(), Err(UserIdError), "{bad}");
        }
        assert!(serde_json::from_str::<UserId>("\"x\"").is_err());
    }

    #[test]
    fn parties_have_keys_of_their_own_and_hide_themselves() {
        let phone: Phone = "+15550123456".parse().unwrap();
        let id: UserId = "US.13491208".parse().unwrap();
        let (by_phone, by_id) = (PartyId::from(phone), PartyId::from(id.clone()));
        assert_eq!(by_phone.key_bytes(), phone.as_u64().to_be_bytes());
        let forms = ["+5215512345678", "+525512345678"].map(|it| it.parse::<PartyId>().unwrap());
        assert_eq!(forms[0], forms[1]);
        assert_eq!(forms[0].key_bytes(), forms[1].key_bytes());
        assert_eq!(forms[0].key_text(), "+525512345678");
        assert_eq!(by_id.key_bytes(), b"uUS.13491208");
        assert_eq!((by_phone.phone(), by_phone.user_id()), (Some(phone), None));
        assert_eq!((by_id.phone(), by_id.user_id()), (None, Some(&id)));
        assert_eq!(format!("{by_id:?}"), "User(US.…)");
        for (party, text, json) in
            [(by_phone, "+15550123456", "15550123456"), (by_id, "US.13491208", "\"US.13491208\"")]
        {
            assert_eq!((party.to_string().as_str(), text.parse()), (text, Ok(party.clone())));
            assert_eq!(serde_json::to_string(&party).unwrap(), json);
            assert_eq!(serde_json::from_str::<PartyId>(json).unwrap(), party);
        }
        assert_eq!("15550123456".parse::<PartyId>(), Err(PartyIdError));
    }
}
