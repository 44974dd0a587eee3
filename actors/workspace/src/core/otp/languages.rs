//! Pure: the language of a request's code, and the template that carries codes.
//!
//! It knows the template's status and the button that takes the code, in each language and with
//! each account.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_domain::event::chain::OtpChannel;
use postrider_domain::event::otp::OtpLanguages;
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::{CodeButton, TemplateName, TemplateStatus};
use postrider_domain::{NumberId, RequestId};

use super::types::SendMore;
use crate::core::Core;
use crate::core::settings::UseTemplateError;

/// The template in one language, as one account has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeTemplate {
    /// The status, which decides whether it may be sent.
    pub(crate) status: TemplateStatus,
    /// The button that takes the code.
    pub(crate) button: CodeButton,
}

/// The template in one language.
#[derive(Debug)]
pub(crate) struct InLanguage {
    /// The account that has it; `None`: the account of the workspace's first number.
    pub(crate) account: Option<Box<str>>,
    /// The template of that account, and of numbers without one.
    pub(crate) own: CodeTemplate,
    /// The template of other accounts.
    pub(crate) others: Vec<(Box<str>, CodeTemplate)>,
}

/// The workspace's template of codes by its languages, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct CodeTemplates(BTreeMap<Box<str>, InLanguage>);

impl CodeTemplates {
    /// Returns whether some account has the template in a language.
    pub(crate) fn has(&self, language: &str) -> bool {
        self.0.contains_key(language)
    }

    /// Returns the languages in which some account has the template.
    pub(crate) fn languages(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|language| &**language)
    }

    /// Returns the template in a language as an account has it, if it does.
    ///
    /// `home` is the account of the workspace's first number.
    pub(crate) fn of(
        &self,
        language: &str,
        (account, home): (Option<&str>, Option<&str>),
    ) -> Option<CodeTemplate> {
        let InLanguage { account: owner, own, others } = self.0.get(language)?;
        let owner = owner.as_deref().or(home);
        if account.is_none() || owner.is_none() || owner == account {
            return Some(*own);
        }
        others.iter().find(|(of, _)| Some(&**of) == account).map(|(_, it)| *it)
    }

    /// Sets the template in a language.
    pub(crate) fn take(&mut self, language: &str, template: InLanguage) {
        self.0.insert(language.into(), template);
    }
}

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
pub(crate) fn has_sendable_template(core: &Core, language: &str, named: Option<NumberId>) -> bool {
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
