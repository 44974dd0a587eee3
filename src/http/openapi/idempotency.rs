//! Describes the `Idempotency-Key` header in the OpenAPI document.

use utoipa::Modify;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, OpenApi, RefOr, Required, Type};

use super::parts::{header, operations, refusal};

/// The operations whose handlers read
/// [`Call::idempotency_key`](crate::http::pipeline::Call::idempotency_key).
const HONOURED_BY: [&str; 7] = [
    "sendOtp",
    "sendOtpByMessagingPath",
    "sendMessage",
    "createBroadcast",
    "createContact",
    "createContacts",
    "replyInConversation",
];

/// Adds the header to the operations that honour it.
pub(crate) struct Idempotency;

impl Modify for Idempotency {
    fn modify(&self, document: &mut OpenApi) {
        for item in document.paths.paths.values_mut() {
            operations(item).filter(|operation| honours(operation)).for_each(describe);
        }
    }
}

fn honours(operation: &Operation) -> bool {
    operation.operation_id.as_deref().is_some_and(|id| HONOURED_BY.contains(&id))
}

fn describe(operation: &mut Operation) {
    let text =
        ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(255));
    let key = ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("For 24 hours the same key with the same body answers as the first time. Other operations \
             do not look at this header"))
        .schema(Some(text))
        .build();
    operation.parameters.get_or_insert_default().push(key.into());
    // 409: the first request with the key is still in progress.
    operation.responses.responses.insert("409".to_owned(), refusal(409).into());
    for (status, response) in &mut operation.responses.responses {
        if let (true, RefOr::T(response)) = (status.starts_with('2'), response) {
            let replayed = header("`true` when this was answered before");
            response.headers.insert("Idempotency-Replayed".to_owned(), replayed);
        }
    }
}
