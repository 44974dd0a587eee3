//! Pure: the language of a request's code.

use std::sync::Arc;

use postrider_domain::event::chain::OtpChannel;
use postrider_domain::event::otp::OtpLanguages;
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::{CodeButton, TemplateName, TemplateStatus};
use postrider_domain::{NumberId, RequestId};

use super::code_templates::CodeTemplate;
use super::types::SendMore;
use crate::core::Core;
use crate::core::settings::UseTemplateError;

/// Chooses the language of texts.
///
/// It is the first wanted one that has texts, else the workspace's own, else the built-in one.
pub(crate) fn text_language<'a>(core: &'a Core, wanted: impl Iterator<Item = &'a str>) -> &'a str {
    let own = &*core.otp_template.language;
    let base = own.split_once('_').map(|(base, _)| base);
    core.channels.texts.language_of(wanted.chain([own]).chain(base))
}

/// Returns the languages found when a request was sent, or the workspace's.
pub(crate) fn languages_of(core: &Core, id: RequestId) -> OtpLanguages {
    let found = core.hot.otps.extras.own(id).and_then(|own| own.languages);
    found.unwrap_or_else(|| OtpLanguages {
        template: core.otp_template.language.clone(),
        text: text_language(core, std::iter::empty()).into(),
    })
}

/// Returns the language of a request's code over a channel.
pub(super) fn language_over(core: &Core, id: RequestId, channel: OtpChannel) -> String {
    let OtpLanguages { template, text } = languages_of(core, id);
    match channel {
        OtpChannel::Messaging => template.into(),
        OtpChannel::Sms | OtpChannel::Email if core.channels.texts.has(&text) => text.into(),
        // Its text was removed meanwhile.
        OtpChannel::Sms | OtpChannel::Email => OtpTexts::BUILT_IN.to_owned(),
    }
}

/// Returns the template that carries a request's code.
pub(crate) fn template_of(core: &Core, id: RequestId) -> Arc<TemplateName> {
    let languages = core.hot.otps.extras.own(id).and_then(|own| own.languages);
    match languages {
        Some(OtpLanguages { template, .. }) if template != core.otp_template.language => {
            Arc::new(TemplateName { name: core.otp_template.name.clone(), language: template })
        }
        _ => Arc::clone(&core.otp_template),
    }
}

/// Checks whether the workspace's own template may be sent, through some number of the pool.
pub(super) fn check_own_template(core: &Core) -> Result<(), UseTemplateError> {
    let language = &core.otp_template.language;
    let check = |number| check_template(core, language, number);
    let first = core.number.map_or_else(|| check_from(core, language, None), check);
    match first {
        Err(_)
            if !core.pool.is_of_one_account()
                && core.pool.numbers().any(|it| check(it).is_ok()) =>
        {
            Ok(())
        }
        first => first,
    }
}

/// Checks whether a number can send the template of codes in this language.
pub(crate) fn check_template(
    core: &Core,
    language: &str,
    number: NumberId,
) -> Result<(), UseTemplateError> {
    check_from(core, language, core.pool.account(number).flatten())
}

/// Returns whether an account's numbers can send the template of codes in this language.
pub(crate) fn carries(core: &Core, language: &str, account: Option<&str>) -> bool {
    check_from(core, language, account).is_ok()
}

/// Returns whether an account's numbers can send the template of codes in some language.
pub(crate) fn carries_some(core: &Core, account: Option<&str>) -> bool {
    let known = core.code_templates.languages();
    known.chain([&*core.otp_template.language]).any(|language| carries(core, language, account))
}

fn check_from(core: &Core, language: &str, account: Option<&str>) -> Result<(), UseTemplateError> {
    match core.code_templates.of(language, (account, core.pool.home())) {
        Some(CodeTemplate { status: TemplateStatus::Approved, .. }) => Ok(()),
        Some(CodeTemplate { status, .. }) => Err(UseTemplateError::NotApproved(status)),
        None if core.needs_template || core.code_templates.has(language) => {
            Err(UseTemplateError::NoSuchTemplate)
        }
        None => Ok(()),
    }
}

/// Returns whether the template of codes in this language can be sent.
///
/// The named number must be able to send it, or some number of the pool if none is named.
pub(crate) fn is_found(core: &Core, language: &str, named: Option<NumberId>) -> bool {
    let check = |number| check_template(core, language, number).is_ok();
    let is_sent = || named.map_or_else(|| core.pool.numbers().any(check), check);
    core.code_templates.has(language) && is_sent()
}

/// Returns the button that takes the code, as the account of a number has the template.
///
/// It is the default if it is not known.
pub(super) fn button_of(core: &Core, language: &str, number: NumberId) -> CodeButton {
    let account = (core.pool.account(number).flatten(), core.pool.home());
    core.code_templates.of(language, account).map(|it| it.button).unwrap_or_default()
}

/// Returns whether a send uses a template found for its language, other than the workspace's own.
pub(super) fn has_found_template(core: &Core, more: Option<&SendMore>) -> bool {
    let languages = more.and_then(|more| more.languages.as_ref());
    languages.is_some_and(|languages| languages.template != core.otp_template.language)
}
