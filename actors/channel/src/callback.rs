//! Pure: what a provider reports later of messages, recipients and templates.

use sha2::{Digest, Sha256};

use postrider_domain::contact::NAME_CHARS_MAX;
use postrider_domain::{MessageId, NumberId, PartyId, PartyNames, Phone, Timestamp, UserId};

use super::{Failure, Origin};
use crate::inbound_content::InboundContent;
use crate::number_facts::NumberFacts;
use postrider_domain::template::{TemplateCategory, TemplateName, TemplateQuality};

/// Most characters of an inbound message that are kept: as many as an outbound one may have.
pub const TEXT_CHARS_MAX: usize = 4096;
/// Most characters that are kept of the provider's own words, such as `image` or `PAUSED`.
pub const WORD_CHARS_MAX: usize = 64;
/// Most characters of the provider's id of an advertisement.
const SOURCE_ID_CHARS_MAX: usize = 256;
/// Most characters of what an advertisement says, of its address and of the click on it.
pub(crate) const REFERRAL_CHARS_MAX: usize = 1024;

/// One callback of a provider about one number, with its signature verified.
#[derive(Debug, Clone, Default)]
pub struct Callback {
    /// Reports on messages. The provider may repeat and reorder them.
    pub statuses: Vec<StatusUpdate>,
    /// Messages that recipients wrote.
    pub inbound: Vec<Inbound>,
    /// What the provider says of templates.
    pub templates: Vec<TemplateUpdate>,
    /// Choices about marketing that recipients made in the provider's app.
    pub choices: Vec<MarketingChoice>,
    /// Recipients who have another phone number, or another id of the provider's, now.
    pub identity_changes: Vec<IdentityChange>,
    /// What the provider says of the number; a limit holds for all numbers of its account.
    pub facts: Vec<NumberFacts>,
    /// Errors that are about no message.
    pub errors: Vec<ChannelFault>,
    /// Items that nothing is taken from although they ought to report something.
    pub ignored: Vec<IgnoredItems>,
}

/// Why nothing is taken from an item that ought to report something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IgnoredReason {
    /// Its field is not known.
    UnknownField,
    /// Its type or status is not known.
    UnknownType,
    /// It has not what an item of its type must have.
    Unreadable,
    /// It is a message that names nobody who wrote it.
    NoSender,
}

impl IgnoredReason {
    /// Its name in events.
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

/// Items of a callback that nothing is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgnoredItems {
    /// Their field, one that the provider documents, or `other`.
    pub field: &'static str,
    /// Why.
    pub reason: IgnoredReason,
    /// How many.
    pub count: u64,
}

/// A report on one message.
#[derive(Debug, Clone)]
pub struct StatusUpdate {
    /// What the message belongs to, from the opaque field that it was sent with.
    pub origin: Origin,
    /// The provider's id of the message.
    pub provider_id: Box<str>,
    /// The state that it has reached.
    pub status: Progress,
    /// When, by the provider's clock.
    pub at: Timestamp,
    /// The phone that it was sent to, if the report says so; else it must be read from the message.
    pub to: Option<Phone>,
    /// The phone number by which the provider knows the recipient, which may differ from `to`.
    pub known_as: Option<Phone>,
    /// The provider's id of the recipient, if the report says so.
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
    /// The provider's id of the sender, if it is reported. One of the two is there.
    pub user_id: Option<UserId>,
    /// The name that the sender has chosen on the channel, if the provider reports it.
    pub username: Option<Box<str>>,
    /// The name in the sender's profile, if the provider reports it.
    pub name: Option<Box<str>>,
    /// The provider's word for its type: `text`, `image`, `button` and so on.
    pub kind: Box<str>,
    /// What its sender wrote, or the title of what they chose; empty if it has no words.
    pub text: Box<str>,
    /// What shows a person what it is where it has no words, such as the name of a place.
    pub line: Box<str>,
    /// When it was written, by the provider's clock.
    pub at: Timestamp,
    /// The advertisement that led to it, if one did.
    pub referral: Option<Referral>,
    /// The file that it has, if it has one.
    pub media: Option<InboundMedia>,
    /// Its object in the channel's own form, without the provider's ids. A text that fits has none.
    pub content: Option<InboundContent>,
    /// What the provider calls the message that it answers, or that it is a reaction to.
    pub about: Option<Box<str>>,
    /// Whether it was written to somebody else before.
    pub forwarded: bool,
}

/// A file that a recipient sent. Its content is to be got from the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundMedia {
    /// The provider's id of it.
    pub id: Box<str>,
    /// Its type, without parameters: printable characters that a header can have.
    pub mime_type: Box<str>,
    /// The SHA-256 of its content, if the provider reports it.
    pub sha256: Option<[u8; 32]>,
    /// Its name, if it has one.
    pub filename: Option<Box<str>>,
}

impl Inbound {
    /// Our id of the message. It is derived, so that a repeated callback yields the same id: from
    /// the time at which the message was written, and 80 bits of a hash of the number and the
    /// provider's id.
    #[must_use]
    pub fn message_id(&self, number: NumberId) -> MessageId {
        derived_id(number, &self.provider_id, self.at)
    }

    /// What a person reads of it: its words, else the line that stands for it.
    #[must_use]
    pub fn shown(&self) -> &str {
        if self.text.is_empty() { &self.line } else { &self.text }
    }

    /// The message with each text cut to its bound. Strangers write these texts through any
    /// channel, and they must fit into their records. The provider's id stays whole, since it is
    /// only hashed.
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

/// The first `chars_max` characters of a text.
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
    /// What it says, likewise.
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

/// What the provider says of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateUpdate {
    /// The template's name and language.
    pub template: TemplateName,
    /// What is new of it.
    pub news: TemplateNews,
}

/// What is new of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateNews {
    /// Its status.
    Status {
        /// The provider's word for it, such as `APPROVED`.
        word: Box<str>,
        /// The provider's word for why it was rejected, if it was.
        reason: Option<Box<str>>,
    },
    /// Its category; at least one of the two is there.
    Category {
        /// The category that it has now.
        new: Option<TemplateCategory>,
        /// The category that the provider holds to be right, and will give it later.
        correct: Option<TemplateCategory>,
    },
    /// How the provider rates it.
    Quality(TemplateQuality),
    /// It is made of something else, which must be listed to be known whole.
    Components,
}

/// A choice about marketing that a recipient made in the provider's app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarketingChoice {
    /// Who, by everything that the provider reports: it is at least one.
    pub parties: Vec<PartyId>,
    /// Whether they want marketing; else they have stopped it.
    pub wanted: bool,
    /// When, by the provider's clock.
    pub at: Timestamp,
}

/// The notice that a recipient has another phone number, or another id of the provider's, now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityChange {
    /// The provider's id of the notice; a repeated callback has the same.
    pub provider_id: Box<str>,
    /// The names that they had, as far as they are known: at least one.
    pub old: PartyNames,
    /// The names that they have now, as far as they are known: at least one.
    pub new: PartyNames,
    /// When, by the provider's clock, if the notice says so.
    pub at: Option<Timestamp>,
}

impl IdentityChange {
    /// Our id of the notice, derived as that of an inbound message is.
    #[must_use]
    pub fn message_id(&self, number: NumberId) -> MessageId {
        derived_id(number, &self.provider_id, self.at.unwrap_or_default())
    }
}

/// An error or a warning that the provider reports of a number and of no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelFault {
    /// What must follow from it.
    pub failure: Failure,
    /// The provider's name for it, if it gave one.
    pub title: Option<Box<str>>,
    /// Whether it holds for all numbers of the account, not for one of them.
    pub of_account: bool,
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Inbound");
        shown.field("provider_id", &self.provider_id).field("kind", &self.kind);
        shown.finish_non_exhaustive()
    }
}
