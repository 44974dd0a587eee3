//! Finds the languages of a request whose sender asks for one.

use postrider_domain::event::otp::OtpLanguages;
use postrider_domain::otp_text::sent_language;

use crate::core::command::Context;
use crate::core::otp::languages;
use crate::core::otp::types::{SendMore, SendOtpError};
use crate::core::sticky;

/// Sets the languages of a send: the first with a template that may be sent, and with a text.
///
/// Nothing is looked up for a send that asks for none.
pub(crate) fn resolve(
    more: Option<&mut SendMore>,
    context: &Context<'_>,
) -> Result<(), SendOtpError> {
    let Some(more) = more else { return Ok(()) };
    let Some(language) = &more.language else { return Ok(()) };
    let own = &context.core.otp_template;
    if more.inbound {
        // The person writes it, and nothing is sent.
        let text = sent_language(language.served_by().chain([&*own.language]));
        more.languages = Some(OtpLanguages { template: text.into(), text: text.into() });
        return Ok(());
    }
    // An unknown number is refused when the number is chosen.
    let named = more.from.as_deref().and_then(|name| sticky::named(context, name));
    let mut template = &*own.language;
    for wanted in language.served_by() {
        if wanted == &*own.language {
            break;
        }
        if languages::is_found(context.core, wanted, named) {
            template = wanted;
            break;
        }
    }
    let text = languages::text_language(context.core, language.served_by());
    more.languages = Some(OtpLanguages { template: template.into(), text: text.into() });
    Ok(())
}
