//! Pure: how the template that carries codes stands in each language, with each account.
//!
//! It knows also which of its buttons takes the code.

use std::collections::BTreeMap;

use postrider_domain::template::{CodeButton, TemplateStatus};

/// The template in one language, as one account has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeTemplate {
    /// Whether it may be sent.
    pub(crate) status: TemplateStatus,
    /// Which of its buttons takes the code.
    pub(crate) button: CodeButton,
}

/// The template in one language.
#[derive(Debug)]
pub(crate) struct InLanguage {
    /// Whose it is; `None`: of the account of the workspace's first number.
    pub(crate) account: Option<Box<str>>,
    /// As that account has it, and numbers without one.
    pub(crate) own: CodeTemplate,
    /// As others have it.
    pub(crate) others: Vec<(Box<str>, CodeTemplate)>,
}

/// The workspace's template of codes by its languages, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct CodeTemplates(BTreeMap<Box<str>, InLanguage>);

impl CodeTemplates {
    /// Whether there is one in a language, whoever has it.
    pub(crate) fn has(&self, language: &str) -> bool {
        self.0.contains_key(language)
    }

    /// The languages that there is one in, whoever has it.
    pub(crate) fn languages(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|language| &**language)
    }

    /// The template in a language, as an account has it, if it does. `home` is the account of the
    /// workspace's first number.
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

    /// Takes how the template in a language stands.
    pub(crate) fn take(&mut self, language: &str, template: InLanguage) {
        self.0.insert(language.into(), template);
    }
}
