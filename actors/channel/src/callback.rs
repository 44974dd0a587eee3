//! What a provider tells afterwards: what became of messages, what recipients wrote, what it made
//! of templates.

use sha2::{Digest, Sha256};

use postrider_domain::contact::NAME_CHARS_MAX;
use postrider_domain::{MessageId, NumberId, Phone, Timestamp};

use super::{Failure, Origin, TemplateName};

/// Most characters that are kept of what somebody wrote: as many as a message of ours may have.
pub const TEXT_CHARS_MAX: usize = 4096;
/// The same of the provider's own words, such as `image` or `PAUSED`.
pub const WORD_CHARS_MAX: usize = 64;
/// Most characters of the provider's id of an advertisement.
const SOURCE_ID_CHARS_MAX: usize = 256;

/// One callback of a provider about one number, already verified.
#[derive(Debug, Clone, Default)]
pub struct Callback {
    /// What became of messages; repeated and reordered as it pleases the provider.
    pub statuses: Vec<StatusUpdate>,
    /// What recipients wrote.
    pub inbound: Vec<Inbound>,
    /// What became of templates.
    pub templates: Vec<TemplateUpdate>,
}

impl Callback {
    /// Adds what another tells.
    pub fn append(&mut self, other: Self) {
        self.statuses.extend(other.statuses);
        self.inbound.extend(other.inbound);
        self.templates.extend(other.templates);
    }
}

/// A report on one message.
#[derive(Debug, Clone)]
pub struct StatusUpdate {
    /// What the message belongs to, from the opaque field that it was sent with.
    pub origin: Origin,
    /// What the provider calls the message.
    pub provider_id: Box<str>,
    /// How far it has come.
    pub status: Progress,
    /// When, by the provider's clock.
    pub at: Timestamp,
    /// The phone that it went to, where the channel knows; else the message tells.
    pub to: Option<Phone>,
    /// What the provider calls whoever has that phone, which can be another number.
    pub known_as: Option<Phone>,
}

/// How far a message has come.
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
    /// What the provider calls it; repeated callbacks repeat it.
    pub provider_id: Box<str>,
    /// Who wrote.
    pub from: Phone,
    /// The name in the writer's profile, if the provider tells it.
    pub name: Option<Box<str>>,
    /// The provider's word for what it is: `text`, `image`, `button` and so on.
    pub kind: Box<str>,
    /// Its text or caption; empty if it has none.
    pub text: Box<str>,
    /// When it was written, by the provider's clock.
    pub at: Timestamp,
    /// The advertisement that led to it.
    pub referral: Option<Referral>,
}

impl Inbound {
    /// What we call the message. It is worked out, so that a callback that comes again gives the
    /// same id: the moment it was written, and 80 bits of the number and the provider's id.
    #[must_use]
    pub fn message_id(&self, number: NumberId) -> MessageId {
        let digest = Sha256::new().chain_update(number.as_bytes());
        let digest = digest.chain_update(self.provider_id.as_bytes()).finalize();
        let unique = digest[..10].iter().fold(0, |unique, byte| unique << 8 | u128::from(*byte));
        MessageId::from_parts(self.at, unique)
    }

    /// The message without what is too long in it, whatever channel it came from: strangers write it,
    /// and it must fit where it is kept. What the provider calls it stays whole, as that is only hashed.
    #[must_use]
    pub fn clipped(self) -> Self {
        let Self { name, kind, text, referral, .. } = self;
        Self {
            name: name.map(|name| clip(name, NAME_CHARS_MAX)),
            kind: clip(kind, WORD_CHARS_MAX),
            text: clip(text, TEXT_CHARS_MAX),
            referral: referral.map(|Referral { source_type, source_id, headline }| Referral {
                source_type: clip(source_type, WORD_CHARS_MAX),
                source_id: clip(source_id, SOURCE_ID_CHARS_MAX),
                headline: headline.map(|headline| clip(headline, NAME_CHARS_MAX)),
            }),
            ..self
        }
    }
}

/// The first `chars_max` characters of a text.
fn clip(text: Box<str>, chars_max: usize) -> Box<str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => text[..end].into(),
        None => text,
    }
}

/// The advertisement that led somebody to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referral {
    /// What kind of source: `ad` or `post`.
    pub source_type: Box<str>,
    /// The provider's id of the source.
    pub source_id: Box<str>,
    /// Its headline, if the provider tells it.
    pub headline: Option<Box<str>>,
}

/// What became of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateUpdate {
    /// Which one.
    pub template: TemplateName,
    /// The provider's word for its status, such as `APPROVED`.
    pub status: Box<str>,
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Inbound");
        shown.field("provider_id", &self.provider_id).field("kind", &self.kind);
        shown.finish_non_exhaustive()
    }
}
