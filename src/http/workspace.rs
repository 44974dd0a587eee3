//! Serves the workspace of the call to its members and keys.

use std::borrow::Cow;

use postrider_actors::domain::{Limits, Prices};
use postrider_actors::{
    AdminError, Members, NumberInfo, NumberState, Permission, WorkspaceSettings,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::admin::{KEEPS_FAILING, LimitsSchema, check_name};
use super::pipeline::{Answer, ApiError, Call, Code, Key, Principal, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(read).guarded(Key::ANY))
        .routes(route!(update).guarded(Key::of(Permission::SettingsWrite)))
}

/// How much of its limits a workspace has used.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LimitsUsed {
    /// One-time passwords of the last hour; compare `otp_per_workspace_hour`.
    #[schema(example = 3)]
    otp_hour: usize,
    /// When the oldest of those is counted no longer; null while there is none.
    #[schema(format = DateTime)]
    otp_hour_resets_at: Option<String>,
    /// Requests to make contacts; compare `contacts_per_minute`.
    #[schema(example = 0)]
    contacts_minute: u32,
}

/// What a message costs, in credits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PricesAnswer {
    /// A one-time password.
    #[schema(example = 1)]
    otp: u64,
    /// A try to bring one by SMS.
    #[schema(example = 1)]
    otp_sms: u64,
    /// A try to bring one by mail.
    #[schema(example = 1)]
    otp_email: u64,
    /// A message of free text.
    #[schema(example = 1)]
    text: u64,
    /// A template of the category `utility`.
    #[schema(example = 1)]
    template_utility: u64,
    /// A template of the category `marketing`.
    #[schema(example = 1)]
    template_marketing: u64,
    /// A template of the category `authentication`.
    #[schema(example = 1)]
    template_authentication: u64,
}

impl From<Prices> for PricesAnswer {
    fn from(prices: Prices) -> Self {
        Self {
            otp: prices.otp,
            otp_sms: prices.otp_sms,
            otp_email: prices.otp_email,
            text: prices.text,
            template_utility: prices.template_utility,
            template_marketing: prices.template_marketing,
            template_authentication: prices.template_authentication,
        }
    }
}

/// A template's name and language.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OtpTemplateAnswer {
    /// Its name.
    #[schema(example = "otp_code")]
    name: Box<str>,
    /// Its language, as the channel writes it.
    #[schema(example = "en")]
    language: Box<str>,
}

/// A number that does not send now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoppedNumber {
    /// The number.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    number_id: String,
    /// Why, as the provider explains it, without what looks like a phone or a token.
    #[schema(example = "error 190: the access token has expired")]
    reason: String,
}

/// The workspace of the call.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OwnWorkspaceAnswer {
    /// Its id.
    #[schema(example = "acme")]
    id: String,
    /// What people call it.
    #[schema(example = "Acme")]
    name: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// Its balance.
    credits: u64,
    /// The limits in force; 0 is no limit.
    #[schema(value_type = LimitsSchema)]
    limits: Limits,
    /// How much of them is used.
    usage: LimitsUsed,
    /// What messages cost.
    prices: PricesAnswer,
    /// The template that carries one-time passwords.
    otp_template: OtpTemplateAnswer,
    /// Whether all members need an authenticator.
    require_totp: bool,
    /// How many numbers it has; without one nothing is sent.
    #[schema(example = 1)]
    numbers: usize,
    /// Its numbers that do not send now, as the event `number.stopped` reports them.
    problems: Vec<StoppedNumber>,
}

/// Returns the numbers of a workspace that do not send.
async fn problems(call: &Call<Principal>, numbers: &[NumberInfo]) -> Vec<StoppedNumber> {
    let (admin, mut found) = (call.edge.engine.admin(), Vec::new());
    for number in numbers {
        let figures = admin.number_figures(number.id).await;
        if figures.state == NumberState::Stopped {
            let reason = figures.reason.unwrap_or_else(|| KEEPS_FAILING.to_owned());
            found.push(StoppedNumber { number_id: number.id.to_string(), reason });
        }
    }
    found
}

impl OwnWorkspaceAnswer {
    async fn of(call: &Call<Principal>, settings: WorkspaceSettings) -> Self {
        let (template, problems) = (settings.otp_template, problems(call, &settings.numbers).await);
        Self {
            id: call.caller.workspace().id().to_string(),
            name: settings.name,
            created_at: settings.created_at.to_string(),
            credits: settings.credits,
            limits: settings.limits,
            usage: LimitsUsed {
                otp_hour: settings.otps_last_hour,
                otp_hour_resets_at: settings.otps_counted_until.map(|at| at.to_string()),
                contacts_minute: settings.contacts_last_minute,
            },
            prices: settings.prices.into(),
            otp_template: OtpTemplateAnswer { name: template.name, language: template.language },
            require_totp: call.edge.engine.people().requires_totp(call.caller.workspace().id()),
            numbers: settings.numbers.len(),
            problems,
        }
    }
}

#[utoipa::path(
    get,
    path = "/v1/workspace",
    operation_id = "readOwnWorkspace",
    tag = "Operation",
    summary = "The workspace of the call",
    description = "Its balance, limits and prices, and what is wrong with its numbers, for whoever \
                   is in it.",
    responses((status = 200, description = "The workspace", body = OwnWorkspaceAnswer))
)]
async fn read(call: Call<Principal>) -> Answer {
    let settings = call.caller.workspace().settings().await.map_err(AdminError::from)?;
    Ok(Reply::ok(&OwnWorkspaceAnswer::of(&call, settings).await))
}

/// Changes the workspace.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct OwnWorkspaceUpdate<'a> {
    /// Its new name, for people.
    #[serde(borrow)]
    #[schema(example = "Acme Ltd", min_length = 1, max_length = 100)]
    name: Option<Cow<'a, str>>,
    /// Whether all members need an authenticator. Who has none may do nothing in the workspace
    /// until they have set one up; whoever asks for it must have one.
    #[schema(example = false)]
    require_totp: Option<bool>,
}

#[utoipa::path(
    patch,
    path = "/v1/workspace",
    operation_id = "updateOwnWorkspace",
    tag = "Operation",
    summary = "Change the workspace of the call",
    description = "For people whose role allows it; no key does.",
    request_body = OwnWorkspaceUpdate,
    responses((status = 200, description = "Changed", body = OwnWorkspaceAnswer))
)]
async fn update(call: Call<Principal>) -> Answer {
    let body: OwnWorkspaceUpdate<'_> = call.json()?;
    let name = body.name.map(Cow::into_owned);
    name.as_deref().map_or(Ok(()), check_name)?;
    call.keeps(&["id", "limits", "prices", "otp_template"], async || {
        let settings = call.caller.workspace().settings().await.map_err(AdminError::from)?;
        Ok(OwnWorkspaceAnswer::of(&call, settings).await)
    })
    .await?;
    if let Some(required) = body.require_totp {
        require_totp(&call, required).await?;
    }
    let settings = match name {
        None => call.caller.workspace().settings().await.map_err(AdminError::from)?,
        Some(name) => {
            let workspace = call.audited(call.caller.workspace());
            workspace.rename(name).await.map_err(AdminError::from)?
        }
    };
    Ok(Reply::ok(&OwnWorkspaceAnswer::of(&call, settings).await))
}

async fn require_totp(call: &Call<Principal>, required: bool) -> Result<(), ApiError> {
    let is_member_without = match &call.caller {
        Principal::Person(member) => {
            let person = member.signed_in.person.as_ref();
            person.is_some_and(|it| !it.has_authenticator())
        }
        Principal::Key(_) => false,
    };
    if required && is_member_without {
        let message = "set up an authenticator of your own first";
        return Err(ApiError::new(Code::Conflict, message).because("totp_required"));
    }
    let (people, id) = (call.edge.engine.people(), call.caller.workspace().id().clone());
    Members::of(people).require_totp(id, required, call.audit_context()).await?;
    Ok(())
}
