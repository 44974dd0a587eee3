//! Pure: payloads that tell of files.

use super::received;
use crate::event::media::MediaData;
use crate::event::message::{MessageReceivedData, ReceivedMediaData};
use crate::golden::{AT, UNIQUE};
use crate::{MediaId, MessageId};

pub(super) fn received_file() -> MessageReceivedData {
    let media = ReceivedMediaData {
        media_id: MediaId::from_parts(AT, UNIQUE),
        mime_type: "image/png".to_owned(),
        filename: Some("é.png".to_owned()),
        state: "pending",
    };
    MessageReceivedData { media: Some(media), r#type: "image".into(), ..received() }
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
