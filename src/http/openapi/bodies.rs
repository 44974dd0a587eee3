//! States in the document that some operations need no body.

use utoipa::Modify;
use utoipa::openapi::{OpenApi, RefOr, Required};

use super::parts::operations;

/// Operations that do less without a body.
const OPTIONAL: [&str; 1] = ["markConversationRead"];

/// Marks the bodies of these operations as optional.
pub(crate) struct OptionalBodies;

impl Modify for OptionalBodies {
    fn modify(&self, document: &mut OpenApi) {
        for operation in document.paths.paths.values_mut().flat_map(operations) {
            let id = operation.operation_id.as_deref();
            if id.is_some_and(|id| OPTIONAL.contains(&id))
                && let Some(RefOr::T(body)) = &mut operation.request_body
            {
                body.required = Some(Required::False);
            }
        }
    }
}
