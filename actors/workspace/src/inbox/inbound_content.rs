//! Pure: the content of a contact's message besides its text.

use postrider_channel::callback::{Inbound, Referral};
use postrider_domain::MessageId;
use postrider_domain::event::message::ReferralData;
use serde_json::Value;

use crate::conversations::{WrittenContent, WrittenContext, WrittenMedia};

/// The type of a message whose content is about another one.
const REACTION: &str = "reaction";

/// Returns the content of a contact's message besides its text, with our ids.
///
/// `None` if there is none. The message is `about` another one, if that is known.
pub(super) fn of_message(
    inbound: &Inbound,
    media: Option<&WrittenMedia>,
    about: Option<MessageId>,
) -> Option<Box<WrittenContent>> {
    let is_about = inbound.about.is_some() || inbound.forwarded;
    if inbound.content.is_none() && inbound.referral.is_none() && !is_about {
        return None;
    }
    let is_reaction = &*inbound.kind == REACTION;
    let object = inbound.content.clone().map(|mut content| {
        if let Some(media) = media {
            content.insert("media_id", media.media_id.to_string().into());
        }
        if is_reaction {
            content.insert("message_id", about.map(|id| id.to_string()).into());
        }
        content
    });
    let answers = !is_reaction && inbound.about.is_some();
    Some(Box::new(WrittenContent {
        truncated: object.as_ref().is_some_and(|content| content.is_truncated()),
        object: object.map(|content| Value::Object(content.into_fields())),
        context: (answers || inbound.forwarded).then_some(WrittenContext {
            message_id: about.filter(|_| answers),
            forwarded: inbound.forwarded,
        }),
        referral: inbound.referral.clone().map(referral_data),
    }))
}

fn referral_data(referral: Referral) -> ReferralData {
    let Referral { source_type, source_id, headline, body, source_url, ctwa_clid } = referral;
    ReferralData { source_type, source_id, headline, body, source_url, ctwa_clid }
}
