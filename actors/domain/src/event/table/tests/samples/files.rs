//! Pure: payloads of received messages and of files.

use super::phone;
use crate::event::media::MediaData;
use serde_json::json;

use crate::event::message::{
    MessageContextData, MessageReceivedData, ReceivedMediaData, ReferralData,
};
use crate::golden::{AT, UNIQUE};
use crate::{ContactId, ConversationId, MediaId, MessageId, NumberId};

pub(super) fn received() -> MessageReceivedData {
    let referral = ReferralData {
        source_type: "ad".into(),
        source_id: "42".into(),
        headline: Some("Spring".into()),
        body: None,
        source_url: None,
        ctwa_clid: None,
    };
    MessageReceivedData {
        message_id: MessageId::from_parts(AT, UNIQUE),
        conversation_id: ConversationId::from_parts(AT, UNIQUE),
        contact_id: ContactId::from_parts(AT, UNIQUE),
        number_id: Some(NumberId::from_parts(AT, UNIQUE)),
        channel: None,
        from: Some(phone().to_string()),
        user_id: None,
        username: None,
        subject: None,
        name: Some("Ann".into()),
        r#type: "text".into(),
        text: "Hi".into(),
        at: AT,
        referral: Some(referral),
        media: None,
        content: None,
        content_truncated: false,
        context: None,
    }
}

pub(super) fn received_file() -> MessageReceivedData {
    let media = ReceivedMediaData {
        media_id: MediaId::from_parts(AT, UNIQUE),
        mime_type: "image/png".to_owned(),
        filename: Some("é.png".to_owned()),
        state: "pending",
    };
    MessageReceivedData { media: Some(media), r#type: "image".into(), ..received() }
}

pub(super) fn received_place() -> MessageReceivedData {
    let referral = ReferralData {
        source_type: "ad".into(),
        source_id: "42".into(),
        headline: None,
        body: Some("é".into()),
        source_url: Some("https://ad.example.com".into()),
        ctwa_clid: Some("c1".into()),
    };
    let message_id = Some(MessageId::from_parts(AT, UNIQUE));
    MessageReceivedData {
        r#type: "location".into(),
        referral: Some(referral),
        content: Some(json!({"latitude": 1.5, "longitude": -2, "name": "é"})),
        content_truncated: true,
        context: Some(MessageContextData { message_id, forwarded: true }),
        ..received()
    }
}

pub(super) fn media(error: Option<Box<str>>) -> MediaData {
    let is_there = error.is_none();
    MediaData {
        media_id: MediaId::from_parts(AT, UNIQUE),
        message_id: Some(MessageId::from_parts(AT, UNIQUE)),
        mime_type: "image/png".to_owned(),
        filename: Some("é.png".to_owned()),
        size: is_there.then_some(3),
        sha256: is_there.then(|| "ba78".to_owned()),
        error,
    }
}
