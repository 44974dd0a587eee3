//! Describes event types in the OpenAPI document: the `data` of each, and its webhook.

use postrider_actors::domain::PublicEvent;
use utoipa::Modify;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{AllOfBuilder, Schema};
use utoipa::openapi::{ContentBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Required, Type};

/// Adds a schema for each event type, and the schemas of their payloads.
pub(crate) struct EventSchemas;

impl Modify for EventSchemas {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        for event_type in PublicEvent::TYPES {
            let schemas = (event_type.schemas)();
            // The first schema is that of the payload itself.
            let Some((payload, _)) = schemas.first() else { continue };
            let payload = Ref::from_schema_name(payload);
            components.schemas.extend(schemas);
            let name = [event_type.name];
            let name = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(name));
            let own = ObjectBuilder::new()
                .property("type", name)
                .property("data", payload)
                .required("type")
                .required("data");
            let event = AllOfBuilder::new()
                .description(Some(event_type.what))
                .item(Ref::from_schema_name("EventRow"))
                .item(own)
                .build();
            let name = schema_of(event_type.name);
            components.schemas.insert(name, RefOr::T(Schema::AllOf(event)));
        }
    }
}

/// Returns the schema name of an event type.
pub(super) fn schema_of(kind: &str) -> String {
    format!("Event-{kind}")
}

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
                parameter.schema = Some(event_kinds().into());
            }
        }
    }
}

/// Returns the schema of an event type's name.
fn event_kinds() -> ObjectBuilder {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use utoipa::PartialSchema;

    use super::*;
    use crate::http::messages::{MessageErrorAnswer, TemplateAnswer};

    #[test]
    fn the_document_has_the_event_types_of_the_table() {
        let mut document = OpenApi::default();
        EventSchemas.modify(&mut document);
        let schemas = document.components.unwrap().schemas;
        let described: BTreeSet<_> =
            schemas.keys().filter(|name| name.starts_with("Event-")).cloned().collect();
        let declared = PublicEvent::TYPES.iter().map(|it| schema_of(it.name)).collect();
        assert_eq!(described, declared);
        for event_type in PublicEvent::TYPES {
            let event = serde_json::to_value(&schemas[&schema_of(event_type.name)]).unwrap();
            let own = &event["allOf"][1]["properties"];
            assert_eq!(own["type"]["enum"][0], event_type.name);
            let payload = own["data"]["$ref"].as_str().unwrap();
            assert!(schemas.contains_key(payload.rsplit('/').next().unwrap()), "{payload}");
        }
    }

    /// Answers and payloads share the names of these schemas, so they must share the schemas.
    #[test]
    fn payloads_describe_templates_and_errors_as_answers_do() {
        let mut document = OpenApi::default();
        EventSchemas.modify(&mut document);
        let schemas = document.components.unwrap().schemas;
        assert!(schemas["UsedTemplate"] == TemplateAnswer::schema());
        assert!(schemas["MessageError"] == MessageErrorAnswer::schema());
    }
}
