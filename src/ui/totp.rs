//! A person's authenticator: setting it up, and removing it.

use std::borrow::Cow;

use postrider_actors::{Authenticators, PeopleError, Person, SignedIn};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::pipeline::{Answer, ApiError, Call, RecentlySignedIn, Reply, Routes, route};

/// The issuer that an authenticator shows beside the code.
const ISSUER: &str = "Postrider";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(begin).guarded(RecentlySignedIn))
        .routes(route!(confirm).guarded(RecentlySignedIn))
        .routes(route!(remove).guarded(RecentlySignedIn))
}

/// A new secret; without `Debug`, as it is one.
#[derive(Serialize, ToSchema)]
pub(crate) struct TotpAnswer {
    /// The secret in Base32, to be typed.
    #[schema(example = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")]
    secret: String,
    /// The same for a QR code.
    #[schema(
        example = "otpauth://totp/Postrider:ada%40acme.com?secret=GEZDGNBVGY3TQOJQ&issuer=Postrider"
    )]
    uri: String,
}

#[utoipa::path(
    post,
    path = "/ui/api/totp",
    operation_id = "beginTotp",
    tag = "Dashboard",
    summary = "Show the secret of a new authenticator",
    description = "It counts once a code of it was sent, within ten minutes. Six digits, a new one every \
                   30 seconds (RFC 6238).",
    responses((status = 200, description = "The secret; it is shown here only", body = TotpAnswer))
)]
async fn begin(call: Call<SignedIn>) -> Answer {
    let person = person(&call)?;
    let secret = Authenticators::of(call.edge.engine.people()).begin(&call.caller)?;
    let secret = secret.reveal().to_owned();
    let label: String = person.email.as_str().bytes().map(escaped).collect();
    let uri = format!("otpauth://totp/{ISSUER}:{label}?secret={secret}&issuer={ISSUER}");
    Ok(Reply::ok(&TotpAnswer { secret, uri }))
}

/// Escapes a byte for a part of an address (RFC 3986, section 2.3).
fn escaped(byte: u8) -> String {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    }
}

/// What the authenticator shows.
#[derive(Deserialize, ToSchema)]
pub(crate) struct TotpBody<'a> {
    /// The code.
    #[serde(borrow)]
    #[schema(example = "123456", max_length = 64)]
    code: Cow<'a, str>,
}

/// What stands in for a lost authenticator; without `Debug`, as it is secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct RecoveryCodesAnswer {
    /// Ten codes. Each of them works once in place of a code of the authenticator.
    #[schema(example = json!(["abcd-efgh-ijkl-mnop"]))]
    recovery_codes: Vec<String>,
}

#[utoipa::path(
    put,
    path = "/ui/api/totp",
    operation_id = "confirmTotp",
    tag = "Dashboard",
    summary = "Confirm the new authenticator by a code of it",
    description = "From now on a sign-in by password needs a code. Each step's code is taken once.",
    request_body = TotpBody,
    responses((status = 200, description = "Confirmed; the codes are shown here only",
               body = RecoveryCodesAnswer))
)]
async fn confirm(call: Call<SignedIn>) -> Answer {
    let body: TotpBody<'_> = call.json()?;
    let all = Authenticators::of(call.edge.engine.people());
    let codes = all.confirm(&call.caller, &body.code, call.audit_context()).await?;
    let recovery_codes = codes.iter().map(|code| code.reveal().to_owned()).collect();
    Ok(Reply::ok(&RecoveryCodesAnswer { recovery_codes }))
}

#[utoipa::path(
    delete,
    path = "/ui/api/totp",
    operation_id = "removeTotp",
    tag = "Dashboard",
    summary = "Remove one's authenticator",
    responses((status = 204, description = "Removed, with its recovery codes"))
)]
async fn remove(call: Call<SignedIn>) -> Answer {
    let all = Authenticators::of(call.edge.engine.people());
    all.remove(&call.caller, call.audit_context()).await?;
    Ok(Reply::no_content())
}

/// Returns the calling person; the holder of an admin token is none.
fn person(call: &Call<SignedIn>) -> Result<&Person, ApiError> {
    let person = call.caller.person.as_deref();
    person.ok_or_else(|| PeopleError::NoSuchPerson.into())
}
