//! Pure: the message that carries the code of a request, as it is handed to a number.

use postrider_channel::{Content, Origin, Outbound};
use postrider_domain::MessageId;

use super::languages;
use super::requests::Otp;
use crate::core::Core;

/// Returns the message; `None` if there is no number, or the version of the master key is missing.
pub(crate) fn code_message(core: &Core, otp: &Otp, message_id: MessageId) -> Option<Outbound> {
    let number = core.number_of(otp.id)?;
    let code_key = core.keys.of_version(otp.key_version)?.clone();
    let template = languages::template_of(core, otp.id);
    let newest = core.hot.otps.earlier.newest(otp.id);
    Some(Outbound {
        message_id,
        origin: Origin::Otp { request_id: otp.id, number: newest },
        number,
        workspace: core.id.clone(),
        to: otp.phone.into(),
        give_up_at: core.hot.otps.expires_at(otp),
        content: Content::Otp {
            request_id: otp.id,
            length: otp.length,
            code_key,
            button: languages::button_of(core, &template.language, number),
            template,
            chained: false,
        },
        answers: None,
        pinned: core.is_pinned(otp.id),
    })
}
