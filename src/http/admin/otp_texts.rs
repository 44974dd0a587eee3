//! Sets and reads the texts of a workspace's one-time passwords for SMS and mail.

use std::collections::BTreeMap;

use postrider_actors::Permission;
use postrider_actors::domain::otp_text::{Language, OtpText, OtpTexts};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::workspace_id;
use crate::http::pipeline::{Answer, ApiError, Call, Manages, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(set).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read).guarded(Manages::of(Permission::SettingsWrite)))
}

/// What a code is written in, in one language. `{code}` and `{minutes}` stand for what they name.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub(crate) struct OtpTextBody {
    /// An SMS, with `{code}` in it.
    #[schema(example = "{code} is your code. It is valid for {minutes} min.")]
    sms: String,
    /// The subject of a mail.
    #[schema(example = "Your code")]
    email_subject: String,
    /// The text of a mail, with `{code}` in it.
    #[schema(example = "{code} is your code. It is valid for {minutes} min.")]
    email_text: String,
}

/// Texts by language, such as `en` or `pt_BR`: at most 50.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = OtpTexts, example = json!({"pt": {
    "sms": "{code} é o seu código.",
    "email_subject": "O seu código",
    "email_text": "{code} é o seu código. Vale por {minutes} min."
}}))]
pub(crate) struct OtpTextsBody(
    #[serde(deserialize_with = "crate::http::pipeline::object::values")]
    BTreeMap<String, OtpTextBody>,
);

fn reply(texts: &OtpTexts) -> Reply {
    let row = |(language, text): (String, OtpText)| {
        let OtpText { sms, email_subject, email_text } = text;
        (language, OtpTextBody { sms, email_subject, email_text })
    };
    Reply::ok(&OtpTextsBody(texts.in_force().into_iter().map(row).collect()))
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/otp-texts",
    operation_id = "setOtpTexts",
    tag = "Administration",
    summary = "Set what one-time passwords of a workspace are written in over SMS and mail",
    description = "In place of those before. English is built in, and can be replaced.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = OtpTextsBody,
    responses((status = 200, description = "The texts in force", body = OtpTextsBody))
)]
async fn set(mut call: Call<()>) -> Answer {
    let OtpTextsBody(given) = call.json()?;
    if given.len() > OtpTexts::MAX {
        let rule = format_args!("must be at most {} languages", OtpTexts::MAX);
        return Err(ApiError::field("the body", rule));
    }
    let mut texts = OtpTexts::default();
    for (language, OtpTextBody { sms, email_subject, email_text }) in given {
        language.parse::<Language>().map_err(|error| ApiError::field(&language, error))?;
        let text = OtpText { sms, email_subject, email_text };
        text.check()
            .map_err(|(field, error)| ApiError::field(&format!("{language}.{field}"), error))?;
        texts.0.insert(language, text);
    }
    let id = workspace_id(&mut call).await?;
    Ok(reply(&call.admin().set_otp_texts(&id, texts).await?))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/otp-texts",
    operation_id = "readOtpTexts",
    tag = "Administration",
    summary = "Read what one-time passwords of a workspace are written in over SMS and mail",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The texts in force", body = OtpTextsBody))
)]
async fn read(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    Ok(reply(&call.edge.engine.admin().otp_texts(&id).await?))
}
