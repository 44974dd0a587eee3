//! Pure: a provider's later reports on messages, recipients and templates.

use sha2::{Digest, Sha256};

use postrider_domain::contact::NAME_CHARS_MAX;
use postrider_domain::{MessageId, NumberId, PartyId, PartyNames, Phone, Timestamp, UserId};

use super::{Failure, Origin};
use crate::inbound_content::InboundContent;
use crate::number_facts::NumberFacts;
use postrider_domain::template::{TemplateCategory, TemplateName, TemplateQuality};

/// The maximum number of stored characters of an inbound message: the maximum of an outbound one.
pub const TEXT_CHARS_MAX: usize = 4096;
/// The maximum number of stored characters of the provider's own words, such as `image` or
/// `PAUSED`.
pub const WORD_CHARS_MAX: usize = 64;
/// The maximum number of characters of the provider's id of an advertisement.
const SOURCE_ID_CHARS_MAX: usize = 256;
/// The maximum number of characters of an advertisement's text, its address and the id of its
/// click.
pub(crate) const REFERRAL_CHARS_MAX: usize = 1024;

/// One callback of a provider about one number, with its signature verified.
#[derive(Debug, Clone, Default)]
pub struct Callback {
    /// Reports on messages. The provider may repeat and reorder them.
    pub statuses: Vec<StatusUpdate>,
    /// Messages that recipients wrote.
    pub inbound: Vec<Inbound>,
    /// News of templates.
    pub templates: Vec<TemplateUpdate>,
    /// Choices about marketing that recipients made in the provider's app.
    pub choices: Vec<MarketingChoice>,
    /// Recipients who have another phone number, or another id of the provider's, now.
    pub identity_changes: Vec<IdentityChange>,
    /// News of the number; a limit holds for all numbers of its account.
    pub facts: Vec<NumberFacts>,
    /// Errors that concern no message.
    pub errors: Vec<ChannelFault>,
    /// Items that should report something but are ignored.
    pub ignored: Vec<IgnoredItems>,
}

/// The reason why an item that should report something is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IgnoredReason {
    /// The field of the item is not known.
    UnknownField,
    /// The type or status of the item is not known.
    UnknownType,
    /// The item lacks a part that an item of its type must have.
    Unreadable,
    /// The item is a message without a sender.
    NoSender,
}

impl IgnoredReason {
    /// Returns the name of the reason in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownField => "unknown_field",
            Self::UnknownType => "unknown_type",
            Self::Unreadable => "unreadable",
            Self::NoSender => "no_sender",
        }
    }
}

/// Ignored items of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredItems {
    /// Their field, one that the provider documents, or `other`.
    pub field: &'static str,
    /// The reason why they are ignored.
    pub reason: IgnoredReason,
    /// The number of items.
    pub count: u64,
}

/// A report on one message.
#[derive(Debug, Clone)]
pub struct StatusUpdate {
    /// The origin of the message, from the opaque field with which it was sent.
    pub origin: Origin,
    /// The provider's id of the message.
    pub provider_id: Box<str>,
    /// The state that the message has reached.
    pub status: Progress,
    /// The time of the report, by the provider's clock.
    pub at: Timestamp,
    /// The phone to which it was sent, if the report has it; else it must be read from the message.
    pub to: Option<Phone>,
    /// The phone number by which the provider knows the recipient, which may differ from `to`.
    pub known_as: Option<Phone>,
    /// The provider's id of the recipient, if the report has it.
    pub user_id: Option<UserId>,
}

/// The state that a message has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The provider has sent it.
    Sent,
    /// It is on the recipient's device.
    Delivered,
    /// The recipient has opened it.
    Read,
    /// It was not delivered.
    Failed(Failure),
}

/// A message that a recipient wrote; its `Debug` shows neither sender nor text.
#[derive(Clone)]
pub struct Inbound {
    /// The provider's id of the message; a repeated callback has the same.
    pub provider_id: Box<str>,
    /// The sender's phone, unless the sender hides it.
    pub from: Option<Phone>,
    /// The provider's id of the sender, if it is reported. At least one of the two is set.
    pub user_id: Option<UserId>,
    /// The name that the sender has chosen on the channel, if the provider reports it.
    pub username: Option<Box<str>>,
    /// The name in the sender's profile, if the provider reports it.
    pub name: Option<Box<str>>,
    /// The provider's word for its type: `text`, `image`, `button` and so on.
    pub kind: Box<str>,
    /// The sender's words, or the title of the sender's choice; empty if there are no words.
    pub text: Box<str>,
    /// The line that describes a message without words to a person, such as the name of a place.
    pub line: Box<str>,
    /// The time at which it was written, by the provider's clock.
    pub at: Timestamp,
    /// The advertisement that led to it, if one did.
    pub referral: Option<Referral>,
    /// The file of the message, if it has one.
    pub media: Option<InboundMedia>,
    /// The object of the message in the channel's own form, without the provider's ids.
    ///
    /// A text that fits has none.
    pub content: Option<InboundContent>,
    /// The provider's id of the message that it answers, or to which it is a reaction.
    pub about: Option<Box<str>>,
    /// Set if it was written to somebody else before.
    pub forwarded: bool,
}

/// A file that a recipient sent. Its content must be downloaded from the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundMedia {
    /// The provider's id of the file.
    pub id: Box<str>,
    /// Its type, without parameters: printable characters that a header can have.
    pub mime_type: Box<str>,
    /// The SHA-256 of its content, if the provider reports it.
    pub sha256: Option<[u8; 32]>,
    /// Its name, if it has one.
    pub filename: Option<Box<str>>,
}

impl Inbound {
    /// Returns our id of the message, which is derived so that a repeated callback yields the same
    /// id.
    ///
    /// It consists of the time at which the message was written, and 80 bits of a hash of the
    /// number and the provider's id.
    #[must_use]
    pub fn message_id(&self, number: NumberId) -> MessageId {
        derived_id(number, &self.provider_id, self.at)
    }

    /// Returns the text that a person reads: the words, or else the line in place of them.
    #[must_use]
    pub fn shown(&self) -> &str {
        if self.text.is_empty() { &self.line } else { &self.text }
    }

    /// Returns the message with each text cut to its bound.
    ///
    /// Strangers write these texts through any channel, and they must fit into their records. The
    /// provider's id stays whole, since it is only hashed.
    #[must_use]
    pub fn clipped(self) -> Self {
        let Self { name, username, kind, text, line, referral, .. } = self;
        Self {
            username: username.map(|name| clip(name, NAME_CHARS_MAX)),
            name: name.map(|name| clip(name, NAME_CHARS_MAX)),
            kind: clip(kind, WORD_CHARS_MAX),
            text: clip(text, TEXT_CHARS_MAX),
            line: clip(line, TEXT_CHARS_MAX),
            referral: referral.map(Referral::clipped),
            ..self
        }
    }
}

fn derived_id(number: NumberId, provider_id: &str, at: Timestamp) -> MessageId {
    let digest = Sha256::new().chain_update(number.as_bytes());
    let digest = digest.chain_update(provider_id.as_bytes()).finalize();
    let unique = digest[..10].iter().fold(0, |unique, byte| unique << 8 | u128::from(*byte));
    MessageId::from_parts(at, unique)
}

/// Returns the first `chars_max` characters of a text.
fn clip(text: Box<str>, chars_max: usize) -> Box<str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => text[..end].into(),
        None => text,
    }
}

/// The advertisement that led a recipient to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Referral {
    /// The type of the source: `ad` or `post`; empty if the provider does not report it.
    pub source_type: Box<str>,
    /// The provider's id of the source, likewise.
    pub source_id: Box<str>,
    /// Its headline, if the provider reports it.
    pub headline: Option<Box<str>>,
    /// The text of the advertisement, likewise.
    pub body: Option<Box<str>>,
    /// Its address, likewise.
    pub source_url: Option<Box<str>>,
    /// The provider's id of the click, likewise.
    pub ctwa_clid: Option<Box<str>>,
}

impl Referral {
    fn clipped(self) -> Self {
        let long = |text: Option<Box<str>>| text.map(|text| clip(text, REFERRAL_CHARS_MAX));
        Self {
            source_type: clip(self.source_type, WORD_CHARS_MAX),
            source_id: clip(self.source_id, SOURCE_ID_CHARS_MAX),
            headline: self.headline.map(|headline| clip(headline, NAME_CHARS_MAX)),
            body: long(self.body),
            source_url: long(self.source_url),
            ctwa_clid: long(self.ctwa_clid),
        }
    }
}

/// News of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateUpdate {
    /// The template's name and language.
    pub template: TemplateName,
    /// The news.
    pub news: TemplateNews,
}

/// The kind of news of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateNews {
    /// A new status.
    Status {
        /// The provider's word for the status, such as `APPROVED`.
        word: Box<str>,
        /// The provider's word for the reason of a rejection, if it was rejected.
        reason: Option<Box<str>>,
    },
    /// A new category; at least one of the two is set.
    Category {
        /// The present category.
        new: Option<TemplateCategory>,
        /// The category that the provider considers right, and will set later.
        correct: Option<TemplateCategory>,
    },
    /// The provider's new rating.
    Quality(TemplateQuality),
    /// The components have changed; the template must be listed to learn the new ones.
    Components,
}

/// A choice about marketing that a recipient made in the provider's app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarketingChoice {
    /// The recipient, by all ids and phones that the provider reports: at least one.
    pub parties: Vec<PartyId>,
    /// `true` if the recipient wants marketing, `false` if they have stopped it.
    pub wanted: bool,
    /// The time of the choice, by the provider's clock.
    pub at: Timestamp,
}

/// The notice that a recipient has another phone number, or another id of the provider's, now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityChange {
    /// The provider's id of the notice; a repeated callback has the same.
    pub provider_id: Box<str>,
    /// The former names, as far as they are known: at least one.
    pub old: PartyNames,
    /// The present names, as far as they are known: at least one.
    pub new: PartyNames,
    /// The time of the change, by the provider's clock, if the notice has it.
    pub at: Option<Timestamp>,
}

impl IdentityChange {
    /// Returns our id of the notice, derived like that of an inbound message.
    #[must_use]
    pub fn message_id(&self, number: NumberId) -> MessageId {
        derived_id(number, &self.provider_id, self.at.unwrap_or_default())
    }
}

/// An error or a warning of the provider about a number and no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelFault {
    /// The required consequence of the error.
    pub failure: Failure,
    /// The provider's name for it, if it gave one.
    pub title: Option<Box<str>>,
    /// Set if it holds for all numbers of the account, not for one of them.
    pub of_account: bool,
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Inbound");
        shown.field("provider_id", &self.provider_id).field("kind", &self.kind);
        shown.finish_non_exhaustive()
    }
}
