//! States in the document what handlers check beyond the types of fields and parameters.

use postrider_actors::domain::event::decision::OtpDecision;
use postrider_actors::domain::template::{TemplateCategory, TemplateStatus};
use postrider_actors::domain::{AdaptiveMode, PublicEvent, Scope};
use postrider_actors::{AutoDeliver, ConversationStatus, MessageKind, RecipientStatus, Role};
use serde_json::{Value, json};
use utoipa::Modify;
use utoipa::openapi::path::Parameter;
use utoipa::openapi::schema::{Array, ArrayItems, Object, Schema, SchemaFormat, SchemaType};
use utoipa::openapi::{OpenApi, RefOr, Response, Type};

use super::operations::{REASONS, operations};

/// A rule for a value, beyond its type.
#[derive(Clone, Copy)]
enum ValueRule {
    /// The value is one of these words.
    Words(fn() -> Vec<&'static str>),
    /// The value matches this pattern.
    Pattern(&'static str),
    /// The value matches the pattern that this function returns.
    PatternOf(fn() -> String),
    /// The value has this format.
    Format(&'static str),
    /// The text has from the first to the second number of characters.
    Chars(usize, usize),
    /// The number is at most this.
    Max(i64),
    /// A list has at least one item, an object at least one field.
    NotEmpty,
    /// Each item of the list follows these rules.
    Items(&'static [ValueRule]),
    /// The object may have any shape; the function returns an example.
    Like(fn() -> Value),
}

use ValueRule::{Chars, Format, Items, Like, Max, NotEmpty, Pattern, PatternOf, Words};

impl ValueRule {
    /// Adds the rule to a schema of the type that the rule is for.
    fn apply(self, place: &mut Schema) {
        match place {
            Schema::Array(array) => self.apply_to_list(array),
            Schema::Object(object) => self.apply_to_value(object),
            _ => debug_assert!(false, "the rule is for a list, a text or a number"),
        }
    }

    fn apply_to_list(self, array: &mut Array) {
        match self {
            NotEmpty => array.min_items = Some(1),
            Items(rules) => {
                if let ArrayItems::RefOrSchema(items) = &mut array.items
                    && let RefOr::T(item) = &mut **items
                {
                    rules.iter().for_each(|rule| rule.apply(item));
                }
            }
            _ => debug_assert!(false, "the rule is not for lists"),
        }
    }

    fn apply_to_value(self, object: &mut Object) {
        match self {
            Words(words) => {
                let mut allowed: Vec<Value> = words().into_iter().map(Value::from).collect();
                if is_nullable(object) {
                    allowed.push(Value::Null);
                }
                object.enum_values = Some(allowed);
            }
            Pattern(pattern) => object.pattern = Some(pattern.to_owned()),
            PatternOf(made) => object.pattern = Some(made()),
            Format(format) => object.format = Some(SchemaFormat::Custom(format.to_owned())),
            Chars(min, max) => {
                (object.min_length, object.max_length) = ((min > 0).then_some(min), Some(max));
            }
            Max(max) => object.maximum = Some(max.into()),
            Like(example) => object.example = Some(example()),
            NotEmpty => object.min_properties = Some(1),
            Items(_) => debug_assert!(false, "the rule is for lists"),
        }
    }
}

fn is_nullable(object: &Object) -> bool {
    matches!(&object.schema_type, SchemaType::Array(types) if types.contains(&Type::Null))
}

/// The pattern of a name without control characters.
const NAME: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";
/// The pattern of a name that also has a character other than spaces.
const FILLED_NAME: &str = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$";
/// The pattern of a text that has a character other than spaces.
const FILLED: &str = r"[^\s]";
const PHONE: &str = r"^\+[1-9][0-9]{6,14}$";
const PHONE_OR_ALL: &str = r"^(\*|\+[1-9][0-9]{6,14})$";
const PREFIX: &str = "^[1-9][0-9]{0,6}$";
const TEMPLATE_NAME: &str = "^[a-z0-9_]{1,512}$";
const LANGUAGE: &str = "^[a-zA-Z0-9_]{2,15}$";
const PROVIDER_ID: &str = "^[a-zA-Z0-9_-]{1,64}$";
const VISIBLE: &str = "^[!-~]{1,1024}$";
const CONTACT_ID: &str = "^con_[0-7][0-9a-hjkmnp-tv-z]{25}$";
const NUMBER_ID: &str = "^num_[0-7][0-9a-hjkmnp-tv-z]{25}$";
const BROADCAST_ID: &str = "^brd_[0-7][0-9a-hjkmnp-tv-z]{25}$";
const MESSAGE_ID: &str = "^msg_[0-7][0-9a-hjkmnp-tv-z]{25}$";
const REQUEST_ID: &str = "^otp_[0-7][0-9a-hjkmnp-tv-z]{25}$";
const MEDIA_ID: &str = "^med_[0-7][0-9a-hjkmnp-tv-z]{25}$";
/// The pattern of a file's name, without control characters and slashes.
const FILE_NAME: &str = r"^[^\u0000-\u001f\u007f-\u009f/\\]*$";
const NODE: &str = "^[a-z0-9-]{1,32}$";
const WORKSPACE: &str = "^[a-z0-9-]{1,40}$";
const WEBHOOK_SECRET: &str = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$";
/// The pattern of a text for codes. Braces other than these are refused.
const OTP_TEXT: &str = r"^(?:[^{}]|\{(?:code|minutes)\})*\{code\}(?:[^{}]|\{(?:code|minutes)\})*$";
const OTP_SUBJECT: &str = r"^(?:[^{}\x00-\x1f\x7f-\x9f]|\{(?:code|minutes)\})+$";
const CURSOR: &str = "^AQ[A-Za-z0-9_-]{10}$";
const ID_CURSOR: &str = "^A[Q-Za-f][A-Za-z0-9_-]{20}[AEIMQUYcgkosw048]$";
const PARTY: &str = r"^(\+[1-9][0-9]{6,14}|[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128})$";
const USER_ID: &str = r"^[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}$";
const SUBNET: &str = r"^[0-9a-fA-F:.]{2,45}(/[0-9]{1,3})?$";
const LOG_ID: &str = "^[0-9a-fA-F]{32}$";
const EVENT_PLACE: &str = "^(evt_[0-7][0-9a-hjkmnp-tv-z]{25}|[0-9]{1,19})$";

/// The suffix of the second name of an operation with two paths.
const BY_MESSAGING_PATH: &str = "ByMessagingPath";
/// The maximum number of a page.
const PAGE_MAX: i64 = u32::MAX as i64;
/// The maximum rate of a number, in messages per second.
const NUMBER_RATE_MAX: i64 = 100_000;

const TAG: ValueRule = Items(&[Chars(1, 64), Pattern(FILLED_NAME)]);
const KINDS: ValueRule = Items(&[Words(kinds)]);
const SECRET: &[ValueRule] = &[Pattern(VISIBLE)];
const URL: &[ValueRule] = &[Format("uri"), Chars(1, 2048)];

/// The rules of fields: schema, field and rules.
const FIELDS: &[(&str, &str, &[ValueRule])] = &[
    ("ContactInput", "name", &[Pattern(FILLED_NAME)]),
    ("ContactInput", "email", &[Format("email")]),
    ("ContactInput", "tags", &[TAG]),
    ("CallerContext", "ip", &[Format("ip")]),
    ("SendBody", "reference", &[Pattern(NAME), Chars(1, 128)]),
    ("SendMessage", "reference", &[Pattern(NAME), Chars(1, 128)]),
    ("Reply", "reference", &[Pattern(NAME), Chars(1, 128)]),
    ("SendMessage", "interactive", &[Like(interactive)]),
    ("Reply", "interactive", &[Like(interactive)]),
    ("AnsweredMessage", "message_id", &[Pattern(MESSAGE_ID)]),
    ("ReactionObject", "message_id", &[Pattern(MESSAGE_ID)]),
    ("CaptionedObject", "link", URL),
    ("CaptionedObject", "media_id", &[Pattern(MEDIA_ID)]),
    ("DocumentObject", "link", URL),
    ("DocumentObject", "media_id", &[Pattern(MEDIA_ID)]),
    ("AudioObject", "link", URL),
    ("AudioObject", "media_id", &[Pattern(MEDIA_ID)]),
    ("StickerObject", "link", URL),
    ("StickerObject", "media_id", &[Pattern(MEDIA_ID)]),
    ("DocumentObject", "filename", &[Pattern(FILE_NAME), Chars(1, 240)]),
    ("NewBroadcastBody", "reference", &[Pattern(NAME), Chars(1, 128)]),
    ("BroadcastTestBody", "reference", &[Pattern(NAME), Chars(1, 128)]),
    ("SendBody", "email", &[Format("email")]),
    ("SendBody", "mode", &[Words(|| vec!["outbound", "inbound"])]),
    ("ResendBody", "channel", &[Words(|| vec!["messaging", "sms", "email"])]),
    ("OtpTextBody", "sms", &[Chars(1, 1_000), Pattern(OTP_TEXT)]),
    ("OtpTextBody", "email_subject", &[Chars(1, 200), Pattern(OTP_SUBJECT)]),
    ("OtpTextBody", "email_text", &[Chars(1, 10_000), Pattern(OTP_TEXT)]),
    ("SmsInput", "kind", &[Words(|| vec!["http", "sandbox"])]),
    ("SmsInput", "url", URL),
    ("SmsInput", "secret", &[Pattern(WEBHOOK_SECRET)]),
    ("SmsInput", "sender", &[Pattern(NAME), Chars(1, 64)]),
    ("SmsReceipt", "status", &[Words(|| vec!["delivered", "failed"])]),
    ("SegmentBody", "name", &[Pattern(FILLED_NAME)]),
    ("SegmentUpdate", "name", &[Pattern(FILLED_NAME)]),
    ("ContactFilter", "tags_any", &[TAG]),
    ("ContactFilter", "tags_all", &[TAG]),
    ("ContactFilter", "tags_none", &[TAG]),
    ("ContactFilter", "custom_fields_exist", &[Items(&[Chars(0, 200)])]),
    ("ContactFilter", "custom_fields", &[NotEmpty, Like(|| json!({"plan": "gold"}))]),
    ("ContactFilter", "search", &[Pattern(FILLED)]),
    ("ConversationUpdate", "status", &[Words(conversation_statuses)]),
    ("ConversationUpdate", "assigned_to", &[Pattern(FILLED_NAME)]),
    ("BulkBody", "ids", &[Items(&[Pattern(CONTACT_ID)])]),
    ("BulkBody", "add_tags", &[TAG]),
    ("BulkBody", "remove_tags", &[TAG]),
    ("QuickReplyBody", "name", &[Pattern(FILLED_NAME)]),
    ("QuickReplyBody", "text", &[Pattern(FILLED)]),
    ("NoteBody", "text", &[Pattern(FILLED)]),
    ("InboundBody", "name", &[Pattern(NAME)]),
    ("SandboxReferral", "source_type", &[Words(|| vec!["ad", "post"])]),
    ("BatchBody", "on_conflict", &[Words(|| vec!["refuse", "skip", "update"])]),
    ("ReportBody", "message_id", &[Pattern(MESSAGE_ID)]),
    ("ReportBody", "status", &[Words(|| vec!["delivered", "read", "failed"])]),
    ("NewSandboxSettings", "auto_deliver", &[Words(|| AutoDeliver::WORDS.to_vec())]),
    ("LinkBody", "email", &[Format("email")]),
    ("LinkBody", "workspace", &[Pattern(WORKSPACE)]),
    ("LinkBody", "role", &[Words(roles)]),
    ("InviteBody", "email", &[Format("email")]),
    ("InviteBody", "role", &[Words(roles)]),
    ("MemberBody", "role", &[Words(roles)]),
    ("OutcomeBody", "to", &[Pattern(PHONE_OR_ALL)]),
    ("OutcomeBody", "outcome", &[Words(outcomes)]),
    ("OutcomeBody", "channel", &[Words(|| vec!["messaging", "sms", "email"])]),
    ("NewBroadcastBody", "name", &[Pattern(NAME)]),
    ("NewBroadcastBody", "template_name", &[Chars(1, 512)]),
    ("NewBroadcastBody", "policy", &[Words(|| vec!["at_most_once", "at_least_once"])]),
    ("BroadcastTestBody", "name", &[Pattern(NAME)]),
    ("BroadcastTestBody", "template_name", &[Chars(1, 512)]),
    ("BroadcastTestBody", "policy", &[Words(|| vec!["at_most_once", "at_least_once"])]),
    ("BroadcastUpdate", "name", &[Pattern(NAME)]),
    ("WebhookInput", "url", URL),
    ("WebhookInput", "events", &[KINDS]),
    ("WebhookUpdate", "url", URL),
    ("WebhookUpdate", "events", &[KINDS]),
    ("NewWorkspace", "name", &[Pattern(NAME)]),
    ("OwnWorkspaceUpdate", "name", &[Pattern(NAME)]),
    ("NewKeyBody", "name", &[Pattern(NAME)]),
    ("NewKeyBody", "scopes", &[NotEmpty, Items(&[Words(scopes)])]),
    ("NewKeyBody", "allowed_subnets", &[Items(&[Pattern(SUBNET)])]),
    ("NewTokenBody", "name", &[Pattern(NAME)]),
    ("Destinations", "allow", &[Items(&[Pattern(PREFIX)])]),
    ("Destinations", "deny", &[Items(&[Pattern(PREFIX)])]),
    ("Destinations", "safe", &[Items(&[Pattern(PREFIX)])]),
    ("Destinations", "adaptive", &[Words(|| AdaptiveMode::ALL.map(AdaptiveMode::as_str).to_vec())]),
    ("NewTemplateBody", "language", &[Pattern(LANGUAGE)]),
    ("NewTemplateBody", "category", &[Words(|| TemplateCategory::WORDS.to_vec())]),
    ("NewTemplateBody", "status", &[Words(template_statuses)]),
    ("TemplateChange", "status", &[Words(template_statuses)]),
    ("OtpTemplateBody", "name", &[Pattern(TEMPLATE_NAME)]),
    ("OtpTemplateBody", "language", &[Pattern(LANGUAGE)]),
    ("ShardTarget", "to", &[Pattern(NODE)]),
    ("NumberInput", "kind", &[Words(|| vec!["sandbox", "cloud_api"])]),
    ("NumberInput", "messages_per_second", &[Max(NUMBER_RATE_MAX)]),
    ("NumberInput", "phone", &[Pattern(PHONE)]),
    ("NumberInput", "phone_number_id", &[Pattern(PROVIDER_ID)]),
    ("NumberInput", "account_id", &[Pattern(PROVIDER_ID)]),
    ("NumberInput", "token", SECRET),
    ("NumberInput", "app_secret", SECRET),
    ("NumberInput", "verify_token", SECRET),
    ("NumberUpdate", "token", SECRET),
    ("NumberUpdate", "app_secret", SECRET),
    ("NumberUpdate", "verify_token", SECRET),
    ("NumberUpdate", "messages_per_second", &[Max(NUMBER_RATE_MAX)]),
];

/// The rules of parameters: operation, parameter and rules; `*` is every operation.
const PARAMETERS: &[(&str, &str, &[ValueRule])] = &[
    ("*", "page", &[Max(PAGE_MAX)]),
    ("listBroadcastRecipients", "status", &[Words(recipient_statuses)]),
    ("listConversations", "status", &[Words(conversation_statuses)]),
    ("listConversations", "assigned_to", &[Chars(1, 100), Pattern(FILLED_NAME)]),
    ("readContactTimeline", "cursor", &[Pattern(CURSOR)]),
    ("listNotes", "cursor", &[Pattern(ID_CURSOR)]),
    ("exportContacts", "after", &[Pattern(CONTACT_ID)]),
    ("listEvents", "cursor", &[Pattern(CURSOR)]),
    ("listEvents", "type", &[Words(kinds)]),
    ("listEvents", "types", &[PatternOf(kind_list)]),
    ("listEvents", "order", &[Words(|| vec!["asc", "desc"])]),
    ("listContacts", "sort", &[Words(contact_sorts)]),
    ("listOtps", "phone", &[Pattern(PHONE)]),
    ("listOtps", "status", &[Words(otp_statuses)]),
    ("listOtps", "channel", &[Words(|| vec!["messaging", "sms", "email"])]),
    ("listOtps", "since", &[Format("date-time")]),
    ("listOtps", "until", &[Format("date-time")]),
    ("listOtps", "from", &[Format("date-time")]),
    ("listOtps", "to", &[Format("date-time")]),
    ("listOtps", "cursor", &[Pattern(ID_CURSOR)]),
    ("listOtpDecisions", "prefix", &[Pattern(PREFIX)]),
    ("listOtpDecisions", "phone", &[Pattern(PHONE)]),
    ("listOtpDecisions", "request_id", &[Pattern(REQUEST_ID)]),
    (
        "listOtpDecisions",
        "decision",
        &[Words(|| OtpDecision::ALL.map(OtpDecision::as_str).to_vec())],
    ),
    ("listOtpDecisions", "since", &[Format("date-time")]),
    ("listOtpDecisions", "until", &[Format("date-time")]),
    ("listOtpDecisions", "cursor", &[Pattern(CURSOR)]),
    ("listMessages", "to", &[Pattern(PARTY)]),
    ("listMessages", "recipient", &[Pattern(USER_ID)]),
    ("listMessages", "type", &[Words(|| MessageKind::WORDS.to_vec())]),
    ("listMessages", "number_id", &[Pattern(NUMBER_ID)]),
    ("listMessages", "broadcast_id", &[Pattern(BROADCAST_ID)]),
    ("listMessages", "status", &[Words(message_statuses)]),
    ("listMessages", "since", &[Format("date-time")]),
    ("listMessages", "until", &[Format("date-time")]),
    ("listMessages", "cursor", &[Pattern(ID_CURSOR)]),
    ("uploadMedia", "filename", &[Pattern(FILE_NAME)]),
    ("readLog", "log", &[Pattern(LOG_ID)]),
    ("listWebhookDeliveries", "status", &[Words(|| vec!["failed", "ok"])]),
    ("listWebhookDeliveries", "since", &[Format("date-time")]),
    ("listRequests", "cursor", &[Pattern(CURSOR)]),
    ("listAudit", "cursor", &[Pattern(CURSOR)]),
    ("listAudit", "workspace", &[Pattern(WORKSPACE)]),
    ("listAudit", "actor", &[Chars(1, 200)]),
    ("listAudit", "action", &[Chars(1, 200)]),
    ("listAudit", "order", &[Words(|| vec!["oldest", "newest"])]),
    ("listAudit", "since", &[Format("date-time")]),
    ("listAudit", "until", &[Format("date-time")]),
    ("checkAudit", "cursor", &[Pattern(CURSOR)]),
    ("streamEvents", "cursor", &[Pattern(CURSOR)]),
    ("readSandboxThread", "cursor", &[Pattern(CURSOR)]),
    ("streamEvents", "last_event_id", &[Pattern(EVENT_PLACE)]),
    ("streamEvents", "Last-Event-ID", &[Pattern(EVENT_PLACE)]),
    ("listSandboxMessages", "to", &[Pattern(PHONE)]),
    ("readOtpAnalytics", "group_by", &[Words(|| vec!["day", "country"])]),
    ("readCampaignAnalytics", "group_by", &[Words(|| vec!["day", "broadcast"])]),
];

fn kinds() -> Vec<&'static str> {
    PublicEvent::KINDS.iter().map(|(name, _)| *name).collect()
}

/// Returns the pattern of a list of event types, separated by commas.
fn kind_list() -> String {
    let kinds = kinds().join("|").replace('.', r"\.");
    format!("^({kinds})(,({kinds}))*$")
}

fn message_statuses() -> Vec<&'static str> {
    vec!["queued", "held", "sent", "delivered", "read", "failed", "unknown"]
}

fn otp_statuses() -> Vec<&'static str> {
    vec!["active", "verified", "expired", "invalidated", "cancelled"]
}

fn scopes() -> Vec<&'static str> {
    Scope::ALL.into_iter().map(Scope::as_str).collect()
}

fn contact_sorts() -> Vec<&'static str> {
    vec!["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"]
}

fn roles() -> Vec<&'static str> {
    Role::ALL.into_iter().map(Role::as_str).collect()
}

fn interactive() -> Value {
    json!({"type": "button", "body": {"text": "Shall we?"}, "action": {"buttons": [
        {"type": "reply", "reply": {"id": "yes", "title": "Yes"}}]}})
}

fn template_statuses() -> Vec<&'static str> {
    TemplateStatus::WORDS.to_vec()
}

fn conversation_statuses() -> Vec<&'static str> {
    ConversationStatus::ALL.into_iter().map(ConversationStatus::as_str).collect()
}

fn recipient_statuses() -> Vec<&'static str> {
    RecipientStatus::ALL.iter().map(|status| status.as_str()).collect()
}

fn outcomes() -> Vec<&'static str> {
    vec!["sent", "failed", "unavailable", "lost", "slow", "silent", "held"]
}

/// Adds the rules to the document.
pub(crate) struct Strict;

impl Modify for Strict {
    fn modify(&self, document: &mut OpenApi) {
        for (schema, field, rules) in FIELDS {
            if let Some(place) = field_of(document, schema, field) {
                rules.iter().for_each(|rule| rule.apply(place));
            }
        }
        for (operation, reasons) in REASONS {
            if let Some(response) = unprocessable(document, operation) {
                let reasons: Vec<_> = reasons.iter().map(|it| format!("`{it}`")).collect();
                response.description.push_str("; as `reason`: ");
                response.description.push_str(&reasons.join(", "));
            }
        }
        for (operation, name, rules) in PARAMETERS {
            for parameter in parameters(document, operation, name) {
                if let Some(RefOr::T(place)) = &mut parameter.schema {
                    rules.iter().for_each(|rule| rule.apply(place));
                }
            }
        }
    }
}

fn field_of<'a>(document: &'a mut OpenApi, schema: &str, field: &str) -> Option<&'a mut Schema> {
    let schema = document.components.as_mut()?.schemas.get_mut(schema)?;
    let RefOr::T(schema) = schema else { return None };
    let object = match schema {
        Schema::Object(object) => object,
        // If the body has alternatives, the first schema is the body itself.
        Schema::AllOf(all) => match all.items.first_mut()? {
            RefOr::T(Schema::Object(object)) => object,
            _ => return None,
        },
        _ => return None,
    };
    match object.properties.get_mut(field)? {
        RefOr::T(field) => Some(field),
        RefOr::Ref(_) => None,
    }
}

fn parameters<'a>(
    document: &'a mut OpenApi,
    operation: &'a str,
    name: &'a str,
) -> impl Iterator<Item = &'a mut Parameter> {
    let named = move |id: &Option<String>| {
        let id = id.as_deref().map(|id| id.strip_suffix(BY_MESSAGING_PATH).unwrap_or(id));
        operation == "*" || id == Some(operation)
    };
    let found = document.paths.paths.values_mut().flat_map(operations);
    let found = found.filter(move |operation| named(&operation.operation_id));
    let found = found.flat_map(|operation| operation.parameters.iter_mut().flatten());
    found.filter_map(move |parameter| match parameter {
        RefOr::T(parameter) if parameter.name == name => Some(parameter),
        _ => None,
    })
}

/// Returns the 422 of an operation, if it has one.
fn unprocessable<'a>(document: &'a mut OpenApi, operation: &str) -> Option<&'a mut Response> {
    let mut all = document.paths.paths.values_mut().flat_map(operations);
    let found = all.find(|it| it.operation_id.as_deref() == Some(operation))?;
    match found.responses.responses.get_mut("422")? {
        RefOr::T(response) => Some(response),
        RefOr::Ref(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::openapi_document;

    #[test]
    fn every_rule_has_its_place() {
        let mut document = openapi_document();
        for (schema, field, _) in FIELDS {
            assert!(field_of(&mut document, schema, field).is_some(), "{schema}.{field}");
        }
        for (operation, _) in REASONS {
            assert!(unprocessable(&mut document, operation).is_some(), "{operation}");
        }
        for (operation, name, _) in PARAMETERS {
            let count = parameters(&mut document, operation, name).count();
            let expected = match *operation {
                "*" => 25,
                "listOtps" | "listOtpDecisions" => 2,
                _ => 1,
            };
            assert_eq!(count, expected, "{operation} {name}");
        }
    }
}
