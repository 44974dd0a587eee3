//! Sets and reads the test phones of a workspace.

use std::collections::BTreeMap;

use postrider_actors::domain::{OtpCode, Phone};
use postrider_actors::{Permission, TestPhones};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::workspace;
use crate::http::pipeline::{Answer, ApiError, Call, Manages, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(set).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read).guarded(Manages::of(Permission::SettingsWrite)))
}

/// The test phones to be; without `Debug`, as it has their codes.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewTestPhones, example = json!({"phones": {"+15550100001": "123456"}}))]
pub(crate) struct TestPhonesBody {
    /// Each phone with the code that verifies there, of 4 to 8 digits: at most 50.
    #[schema(example = json!({"+15550100001": "123456"}))]
    phones: BTreeMap<String, String>,
}

/// The test phones of a workspace, without their codes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TestPhones)]
pub(crate) struct TestPhonesAnswer {
    /// In order.
    #[schema(example = json!(["+15550100001"]))]
    phones: Vec<String>,
}

fn reply(phones: &[Phone]) -> Reply {
    Reply::ok(&TestPhonesAnswer { phones: phones.iter().map(ToString::to_string).collect() })
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/test-phones",
    operation_id = "setTestPhones",
    tag = "Administration",
    summary = "Set the test phones of a workspace",
    description = "In place of those before. A one-time password to one of them is answered as any \
                   other, but nothing is sent, paid, limited or counted: the code that is set here \
                   verifies it. Its events have `test` true.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = TestPhonesBody,
    responses((status = 200, description = "The test phones in force", body = TestPhonesAnswer))
)]
async fn set(mut call: Call<()>) -> Answer {
    let phones = {
        let body: TestPhonesBody = call.json()?;
        if body.phones.len() > TestPhones::MAX {
            let rule = format_args!("must have at most {} entries", TestPhones::MAX);
            return Err(ApiError::field("phones", rule));
        }
        let parse = |(phone, code): (&String, &String)| {
            let field = format!("phones.{phone}");
            let phone: Phone = phone.parse().map_err(|error| ApiError::field(&field, error))?;
            let code = OtpCode::chosen(code).map_err(|error| ApiError::field(&field, error))?;
            Ok((phone, code))
        };
        let phones = body.phones.iter().map(parse).collect::<Result<Vec<_>, ApiError>>()?;
        for (at, (phone, _)) in phones.iter().enumerate() {
            if let Some((other, _)) = phones[..at].iter().find(|(other, _)| other == phone) {
                let rule = format_args!("is the same phone as {other}");
                return Err(ApiError::field(&format!("phones.{phone}"), rule));
            }
        }
        phones
    };
    let (workspace, phones) = (workspace(&mut call).await?, TestPhones::new(phones));
    let answer = reply(&phones.phones());
    workspace.set_test_phones(phones).await?;
    Ok(answer)
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/test-phones",
    operation_id = "readTestPhones",
    tag = "Administration",
    summary = "Read the test phones of a workspace",
    description = "Without their codes.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The test phones in force", body = TestPhonesAnswer))
)]
async fn read(mut call: Call<()>) -> Answer {
    Ok(reply(&workspace(&mut call).await?.test_phones().await?))
}
