//! Pure: in which language a request's code is written.

use std::sync::Arc;

use postrider_domain::RequestId;
use postrider_domain::event::chain::OtpChannel;
use postrider_domain::event::otp::OtpLanguages;
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::{TemplateName, TemplateStatus};

use super::types::{SendMore, SendOtpError};
use crate::core::Core;
use crate::core::settings::UseTemplateError;

/// The language of texts: the first of these that there is one in, else the workspace's own,
/// else what is built in.
pub(crate) fn text_language<'a>(core: &'a Core, wanted: impl Iterator<Item = &'a str>) -> &'a str {
    let own = &*core.otp_template.language;
    let base = own.split_once('_').map(|(base, _)| base);
    core.channels.texts.language_of(wanted.chain([own]).chain(base))
}

/// The languages of a request: those that were found when it was sent, or the workspace's.
pub(crate) fn languages_of(core: &Core, id: RequestId) -> OtpLanguages {
    let found = core.hot.otps.extras.own(id).and_then(|own| own.languages);
    found.unwrap_or_else(|| OtpLanguages {
        template: core.otp_template.language.clone(),
        text: text_language(core, std::iter::empty()).into(),
    })
}

/// The language of a request's code over a channel.
pub(super) fn language_over(core: &Core, id: RequestId, channel: OtpChannel) -> String {
    let OtpLanguages { template, text } = languages_of(core, id);
    match channel {
        OtpChannel::Messaging => template.into(),
        OtpChannel::Sms | OtpChannel::Email if core.channels.texts.has(&text) => text.into(),
        // Its text was taken away meanwhile.
        OtpChannel::Sms | OtpChannel::Email => OtpTexts::BUILT_IN.to_owned(),
    }
}

/// The template that carries a request's code.
pub(crate) fn template_of(core: &Core, id: RequestId) -> Arc<TemplateName> {
    let languages = core.hot.otps.extras.own(id).and_then(|own| own.languages);
    match languages {
        Some(OtpLanguages { template, .. }) if template != core.otp_template.language => {
            Arc::new(TemplateName { name: core.otp_template.name.clone(), language: template })
        }
        _ => Arc::clone(&core.otp_template),
    }
}

/// Whether the workspace's own template may be sent.
pub(super) fn check_own_template(core: &Core) -> Result<(), SendOtpError> {
    match core.otp_template_status {
        None if core.needs_template => Err(UseTemplateError::NoSuchTemplate.into()),
        None | Some(TemplateStatus::Approved) => Ok(()),
        Some(status) => Err(UseTemplateError::NotApproved(status).into()),
    }
}

/// Whether a send goes by a template that was found for its language, beside the own one.
pub(super) fn has_found_template(core: &Core, more: Option<&SendMore>) -> bool {
    let languages = more.and_then(|more| more.languages.as_ref());
    languages.is_some_and(|languages| languages.template != core.otp_template.language)
}
