//! A workspace's templates are records in [`Table::Templates`].
//!
//! Their keys are `workspace ‖ 0 ‖ name ‖ 0 ‖ language`.

pub(crate) mod accounts;
pub mod sync;
pub(crate) mod update;

use std::ops::ControlFlow;
use std::sync::Arc;

use postrider_channel::cloud_api::ListError;
use postrider_domain::content::TemplateContent;
use postrider_domain::template::parameters::Filled;
use postrider_domain::template::{
    CodeButton, Misfit, TemplateCategory, TemplateName, TemplateQuality, TemplateStatus, parameters,
};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AuditEntry, Timestamp, WorkspaceId, template};
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::command::{Command, Context, Footprint};
use crate::core::otp::languages::{CodeTemplate, CodeTemplates, InLanguage};
use crate::core::view::unreadable;
use crate::handle::Workspace;

pub use crate::core::settings::UseTemplateError;
pub use accounts::OfAccount;

/// A template, as the channel knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// Its name.
    pub name: Box<str>,
    /// Its language as the channel writes it, such as `en` or `en_US`.
    pub language: Box<str>,
    /// The category.
    pub category: TemplateCategory,
    /// The status, by which it may be sent or not.
    pub status: TemplateStatus,
    /// The components, in the channel's JSON.
    pub components: Vec<Value>,
    /// The time of its creation or last change.
    pub updated_at: Timestamp,
    /// Other facts that the channel reports.
    #[serde(flatten)]
    pub facts: ChannelFacts,
    /// The account of this version; `None`: that of the workspace's first number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Box<str>>,
    /// The versions of other accounts of the workspace's numbers with this name and language.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OfAccount>,
}

/// The facts that a channel reports about a template besides its status. Only the channel sets
/// them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelFacts {
    /// The channel's rating of the template; `None` if there has been none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<TemplateQuality>,
    /// The time in seconds for which the channel tries to deliver a message of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    /// The form of the parameters: `positional` or `named`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter_format: Option<Box<str>>,
    /// The category that the channel considers correct, and will give the template later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correct_category: Option<TemplateCategory>,
    /// The channel's reason for the rejection: its word in lower case. `None` unless it is
    /// rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_reason: Option<Box<str>>,
}

/// A template to create.
#[derive(Debug, Clone)]
pub struct NewTemplate {
    /// Its name: 1 to 512 of `a-z`, `0-9` and `_`.
    pub name: Box<str>,
    /// Its language as the channel writes it.
    pub language: Box<str>,
    /// The category.
    pub category: TemplateCategory,
    /// The status, by which it may be sent or not.
    pub status: TemplateStatus,
    /// The components, in the channel's JSON.
    pub components: Vec<Value>,
}

/// The reason why a template was not created or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// One of its values is invalid.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// There already is one with that name and language.
    #[error("there is a template of that name and language already")]
    Exists,
    /// There is none with that name and language.
    #[error("no such template")]
    NoSuchTemplate,
    /// The provider does not list its templates.
    #[error(transparent)]
    Provider(#[from] ListError),
    /// The workspace is unavailable.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Template {
    /// Returns the template with its parameters filled in.
    ///
    /// `given` is the channel's `components` of a message.
    ///
    /// # Errors
    /// [`Misfit`]: they do not fit.
    pub fn content(&self, given: &[Value]) -> Result<TemplateContent, Misfit> {
        let Filled { components, text } = parameters::fill(&self.components, given)?;
        let template = TemplateName { name: self.name.clone(), language: self.language.clone() };
        Ok(TemplateContent {
            template,
            components: components.into(),
            text: text.into(),
            category: self.category,
        })
    }
}

fn key(workspace: &WorkspaceId, name: &str, language: &str) -> Vec<u8> {
    let parts = [workspace.as_str(), name, language].map(str::as_bytes);
    parts.join(&0)
}

/// Returns the committed template.
pub fn read(
    store: &dyn View,
    workspace: &WorkspaceId,
    name: &str,
    language: &str,
) -> Result<Option<Template>, StoreError> {
    if !may_be_template(name, language) {
        return Ok(None);
    }
    let value = store.get(Table::Templates, &key(workspace, name, language))?;
    value.map(|json| codec::decode(&json)).transpose()
}

fn may_be_template(name: &str, language: &str) -> bool {
    template::check_name(name).and_then(|()| template::check_language(language)).is_ok()
}

/// Returns the workspace's template with that name and language.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub fn find_template(
    context: &Context<'_>,
    name: &str,
    language: &str,
) -> Result<Option<Template>, Unavailable> {
    Ok(shared_template(context, name, language)?.map(Arc::unwrap_or_clone))
}

/// Returns the template with that name and language, whichever account has it.
///
/// # Errors
/// [`UseTemplateError`]: there is none.
pub fn known_template(
    context: &Context<'_>,
    name: &str,
    language: &str,
) -> Result<Arc<Template>, UseTemplateError> {
    shared_template(context, name, language)?.ok_or(UseTemplateError::NoSuchTemplate)
}

fn shared_template(
    context: &Context<'_>,
    name: &str,
    language: &str,
) -> Result<Option<Arc<Template>>, Unavailable> {
    if !may_be_template(name, language) {
        return Ok(None);
    }
    context.get_template(&key(&context.core.id, name, language))
}

/// Writes a template, and updates the one for one-time passwords in memory.
fn store_template(context: &mut Context<'_>, template: &Template) {
    let key = key(&context.core.id, &template.name, &template.language);
    context.put_json(Table::Templates, key, template);
    let of_codes = &context.core.otp_template;
    if of_codes.name == template.name {
        context.core.code_templates.take(&template.language, template.of_codes());
    }
}

impl Template {
    /// Returns the part of the template for codes that is kept in memory.
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

/// Returns the committed status of the template with that name in each language.
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

/// Sets the template that carries one-time passwords, whether or not it is known.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn set_code_template(
    context: &mut Context<'_>,
    template: &TemplateName,
) -> Result<(), Unavailable> {
    context.core.code_templates = read_code_templates(context, &template.name)?;
    context.core.otp_template = Arc::new(template.clone());
    Ok(())
}

/// Does the same, with the changes of commands that are not durable yet.
fn read_code_templates(context: &Context<'_>, name: &str) -> Result<CodeTemplates, Unavailable> {
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
        store_template(context, &template);
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
    /// Returns the workspace's templates, by name and language.
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

    /// Returns the template with that name and language.
    ///
    /// # Errors
    /// [`TemplateError`]: there is none, or the workspace is unavailable.
    pub async fn template(
        &self,
        name: String,
        language: String,
    ) -> Result<Template, TemplateError> {
        let found = self.read(move |store, of| read(store, of, &name, &language)).await?;
        found.ok_or(TemplateError::NoSuchTemplate)
    }

    /// Creates a template.
    ///
    /// # Errors
    /// [`TemplateError`]: it is not well formed, it already exists, or the workspace is
    /// unavailable.
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
    /// [`TemplateError`]: there is none, or the workspace is unavailable.
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
