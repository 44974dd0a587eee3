//! Describes the `data` of each event type in the OpenAPI document.

use postrider_actors::domain::PublicEvent;
use utoipa::Modify;
use utoipa::openapi::schema::{AllOfBuilder, Schema};
use utoipa::openapi::{ObjectBuilder, OpenApi, Ref, RefOr, Type};

/// Adds a schema for each event type, and the schemas of their payloads.
pub(crate) struct Events;

impl Modify for Events {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use utoipa::PartialSchema;

    use super::*;
    use crate::http::messages::{MessageErrorAnswer, TemplateAnswer};

    #[test]
    fn the_document_has_the_event_types_of_the_table() {
        let mut document = OpenApi::default();
        Events.modify(&mut document);
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
        Events.modify(&mut document);
        let schemas = document.components.unwrap().schemas;
        assert!(schemas["UsedTemplate"] == TemplateAnswer::schema());
        assert!(schemas["MessageError"] == MessageErrorAnswer::schema());
    }
}
