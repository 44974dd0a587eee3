//! Finds the languages of a request whose sender asks for one.

use postrider_domain::event::otp::OtpLanguages;
use postrider_domain::otp_text::sent_language;
use postrider_domain::template::TemplateStatus;

use crate::core::command::Context;
use crate::core::otp::languages;
use crate::core::otp::types::{SendMore, SendOtpError};
use crate::templates::find_template;

/// Sets the languages of a send: the first in which there is a template that may be sent, and a
/// text. Nothing is looked up for a send that asks for none.
pub(crate) fn resolve(
    more: Option<&mut SendMore>,
    context: &Context<'_>,
) -> Result<(), SendOtpError> {
    let Some(more) = more else { return Ok(()) };
    let Some(language) = &more.language else { return Ok(()) };
    let own = &context.core.otp_template;
    if more.inbound {
        // Its person writes it, and nothing is sent.
        let text = sent_language(language.served_by().chain([&*own.language]));
        more.languages = Some(OtpLanguages { template: text.into(), text: text.into() });
        return Ok(());
    }
    let mut template = &*own.language;
    for wanted in language.served_by() {
        if wanted == &*own.language {
            break;
        }
        let found = find_template(context, &own.name, wanted)?;
        if found.is_some_and(|found| found.status == TemplateStatus::Approved) {
            template = wanted;
            break;
        }
    }
    let text = languages::text_language(context.core, language.served_by());
    more.languages = Some(OtpLanguages { template: template.into(), text: text.into() });
    Ok(())
}
