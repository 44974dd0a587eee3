//! Pure: the records of a workspace besides its journal: profile, numbers, balance.
//!
//! The facts that a provider reports about a number are a record beside that of the number. So
//! neither a change by an administrator nor a report writes over the other.
//!
//! All are in [`Table::Workspaces`] under `workspace id ‖ 0 ‖ name`. Profiles, numbers and facts
//! are JSON, so that fields can be added; the balance is eight bytes.

use postrider_channel::number_facts::NumberFacts;
use postrider_domain::event::chain::ChainStep;
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::TemplateName;
use postrider_domain::{Destinations, LimitsOverride, NumberId, Timestamp, WorkspaceId};
use postrider_number::record::{NumberInfo, NumberKind, Stored};
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table, View};
use serde::{Deserialize, Serialize};

use crate::core::senders::pool::Alone;

/// A workspace's name and settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The display name.
    pub name: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// Its own limits, where it has any.
    pub limits: LimitsOverride,
    /// The template that carries one-time passwords, if it is not the default.
    pub otp_template: Option<TemplateName>,
    /// The destinations to which one-time passwords may go.
    pub destinations: Destinations,
    /// The channels of codes whose request names none; empty: the chat-app channel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub otp_channels: Vec<ChainStep>,
    /// The texts of codes over SMS and mail.
    #[serde(default, skip_serializing_if = "has_no_texts")]
    pub otp_texts: OtpTexts,
    /// The number that was alone in the pool before others joined it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Alone>,
}

fn has_no_texts(texts: &OtpTexts) -> bool {
    texts.0.is_empty()
}

impl Profile {
    /// Returns the profile of a new workspace.
    pub fn new(name: String, created_at: Timestamp) -> Self {
        Self {
            name,
            created_at,
            limits: LimitsOverride::default(),
            otp_template: None,
            destinations: Destinations::default(),
            otp_channels: Vec::new(),
            otp_texts: OtpTexts::default(),
            alone: None,
        }
    }

    /// Returns whether one number was alone in the pool at some time after this moment.
    pub(crate) fn was_alone_after(&self, at: Timestamp) -> bool {
        self.alone.is_some_and(|alone| at < alone.until)
    }

    /// Returns the template that carries one-time passwords.
    pub fn otp_template(&self) -> TemplateName {
        let default = || TemplateName { name: "otp_code".into(), language: "en".into() };
        self.otp_template.clone().unwrap_or_else(default)
    }
}

/// All records of one workspace in the store.
#[derive(Debug, Clone)]
pub struct WorkspaceRecords {
    /// Name and settings.
    pub profile: Profile,
    /// The balance.
    pub credits: u64,
    /// Oldest first.
    pub numbers: Vec<NumberInfo>,
}

const PROFILE: &[u8] = b"profile";
const CREDITS: &[u8] = b"credits";
const NUMBER: &[u8] = b"number/";
const FACTS: &[u8] = b"number-facts/";

fn key(workspace: &WorkspaceId, name: &[u8]) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], name].concat()
}

/// Returns the key of a workspace's profile.
pub fn profile_key(workspace: &WorkspaceId) -> Vec<u8> {
    key(workspace, PROFILE)
}

/// Returns the key of a workspace's balance.
pub fn credits_key(workspace: &WorkspaceId) -> Vec<u8> {
    key(workspace, CREDITS)
}

/// Returns the key of one of a workspace's numbers.
pub fn number_key(workspace: &WorkspaceId, number: NumberId) -> Vec<u8> {
    [key(workspace, NUMBER).as_slice(), number.as_bytes()].concat()
}

/// Returns the key of the provider's facts about one of a workspace's numbers.
pub fn facts_key(workspace: &WorkspaceId, number: NumberId) -> Vec<u8> {
    [key(workspace, FACTS).as_slice(), number.as_bytes()].concat()
}

/// Returns the key of the last check of one of a workspace's numbers.
pub(crate) fn check_key(workspace: &WorkspaceId, number: NumberId) -> Vec<u8> {
    [key(workspace, b"number-check/").as_slice(), number.as_bytes()].concat()
}

/// Returns the key of the count of requested template updates since the last update.
pub(crate) fn templates_wanted_key(workspace: &WorkspaceId) -> Vec<u8> {
    key(workspace, b"templates/wanted")
}

/// The key of a workspace's SMS gateway.
pub(crate) fn sms_key(workspace: &WorkspaceId) -> Vec<u8> {
    key(workspace, b"sms")
}

/// The key of a workspace's test phones.
pub(crate) fn test_phones_key(workspace: &WorkspaceId) -> Vec<u8> {
    key(workspace, b"test-phones")
}

/// Returns whether the numbers through which messages leave take no code without a template.
pub(crate) fn need_template(numbers: &[NumberInfo]) -> bool {
    numbers.iter().any(|number| number.pool && number.kind == NumberKind::CloudApi)
}

/// Reads the balance of a workspace; it costs one look-up.
pub fn credits(store: &dyn View, workspace: &WorkspaceId) -> Result<u64, StoreError> {
    let Some(bytes) = store.get(Table::Workspaces, &credits_key(workspace))? else { return Ok(0) };
    let bytes = bytes.try_into().map_err(|_| {
        StoreError::Damaged(format!("the balance of workspace {workspace} is not a number"))
    })?;
    Ok(u64::from_be_bytes(bytes))
}

/// Returns whether messages leave into the sandbox.
pub(crate) fn is_sandbox(numbers: &[NumberInfo]) -> bool {
    let first = numbers.iter().find(|number| number.pool);
    !need_template(numbers) && first.is_some_and(|number| number.kind == NumberKind::Sandbox)
}

/// Reads the records of a workspace; `None` if there is no such workspace.
pub fn load(
    store: &dyn View,
    workspace: &WorkspaceId,
) -> Result<Option<WorkspaceRecords>, StoreError> {
    let Some(profile) = store.get(Table::Workspaces, &profile_key(workspace))? else {
        return Ok(None);
    };
    let credits = credits(store, workspace)?;
    let mut numbers = Vec::new();
    let mut damage = None;
    let prefix = key(workspace, NUMBER);
    store.scan(Table::Workspaces, &prefix, None, Direction::Forward, &mut |_, value| {
        match codec::decode(value) {
            Ok(number) => numbers.push(number),
            Err(error) => damage = Some(error),
        }
        std::ops::ControlFlow::Continue(())
    })?;
    match damage {
        Some(error) => Err(error),
        None => Ok(Some(WorkspaceRecords { profile: codec::decode(&profile)?, credits, numbers })),
    }
}

/// Returns the ids of all workspaces.
pub fn all_ids(store: &dyn View) -> Result<Vec<WorkspaceId>, StoreError> {
    let mut ids = Vec::new();
    store.scan(Table::Workspaces, &[], None, Direction::Forward, &mut |key, _| {
        if let Some(id) = key.strip_suffix(PROFILE).and_then(|key| key.strip_suffix(&[0])) {
            // The id was checked before it was written.
            ids.extend(std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()));
        }
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(ids)
}

/// Returns the providers' facts about the numbers of all workspaces.
pub fn all_facts(store: &dyn View) -> Result<Vec<(NumberId, NumberFacts)>, StoreError> {
    let mut all = Vec::new();
    store.scan(Table::Workspaces, &[], None, Direction::Forward, &mut |key, value| {
        let name = key.iter().position(|byte| *byte == 0).map(|end| &key[end + 1..]);
        let number = name.and_then(|name| name.strip_prefix(FACTS)?.try_into().ok());
        // Facts that cannot be read are reported again some day.
        all.extend(number.map(NumberId::from_bytes).zip(codec::decode(value).ok()));
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// Returns the numbers of all workspaces, except unreadable ones, which their workspace reports.
pub fn all_numbers(store: &dyn View) -> Result<Vec<Stored>, StoreError> {
    let mut numbers = Vec::new();
    store.scan(Table::Workspaces, &[], None, Direction::Forward, &mut |key, value| {
        let mut parts = key.splitn(2, |byte| *byte == 0);
        if let (Some(id), Some(name)) = (parts.next(), parts.next())
            && name.starts_with(NUMBER)
        {
            let workspace = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
            numbers.extend(workspace.zip(codec::decode(value).ok()));
        }
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(numbers)
}
