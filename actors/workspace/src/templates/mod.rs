//! A workspace's templates are records in [`Table::Templates`].
//!
//! Their keys are `workspace ‖ 0 ‖ name ‖ 0 ‖ language`.

pub(crate) mod accounts;
pub mod sync;
pub(crate) mod update;

pub use crate::core::settings::UseTemplateError;
pub use accounts::OfAccount;
use postrider_store::view::codec;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use postrider_channel::cloud_api::ListError;
use postrider_domain::content::TemplateContent;
use postrider_domain::template::parameters::{self, Filled};
use postrider_domain::template::{self, Misfit, TemplateCategory, TemplateQuality, TemplateStatus};
use postrider_domain::template::{CodeButton, TemplateName};
use postrider_domain::{AuditEntry, Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::core::command::{Command, Context, Footprint};
use crate::core::otp::code_templates::{CodeTemplate, CodeTemplates, InLanguage};
use crate::core::view::unreadable;
use crate::handle::Workspace;
use postrider_domain::unavailable::Unavailable;

/// A template, as the channel knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// Its name.
    pub name: Box<str>,
    /// Its language as the channel writes it, such as `en` or `en_US`.
    pub language: Box<str>,
    /// What it is for.
    pub category: TemplateCategory,
    /// Whether it may be sent.
    pub status: TemplateStatus,
    /// What it is made of, in the channel's JSON.
    pub components: Vec<Value>,
    /// When it was made or last changed.
    pub updated_at: Timestamp,
    /// What else the channel says of it.
    #[serde(flatten)]
    pub facts: ChannelFacts,
    /// The account that has it so; `None`: that of the workspace's first number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Box<str>>,
    /// What other accounts of the workspace's numbers have under this name and language.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OfAccount>,
}

/// What a channel says of a template beside its status. The channel sets it, nobody else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelFacts {
    /// How it rates the template; `None` if it never has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<TemplateQuality>,
    /// For how long it tries to deliver a message of it, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    /// How parameters are given: `positional` or `named`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter_format: Option<Box<str>>,
    /// The category that it holds to be right, and will give the template later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correct_category: Option<TemplateCategory>,
    /// Why it has rejected the template: its word in small letters. `None` unless it is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_reason: Option<Box<str>>,
}

/// A template to be made.
#[derive(Debug, Clone)]
pub struct NewTemplate {
    /// Its name: 1 to 512 of `a-z`, `0-9` and `_`.
    pub name: Box<str>,
    /// Its language as the channel writes it.
    pub language: Box<str>,
    /// What it is for.
    pub category: TemplateCategory,
    /// Whether it may be sent.
    pub status: TemplateStatus,
    /// What it is made of, in the channel's JSON.
    pub components: Vec<Value>,
}

/// Why a template was not made or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// One of its values is not what it must be.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// There is one of that name and language.
    #[error("there is a template of that name and language already")]
    Exists,
    /// There is none of that name and language.
    #[error("no such template")]
    NoSuchTemplate,
    /// The provider does not report what it has.
    #[error(transparent)]
    Provider(#[from] ListError),
    /// It cannot be done now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Template {
    /// The template with parameters in their places: `given` is the channel's `components` of a
    /// message.
    ///
    /// # Errors
    /// [`Misfit`]: they do not fit.
    pub fn content(&self, given: &[Value]) -> Result<TemplateContent, Misfit> {
        let Filled { components, text } = parameters::fill(&self.components, given)?;
        let template = TemplateName { name: self.name.clone(), language: self.language.clone() };
        Ok(TemplateContent { template, components: components.into(), text: text.into() })
    }
}

fn key(workspace: &WorkspaceId, name: &str, language: &str) -> Vec<u8> {
    let parts = [workspace.as_str(), name, language].map(str::as_bytes);
    parts.join(&0)
}

/// The template as it is committed.
pub fn read(
    store: &dyn View,
    workspace: &WorkspaceId,
    name: &str,
    language: &str,
) -> Result<Option<Template>, StoreError> {
    if !may_be_one(name, language) {
        return Ok(None);
    }
    let value = store.get(Table::Templates, &key(workspace, name, language))?;
    value.map(|json| codec::decode(&json)).transpose()
}

fn may_be_one(name: &str, language: &str) -> bool {
    template::check_name(name).and_then(|()| template::check_language(language)).is_ok()
}

/// The workspace's template of that name and language.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub fn find_template(
    context: &Context<'_>,
    name: &str,
    language: &str,
) -> Result<Option<Template>, Unavailable> {
    if !may_be_one(name, language) {
        return Ok(None);
    }
    context.get_json(Table::Templates, &key(&context.core.id, name, language))
}

/// The template of that name and language, whichever account has it.
///
/// # Errors
/// [`UseTemplateError`]: there is none.
pub fn known_template(
    context: &Context<'_>,
    name: &str,
    language: &str,
) -> Result<Template, UseTemplateError> {
    find_template(context, name, language)?.ok_or(UseTemplateError::NoSuchTemplate)
}

/// Writes a template; the one that carries one-time passwords is given to those who send them.
fn save(context: &mut Context<'_>, template: &Template) {
    let key = key(&context.core.id, &template.name, &template.language);
    context.put_json(Table::Templates, key, template);
    let of_codes = &context.core.otp_template;
    if of_codes.name == template.name {
        context.core.code_templates.take(&template.language, template.of_codes());
    }
}

impl Template {
    /// What is kept in memory of the template that carries codes.
    fn of_codes(&self) -> InLanguage {
        let code = |status, components: &[Value]| CodeTemplate {
            status,
            button: CodeButton::of(components),
        };
        let others = self.others.iter();
        let others = others.map(|it| (it.account.clone(), code(it.status, &it.components)));
        InLanguage {
            account: self.account.clone(),
            own: code(self.status, &self.components),
            others: others.collect(),
        }
    }
}

/// How the template of that name stands in each language, as it is in the store.
pub(crate) fn code_templates(
    store: &dyn View,
    workspace: &WorkspaceId,
    name: &str,
) -> Result<CodeTemplates, StoreError> {
    let (mut templates, mut damage) = (CodeTemplates::default(), None);
    let prefix = key(workspace, name, "");
    store.scan(Table::Templates, &prefix, None, Direction::Forward, &mut |_, value| {
        match codec::decode::<Template>(value) {
            Ok(it) => templates.take(&it.language, it.of_codes()),
            Err(error) => damage = Some(error),
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok(templates), Err)
}

/// Has a template carry one-time passwords from now on, whether or not it is known.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn carry_codes(
    context: &mut Context<'_>,
    template: &TemplateName,
) -> Result<(), Unavailable> {
    context.core.code_templates = code_templates_now(context, &template.name)?;
    context.core.otp_template = Arc::new(template.clone());
    Ok(())
}

/// The same, with what commands have changed that is not durable yet.
fn code_templates_now(context: &Context<'_>, name: &str) -> Result<CodeTemplates, Unavailable> {
    let workspace = &context.core.id;
    let mut templates = code_templates(context.store(), workspace, name).map_err(unreadable)?;
    let prefix = key(workspace, name, "");
    for language in context.pending_keys(Table::Templates, &prefix) {
        if let Some(template) = find_template(context, name, &String::from_utf8_lossy(&language))? {
            templates.take(&template.language, template.of_codes());
        }
    }
    Ok(templates)
}

struct CreateTemplate(NewTemplate);

impl Command for CreateTemplate {
    type Answer = Template;
    type Error = TemplateError;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Template, TemplateError> {
        let NewTemplate { name, language, category, status, components } = self.0;
        if find_template(context, &name, &language)?.is_some() {
            return Err(TemplateError::Exists);
        }
        let updated_at = context.now();
        let (facts, account, others) = (ChannelFacts::default(), None, Vec::new());
        let template = Template {
            name,
            language,
            category,
            status,
            components,
            updated_at,
            facts,
            account,
            others,
        };
        save(context, &template);
        Ok(template)
    }
}

struct SetTemplateStatus {
    name: Box<str>,
    language: Box<str>,
    status: TemplateStatus,
}

impl Command for SetTemplateStatus {
    type Answer = Template;
    type Error = TemplateError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Template, TemplateError> {
        let found = find_template(context, &self.name, &self.language)?;
        let template = found.ok_or(TemplateError::NoSuchTemplate)?;
        context.effects.replaces("status", template.status.as_str());
        Ok(update::set_status_of_all(context, template, self.status))
    }
}

impl Workspace {
    /// The workspace's templates, by name and language.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn templates(&self) -> Result<Vec<Template>, Unavailable> {
        self.scan(|store, workspace| {
            let prefix = [workspace.as_str().as_bytes(), &[0]].concat();
            let (mut templates, mut damage) = (Vec::new(), None);
            store.scan(Table::Templates, &prefix, None, Direction::Forward, &mut |_, value| {
                match codec::decode(value) {
                    Ok(template) => templates.push(template),
                    Err(error) => damage = Some(error),
                }
                ControlFlow::Continue(())
            })?;
            damage.map_or(Ok(templates), Err)
        })
        .await
    }

    /// The template of that name and language.
    ///
    /// # Errors
    /// [`TemplateError`]: there is none, or not now.
    pub async fn template(
        &self,
        name: String,
        language: String,
    ) -> Result<Template, TemplateError> {
        let found = self.read(move |store, of| read(store, of, &name, &language)).await?;
        found.ok_or(TemplateError::NoSuchTemplate)
    }

    /// Makes a template.
    ///
    /// # Errors
    /// [`TemplateError`]: it is not well formed, there is one already, or not now.
    pub async fn create_template(&self, new: NewTemplate) -> Result<Template, TemplateError> {
        template::check_name(&new.name)?;
        template::check_language(&new.language)?;
        template::components::check(&new.components, new.category)?;
        let entry = AuditEntry::new("template.create")
            .target(format_args!("{}/{}", new.name, new.language))
            .change("category", new.category.as_str())
            .change("status", new.status.as_str());
        self.perform_audited(CreateTemplate(new), entry).await
    }

    /// Gives a template another status; `template.status_changed` reports it.
    ///
    /// # Errors
    /// [`TemplateError`]: there is none, or not now.
    pub async fn set_template_status(
        &self,
        name: &str,
        language: &str,
        status: TemplateStatus,
    ) -> Result<Template, TemplateError> {
        let entry = AuditEntry::new("template.update")
            .target(format_args!("{name}/{language}"))
            .change("status", status.as_str());
        let (name, language) = (name.into(), language.into());
        self.perform_audited(SetTemplateStatus { name, language, status }, entry).await
    }
}

#[cfg(test)]
mod golden;
