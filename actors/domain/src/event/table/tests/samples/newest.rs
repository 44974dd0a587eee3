//! Pure: payloads of the event types that came last, in the order of their rows.

use super::{media, message, template_category, template_quality};
use crate::NumberId;
use crate::event::table::*;
use crate::golden::{AT, UNIQUE};

pub(super) fn newest() -> Vec<EventData> {
    vec![
        template_category(),
        template_quality(),
        EventData::MediaReady(media(None)),
        EventData::MediaFailed(media(Some("refused".into()))),
        EventData::MessageHeld(message("held")),
        EventData::NumberChanged(NumberChangedData {
            number_id: NumberId::from_parts(AT, UNIQUE),
            field: "pace",
            previous: Some("80".into()),
            value: "1000".into(),
        }),
    ]
}
