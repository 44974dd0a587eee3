//! The entries of administrative changes in the audit log.

use postrider_domain::event::chain::ChainStep;
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::TemplateName;
use postrider_domain::{
    AuditEntry, DestinationsChange, LimitsOverride, NumberId, Prefix, WorkspaceId,
};
use postrider_number::record::{NumberChange, NumberInfo};

pub(super) fn workspace_created(id: &WorkspaceId, name: &str) -> AuditEntry {
    AuditEntry::new("workspace.create").target(id).workspace(id).change("name", name)
}

pub(super) fn limits_set(over: LimitsOverride) -> AuditEntry {
    let mut entry = AuditEntry::new("limits.set");
    // They are an object in which absent limits are null.
    if let Ok(serde_json::Value::Object(limits)) = serde_json::to_value(over) {
        for (name, limit) in limits.into_iter().filter(|(_, limit)| !limit.is_null()) {
            entry = entry.change(&name, limit);
        }
    }
    entry
}

pub(super) fn destinations_set(change: &DestinationsChange) -> AuditEntry {
    let texts = |all: &[Prefix]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    AuditEntry::new("destinations.set")
        .change("allow", texts(&change.allow))
        .change("deny", texts(&change.deny))
        .change_if_some("safe", change.safe.as_deref().map(texts))
        .change_if_some("adaptive", change.adaptive)
}

pub(super) fn otp_channels_set(steps: &[ChainStep]) -> AuditEntry {
    let names: Vec<_> = steps.iter().map(|step| step.channel.as_str()).collect();
    AuditEntry::new("otp_channels.set").change("channels", names)
}

pub(super) fn otp_texts_set(texts: &OtpTexts) -> AuditEntry {
    AuditEntry::new("otp_texts.set").change("languages", texts.0.keys().collect::<Vec<_>>())
}

pub(super) fn otp_template_set(template: &TemplateName) -> AuditEntry {
    let TemplateName { name, language } = template;
    AuditEntry::new("otp_template.set").target(format_args!("{name}/{language}"))
}

pub(super) fn number_connected(number: &NumberInfo) -> AuditEntry {
    let account = number.account.as_ref();
    AuditEntry::new("number.connect")
        .target(number.id)
        .change("kind", number.kind.as_str())
        .change_if_some("phone_number_id", account.map(|it| it.phone_number_id.as_str()))
        .change("messages_per_second", number.messages_per_second)
        .change_if_some("pool", (!number.pool).then_some(false))
        .change_if_some("portfolio_id", number.portfolio_id.as_deref())
}

pub(super) fn number_updated(number: NumberId, change: &NumberChange) -> AuditEntry {
    AuditEntry::new("number.update")
        .target(number)
        .change_concealed("token", change.token.is_some())
        .change_concealed("app_secret", change.app_secret.is_some())
        .change_concealed("verify_token", change.verify_token.is_some())
        .change_if_some("messages_per_second", change.messages_per_second)
        .change_if_some("pool", change.pool)
        .change_if_some("portfolio_id", change.portfolio_id.as_ref())
}
