//! An endpoint: where events go, which, and how.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::{EventKind, PublicEvent, Timestamp, WebhookId};
use crate::keys::MasterKeys;
use crate::sealed::{OpenError, Sealed};

use super::delivery::{DisabledReason, LineRules};
use super::signature::WebhookSecret;

/// For how long a secret signs beside the one that replaced it.
pub(crate) const ROTATION: Duration = Duration::from_secs(24 * 3600);

/// What the owner of an endpoint decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSettings {
    /// Where deliveries go.
    pub url: String,
    /// Types of the events that are delivered; none: all.
    pub events: Vec<String>,
    /// What the owner says of it.
    pub description: Option<String>,
    /// Whether anything is delivered.
    pub enabled: bool,
    /// Most deliveries in a second.
    pub rate_limit_per_second: Option<NonZeroU32>,
    /// Whether each delivery waits for those before it that are about the same contact to come to
    /// an end; a batch for the one before.
    pub ordered: bool,
    /// Whether events are delivered as an array of up to a hundred.
    pub batch: bool,
}

/// An endpoint as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookInfo {
    /// Its id.
    pub id: WebhookId,
    /// What its owner decided.
    pub settings: WebhookSettings,
    /// Why it was disabled, if not by its owner.
    pub disabled_reason: Option<DisabledReason>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// An endpoint as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    pub(crate) id: WebhookId,
    pub(crate) settings: WebhookSettings,
    pub(crate) disabled_reason: Option<DisabledReason>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    /// When it was last enabled.
    pub(crate) enabled_at: Timestamp,
    pub(crate) secret: Sealed,
    /// The secret before, and until when it signs too.
    pub(crate) previous_secret: Option<(Sealed, Timestamp)>,
}

impl Endpoint {
    pub(crate) fn info(&self) -> WebhookInfo {
        WebhookInfo {
            id: self.id,
            settings: self.settings.clone(),
            disabled_reason: self.disabled_reason,
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }

    pub(super) fn line_rules(&self) -> LineRules {
        LineRules {
            enabled: self.settings.enabled,
            ordered: self.settings.ordered,
            per_second: self.settings.rate_limit_per_second,
            enabled_at: self.enabled_at,
        }
    }

    /// Whether an event is delivered to it. A test event goes to the endpoint that it names, and to
    /// no other.
    pub(super) fn takes(&self, event: &PublicEvent) -> bool {
        if let PublicEvent::Other { kind: EventKind::WebhookTest, .. } = event {
            return event.data()["webhook_id"] == self.id.to_string();
        }
        let kinds = &self.settings.events;
        kinds.is_empty() || kinds.iter().any(|kind| kind == event.kind())
    }

    /// Puts what is under an earlier master key under the current one; nothing if there is none.
    pub(crate) fn reseal(&mut self, keys: &MasterKeys) -> Option<()> {
        let place = place(self.id);
        let secret = self.secret.resealed(keys, &place);
        let previous = self.previous_secret.as_ref();
        let previous = previous.and_then(|(secret, _)| secret.resealed(keys, &place));
        let changed = (secret.is_some() || previous.is_some()).then_some(());
        if let Some(secret) = secret {
            self.secret = secret;
        }
        if let (Some(secret), Some((kept, _))) = (previous, &mut self.previous_secret) {
            *kept = secret;
        }
        changed
    }

    /// The secrets that sign at `now`.
    pub(super) fn secrets(
        &self,
        keys: &MasterKeys,
        now: Timestamp,
    ) -> Result<Vec<WebhookSecret>, OpenError> {
        let previous = self.previous_secret.as_ref().filter(|(_, until)| now < *until);
        let sealed = std::iter::once(&self.secret).chain(previous.map(|(secret, _)| secret));
        sealed.map(|sealed| open(sealed, keys, self.id)).collect()
    }
}

/// Encrypts an endpoint's secret.
pub(crate) fn seal(secret: &WebhookSecret, keys: &MasterKeys, id: WebhookId) -> Sealed {
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
    use crate::domain::Timestamp;

    #[test]
    fn both_secrets_outlive_a_rotation() {
        let at = Timestamp::from_millis(1_700_000_000_000);
        let (old, new) = (MasterKeys::single([7; 32]), MasterKeys::new([(2, [8; 32])]).unwrap());
        let both = MasterKeys::new([(1, [7; 32]), (2, [8; 32])]).unwrap();
        let id = WebhookId::from_parts(at, 1);
        let sealed = |text: &str| seal(&WebhookSecret::new(text.as_bytes().to_vec()), &old, id);
        let mut endpoint = Endpoint {
            id,
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
            secret: sealed("now"),
            previous_secret: Some((sealed("before"), at.plus(ROTATION))),
        };
        assert_eq!(endpoint.reseal(&old), None);
        assert_eq!(endpoint.reseal(&both), Some(()));
        assert_eq!(endpoint.reseal(&both), None);
        let secrets = endpoint.secrets(&new, at).unwrap();
        let texts: Vec<_> = secrets.iter().map(WebhookSecret::as_bytes).collect();
        assert_eq!(texts, [&b"now"[..], b"before"]);
        assert!(endpoint.secrets(&old, at).is_err());
    }
}
