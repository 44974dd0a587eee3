//! Describes the requests to webhook endpoints in the OpenAPI document.

use postrider_actors::domain::PublicEvent;
use utoipa::Modify;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{ContentBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Required, Type};

use super::events::schema_of;

/// Adds one webhook for each event type, and the types that the event log can be filtered by.
pub(crate) struct Deliveries;

impl Modify for Deliveries {
    fn modify(&self, document: &mut OpenApi) {
        let all = PublicEvent::KINDS.iter().fold(PathsBuilder::new(), |all, (kind, what)| {
            all.path(*kind, PathItem::new(HttpMethod::Post, delivery(kind, what)))
        });
        document.webhooks = Some(all.build());
        let log = document.paths.paths.get_mut("/v1/events").and_then(|path| path.get.as_mut());
        let parameters = log.and_then(|log| log.parameters.as_mut()).into_iter().flatten();
        for parameter in parameters {
            if let RefOr::T(parameter) = parameter
                && parameter.name == "type"
            {
                parameter.schema = Some(kinds().into());
            }
        }
    }
}

/// Returns the schema of an event type's name.
fn kinds() -> ObjectBuilder {
    let kinds = PublicEvent::KINDS.iter().map(|(kind, _)| *kind);
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(kinds))
}

fn delivery(kind: &str, what: &str) -> OperationBuilder {
    let event = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema_of(kind)))).build();
    let body = RequestBodyBuilder::new()
        .description(Some(
            "The event; for an endpoint with `batch`, an array of up to 100. An event has \
             less than 70 kB, and less than 1 kB but for what somebody wrote: contacts with many \
             fields, and messages and mails that come in, which are not cut, so that nobody has \
             to ask for the rest. A batch ends at about 256 kB",
        ))
        .content("application/json", event)
        .required(Some(Required::True))
        .build();
    let arrived = ResponseBuilder::new().description("It has arrived").build();
    let other = ResponseBuilder::new()
        .description("It is tried again later; after 410 nothing more is sent")
        .build();
    let headers = [
        ("webhook-id", "The event's id, the same with every try"),
        ("webhook-timestamp", "Unix seconds of this try"),
        ("webhook-signature", "`v1,` and the signature in Base64; two while a secret is replaced"),
    ];
    let headers = headers.map(|(name, description)| {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::True)
            .description(Some(description))
            .schema(Some(text))
            .build()
    });
    OperationBuilder::new()
        .tag("Webhooks")
        .summary(Some(what))
        .parameters(Some(headers))
        .request_body(Some(body))
        .response("2XX", arrived)
        .response("default", other)
}
