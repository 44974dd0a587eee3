//! Pure: the status of the template that carries codes, in each language and with each account.
//!
//! It also knows the button that takes the code.

use std::collections::BTreeMap;

use postrider_domain::template::{CodeButton, TemplateStatus};

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
