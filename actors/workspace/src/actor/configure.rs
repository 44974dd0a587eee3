//! Changes of a workspace's settings.

use std::sync::Arc;

use postrider_number::record::{NumberInfo, NumberKind, NumberRecord};
use postrider_store::Table;
use postrider_store::view::codec;

use crate::actor::WorkspaceActor;
use crate::actor::state::{StateLost, WorkspaceState};
use crate::core::command::AuditDraft;
use crate::core::credits;
use crate::core::otp::failover_plan::chain_in_force;
use crate::core::records;
use crate::core::senders::pool::Pool;
use crate::core::settings::{ChangeError, WorkspaceSettings};
use crate::inbox::number_facts::{emit, pace_change};
use crate::mailbox::message::Configure;
use crate::mailbox::output_gate::PendingReply;
use crate::mailbox::slot::ReplyTo;
use crate::templates;
use crate::templates::sync as template_sync;

/// A record to be written, or deleted without a value.
type SettingRecord = (Vec<u8>, Option<Vec<u8>>);

impl WorkspaceActor {
    /// Changes the workspace's settings, in its records and in the rules.
    pub(crate) fn configure(
        &self,
        configure: Configure,
        audit: Option<Box<AuditDraft>>,
        reply: ReplyTo<WorkspaceSettings, ChangeError>,
        state: &mut WorkspaceState,
    ) -> Result<(), StateLost> {
        let disconnected = match configure {
            Configure::Disconnect(number) => Some(number),
            _ => None,
        };
        let change = match self.apply(configure, state) {
            Ok(change) => change,
            Err(refusal) => return state.finish(Some(PendingReply::Change(reply, Err(refusal)))),
        };
        self.connect(state);
        self.shared.portfolios.look_again(&self.slot.id);
        let held = PendingReply::Change(reply, Ok(Box::new(self.settings(state))));
        if let Some((key, value)) = change {
            state.effects.changes.set(Table::Workspaces, key, value);
        }
        if let Some(audit) = audit {
            audit.add_to(&mut state.effects, state.core.now());
        }
        let Some(number) = disconnected else { return state.finish(Some(held)) };
        let numbers = Arc::clone(&self.shared.numbers);
        state.finish(Some(PendingReply::Disconnect(numbers, number)))?;
        state.pass(held);
        Ok(())
    }

    /// Updates the state to the connected numbers.
    ///
    /// If others have joined the only number of the pool, it is remembered.
    fn connect(&self, state: &mut WorkspaceState) {
        let before = state.core.pool.clone();
        state.connect();
        let alone = before.alone_before(&state.core.pool, state.core.now());
        if alone != state.profile.alone {
            state.profile.alone = alone;
            let (key, value) = self.profile(state);
            state.effects.changes.set(Table::Workspaces, key, value);
            state.connect();
        }
    }

    /// Changes the state. Returns the record that changes with it, or the reason of the refusal.
    fn apply(
        &self,
        configure: Configure,
        state: &mut WorkspaceState,
    ) -> Result<Option<SettingRecord>, ChangeError> {
        let id = &self.slot.id;
        Ok(match configure {
            Configure::Read => None,
            Configure::Name(name) => {
                let before = std::mem::replace(&mut state.profile.name, name);
                state.effects.replaces("name", before);
                Some(self.profile(state))
            }
            Configure::Limits(limits) => {
                state.effects.replaces_all(state.core.rules.limits);
                state.profile.limits = state.profile.limits.with(limits);
                state.core.rules.limits = self.shared.limits.with(state.profile.limits);
                Some(self.profile(state))
            }
            Configure::OtpTemplate(template) => {
                templates::set_code_template(
                    &mut state.context(self.shared.store.as_ref()),
                    &template,
                )?;
                state.profile.otp_template = Some(template);
                Some(self.profile(state))
            }
            Configure::Destinations(change) => {
                let destinations = change.over(&state.core.destinations);
                let before = std::mem::replace(&mut state.core.destinations, destinations.clone());
                state.effects.replaces("allow", &before.allow);
                state.effects.replaces("deny", &before.deny);
                state.effects.replaces("safe", &before.safe);
                state.effects.replaces("adaptive", before.adaptive);
                state.profile.destinations = destinations;
                Some(self.profile(state))
            }
            configure @ (Configure::OtpChannels(_) | Configure::OtpTexts(_)) => {
                set_code_channels(configure, state);
                Some(self.profile(state))
            }
            Configure::Credits(change) => {
                state.effects.replaces("credits", state.core.credits);
                credits::change(&mut state.core, change, &mut state.effects)?;
                None
            }
            Configure::Connect(number) => Some(self.add(*number, state)?),
            Configure::Replace(number) => Some(self.replace(*number, state)?),
            Configure::Disconnect(number) => {
                let place = state.numbers.iter().position(|known| known.id == number);
                state.numbers.remove(place.ok_or(ChangeError::NoSuchNumber)?);
                let facts = records::facts_key(id, number);
                state.effects.changes.set(Table::Workspaces, facts, None);
                let check = records::check_key(id, number);
                state.effects.changes.set(Table::Workspaces, check, None);
                Some((records::number_key(id, number), None))
            }
        })
    }

    fn profile(&self, state: &WorkspaceState) -> SettingRecord {
        (records::profile_key(&self.slot.id), Some(codec::encode(&state.profile)))
    }

    fn add(
        &self,
        number: NumberRecord,
        state: &mut WorkspaceState,
    ) -> Result<SettingRecord, ChangeError> {
        if state.numbers.len() >= Pool::NUMBERS_MAX {
            return Err(ChangeError::TooManyNumbers);
        }
        self.want_templates(&number.info, state)?;
        let record = codec::encode(&number);
        let key = records::number_key(&self.slot.id, number.info.id);
        state.numbers.push(number.info);
        Ok((key, Some(record)))
    }

    fn replace(
        &self,
        number: NumberRecord,
        state: &mut WorkspaceState,
    ) -> Result<SettingRecord, ChangeError> {
        self.want_templates(&number.info, state)?;
        let known = state.numbers.iter_mut().find(|known| known.id == number.info.id);
        let record = codec::encode(&number);
        let key = records::number_key(&self.slot.id, number.info.id);
        let known = known.ok_or(ChangeError::NoSuchNumber)?;
        state.effects.replaces("messages_per_second", known.messages_per_second);
        let numbers = &self.shared.numbers;
        let facts = numbers.connected(known.id).map(|it| it.facts.clone()).unwrap_or_default();
        let pace = |info: &NumberInfo| info.pace(numbers.pace_set(), &facts);
        let change = pace_change([pace(known), pace(&number.info)]);
        *known = number.info;
        let (id, now) = (known.id, state.core.now());
        if let Some(change) = change {
            emit(&mut state.effects, now, id, change);
        }
        Ok((key, Some(record)))
    }

    /// Marks the templates of a number with a provider as outdated, to update them once this is
    /// durable.
    fn want_templates(
        &self,
        number: &NumberInfo,
        state: &mut WorkspaceState,
    ) -> Result<(), ChangeError> {
        if number.kind == NumberKind::CloudApi {
            template_sync::want(&mut state.context(self.shared.store.as_ref()))?;
        }
        Ok(())
    }

    fn settings(&self, state: &WorkspaceState) -> WorkspaceSettings {
        let now = state.core.now();
        let (otps_last_hour, otps_counted_until) = state.core.hot.sends.counted(now);
        WorkspaceSettings {
            name: state.profile.name.clone(),
            created_at: state.profile.created_at,
            credits: state.core.credits,
            limits: state.core.rules.limits,
            prices: state.core.rules.prices,
            destinations: state.core.destinations.clone(),
            otp_template: state.profile.otp_template(),
            otp_channels: chain_in_force(&state.core),
            otp_texts: state.profile.otp_texts.clone(),
            numbers: state.numbers.clone(),
            otps: state.core.hot.otps.len(),
            otps_last_hour,
            otps_counted_until,
            contacts_last_minute: self.shared.creations.taken(&self.slot.id, now),
        }
    }
}

/// Sets the channels over which codes arrive, or the texts of codes.
fn set_code_channels(configure: Configure, state: &mut WorkspaceState) {
    if let Configure::OtpChannels(steps) = configure {
        let before = state.profile.otp_channels.iter().map(|step| step.channel.as_str());
        let before: Vec<_> = before.collect();
        state.effects.replaces("channels", before);
        state.core.channels.default.clone_from(&steps);
        state.profile.otp_channels = steps;
    } else if let Configure::OtpTexts(texts) = configure {
        let before: Vec<_> = state.profile.otp_texts.0.keys().cloned().collect();
        state.effects.replaces("languages", before);
        state.core.channels.texts = Arc::new(texts.clone());
        state.profile.otp_texts = texts;
    }
}
