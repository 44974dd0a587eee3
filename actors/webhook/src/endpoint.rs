//! A webhook endpoint: its settings, its secrets, and its filter of events.

use std::num::NonZeroU32;
use std::time::Duration;

use postrider_domain::keys::MasterKeys;
use postrider_domain::{EventKind, PublicEvent, Timestamp, WebhookId};
use postrider_runtime::sealed::{OpenError, Sealed};
use serde::{Deserialize, Serialize};

use crate::client::signature::WebhookSecret;
use crate::delivery::QueueRules;
use crate::retry_schedule::DisabledReason;

/// The time for which a secret still signs after it was replaced.
const ROTATION: Duration = Duration::from_secs(24 * 3600);

/// The maximum of secrets that sign besides the newest; the oldest are dropped first.
const PREVIOUS_SECRETS_MAX: usize = 4;

/// The settings of an endpoint that its owner chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSettings {
    /// The URL to which deliveries are posted.
    pub url: String,
    /// The types of the events that are delivered; empty for all types.
    pub events: Vec<String>,
    /// The owner's note.
    pub description: Option<String>,
    /// Set if events are delivered.
    pub enabled: bool,
    /// The maximum of deliveries in a second; `None` for no limit.
    pub rate_limit_per_second: Option<NonZeroU32>,
    /// Set if each delivery waits until the earlier ones about the same contact have ended. A batch
    /// waits for the batch before it.
    pub ordered: bool,
    /// Set if events are delivered as an array of up to a hundred.
    pub batch: bool,
}

/// An endpoint as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookInfo {
    /// Its id.
    pub id: WebhookId,
    /// The owner's settings.
    pub settings: WebhookSettings,
    /// The reason why it was disabled, if not by its owner.
    pub disabled_reason: Option<DisabledReason>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last change.
    pub updated_at: Timestamp,
    /// The time until which the secret before signs too; it may be over.
    pub previous_secret_ends_at: Option<Timestamp>,
}

/// An endpoint as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its id, to which the secrets are bound.
    pub id: WebhookId,
    /// The owner's settings.
    pub settings: WebhookSettings,
    /// The reason why it was disabled, if not by its owner.
    pub disabled_reason: Option<DisabledReason>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last change.
    pub updated_at: Timestamp,
    /// The time at which it was last enabled, or its URL changed. Earlier failures do not count.
    pub enabled_at: Timestamp,
    /// The secret that signs deliveries, encrypted.
    pub secret: Sealed,
    /// Earlier secrets, oldest first, each with the moment until which it signs too.
    pub previous_secrets: Vec<(Sealed, Timestamp)>,
}

impl Endpoint {
    /// Returns the owner's view: everything but the secrets.
    pub fn info(&self) -> WebhookInfo {
        WebhookInfo {
            id: self.id,
            settings: self.settings.clone(),
            disabled_reason: self.disabled_reason,
            created_at: self.created_at,
            updated_at: self.updated_at,
            previous_secret_ends_at: self.previous_secrets.last().map(|(_, until)| *until),
        }
    }

    pub(super) fn queue_rules(&self) -> QueueRules {
        QueueRules {
            enabled: self.settings.enabled,
            ordered: self.settings.ordered,
            per_second: self.settings.rate_limit_per_second,
            enabled_at: self.enabled_at,
        }
    }

    /// Returns whether an event is delivered to it.
    ///
    /// A test event is delivered only to the endpoint that it names.
    pub(super) fn takes(&self, event: &PublicEvent) -> bool {
        if let PublicEvent::Other { kind: EventKind::WebhookTest, .. } = event {
            return event.data()["webhook_id"] == self.id.to_string();
        }
        let kinds = &self.settings.events;
        kinds.is_empty() || kinds.iter().any(|kind| kind == event.kind())
    }

    /// Encrypts secrets under an earlier master key with the current one. Returns `None` if there
    /// are none.
    pub fn reseal(&mut self, keys: &MasterKeys) -> Option<()> {
        let place = place(self.id);
        let previous = self.previous_secrets.iter_mut().map(|(secret, _)| secret);
        let mut changed = None;
        for secret in std::iter::once(&mut self.secret).chain(previous) {
            if let Some(resealed) = secret.resealed(keys, &place) {
                *secret = resealed;
                changed = Some(());
            }
        }
        changed
    }

    /// Replaces the secret. The old one still signs for a day, and so do a few before it.
    pub fn rotate(&mut self, secret: Sealed, now: Timestamp) {
        let before = std::mem::replace(&mut self.secret, secret);
        self.previous_secrets.retain(|(_, until)| now < *until);
        self.previous_secrets.push((before, now.plus(ROTATION)));
        let too_many = self.previous_secrets.len().saturating_sub(PREVIOUS_SECRETS_MAX);
        self.previous_secrets.drain(..too_many);
    }

    /// Decrypts the secrets that sign at `now` or later.
    pub(super) fn open_secrets(
        &self,
        keys: &MasterKeys,
        now: Timestamp,
    ) -> Result<OpenSecrets, OpenError> {
        let previous = self.previous_secrets.iter().rev().filter(|(_, until)| now < *until);
        let previous = previous.map(|(secret, until)| (secret, Some(*until)));
        let sealed = std::iter::once((&self.secret, None)).chain(previous);
        let opened = sealed.map(|(sealed, until)| Ok((open(sealed, keys, self.id)?, until)));
        opened.collect::<Result<_, _>>().map(OpenSecrets)
    }
}

/// The decrypted secrets of an endpoint, newest first, each with the moment until which it signs.
pub(super) struct OpenSecrets(Vec<(WebhookSecret, Option<Timestamp>)>);

impl OpenSecrets {
    /// Returns the secrets that sign at `now`, newest first.
    pub(super) fn signing(&self, now: Timestamp) -> impl Iterator<Item = &WebhookSecret> {
        let signing = self.0.iter().filter(move |(_, until)| until.is_none_or(|until| now < until));
        signing.map(|(secret, _)| secret)
    }
}

/// Encrypts an endpoint's secret under the current master key. It decrypts only with the same `id`.
pub fn seal(secret: &WebhookSecret, keys: &MasterKeys, id: WebhookId) -> Sealed {
    Sealed::seal(keys, &place(id), secret.as_bytes())
}

fn open(sealed: &Sealed, keys: &MasterKeys, id: WebhookId) -> Result<WebhookSecret, OpenError> {
    sealed.open(keys, &place(id)).map(WebhookSecret::new)
}

fn place(id: WebhookId) -> Vec<u8> {
    [b"webhook", id.as_bytes().as_slice()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_domain::Timestamp;

    fn endpoint(secret: Sealed, at: Timestamp) -> Endpoint {
        Endpoint {
            id: WebhookId::from_parts(at, 1),
            settings: WebhookSettings {
                url: "https://example.com".to_owned(),
                events: Vec::new(),
                description: None,
                enabled: true,
                rate_limit_per_second: None,
                ordered: false,
                batch: false,
            },
            disabled_reason: None,
            created_at: at,
            updated_at: at,
            enabled_at: at,
            secret,
            previous_secrets: Vec::new(),
        }
    }

    #[test]
    fn both_secrets_outlive_a_rotation() {
        let at = Timestamp::from_millis(1_700_000_000_000);
        let (old, new) = (MasterKeys::single([7; 32]), MasterKeys::new([(2, [8; 32])]).unwrap());
        let both = MasterKeys::new([(1, [7; 32]), (2, [8; 32])]).unwrap();
        let id = WebhookId::from_parts(at, 1);
        let sealed = |text: &str| seal(&WebhookSecret::new(text.as_bytes().to_vec()), &old, id);
        let mut endpoint = endpoint(sealed("now"), at);
        endpoint.previous_secrets.push((sealed("before"), at.plus(ROTATION)));
        assert_eq!(endpoint.reseal(&old), None);
        assert_eq!(endpoint.reseal(&both), Some(()));
        assert_eq!(endpoint.reseal(&both), None);
        let secrets = endpoint.open_secrets(&new, at).unwrap();
        let texts: Vec<_> = secrets.signing(at).map(WebhookSecret::as_bytes).collect();
        assert_eq!(texts, [&b"now"[..], b"before"]);
        assert!(endpoint.open_secrets(&old, at).is_err());
    }

    #[test]
    fn every_secret_signs_for_a_day_and_five_at_the_most() {
        let at = Timestamp::from_millis(1_700_000_000_000);
        let keys = MasterKeys::single([7; 32]);
        let id = WebhookId::from_parts(at, 1);
        let sealed = |text: &str| seal(&WebhookSecret::new(text.as_bytes().to_vec()), &keys, id);
        let mut endpoint = endpoint(sealed("a"), at);
        let texts = |endpoint: &Endpoint, now| {
            let text = |it: &WebhookSecret| String::from_utf8(it.as_bytes().to_vec()).unwrap();
            let secrets = endpoint.open_secrets(&keys, now).unwrap();
            let texts: String = secrets.signing(now).map(text).collect();
            // They may have been opened earlier.
            let secrets = endpoint.open_secrets(&keys, at).unwrap();
            assert_eq!(secrets.signing(now).map(text).collect::<String>(), texts);
            texts
        };
        let hours = |hours: u64| at.plus(Duration::from_secs(3600 * hours));
        endpoint.rotate(sealed("b"), at);
        endpoint.rotate(sealed("c"), hours(1));
        assert_eq!(texts(&endpoint, hours(23)), "cba");
        assert_eq!(texts(&endpoint, hours(24)), "cb");
        endpoint.rotate(sealed("d"), hours(24));
        assert_eq!(texts(&endpoint, hours(24)), "dcb");
        for text in ["e", "f", "g"] {
            endpoint.rotate(sealed(text), hours(24));
        }
        assert_eq!(texts(&endpoint, hours(24)), "gfedc");
    }
}
