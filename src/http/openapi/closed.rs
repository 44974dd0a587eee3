//! States in the document that bodies have no other fields than those that it lists.

use std::collections::BTreeSet;

use utoipa::Modify;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, Schema};
use utoipa::openapi::{OpenApi, RefOr};

use super::parts::operations;

/// The prefix of the paths to which providers post. Their bodies may have any fields.
const OF_PROVIDERS: &str = "/channels/";

/// Closes the schemas of bodies, and those that they contain.
pub(crate) struct Closed;

impl Modify for Closed {
    fn modify(&self, document: &mut OpenApi) {
        let mut named = BTreeSet::new();
        for (path, item) in &mut document.paths.paths {
            for operation in operations(item).filter(|_| !path.starts_with(OF_PROVIDERS)) {
                let Some(RefOr::T(body)) = &mut operation.request_body else { continue };
                for content in body.content.values_mut() {
                    let RefOr::T(content) = content else { continue };
                    content.schema.iter_mut().for_each(|schema| close(schema, &mut named));
                }
            }
        }
        let Some(components) = &mut document.components else { return };
        let mut closed = BTreeSet::new();
        while let Some(name) = named.pop_first() {
            if closed.insert(name.clone())
                && let Some(schema) = components.schemas.get_mut(&name)
            {
                close(schema, &mut named);
            }
        }
    }
}

/// Closes a schema, and adds the names of the schemas that it refers to to `named`.
fn close(schema: &mut RefOr<Schema>, named: &mut BTreeSet<String>) {
    match schema {
        RefOr::Ref(reference) => {
            named.extend(reference.ref_location.rsplit('/').next().map(str::to_owned));
        }
        RefOr::T(Schema::Object(object)) => {
            if !object.properties.is_empty() && object.additional_properties.is_none() {
                object.additional_properties =
                    Some(Box::new(AdditionalProperties::FreeForm(false)));
            }
            object.properties.values_mut().for_each(|field| close(field, named));
            if let Some(AdditionalProperties::RefOr(values)) =
                object.additional_properties.as_deref_mut()
            {
                close(values, named);
            }
        }
        RefOr::T(Schema::Array(array)) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                close(items, named);
            }
        }
        // The first schema is the body itself; the others only narrow it.
        RefOr::T(Schema::AllOf(all)) => {
            all.items.first_mut().into_iter().for_each(|schema| close(schema, named));
        }
        RefOr::T(Schema::OneOf(one)) => {
            one.items.iter_mut().for_each(|schema| close(schema, named));
        }
        RefOr::T(Schema::AnyOf(any)) => {
            any.items.iter_mut().for_each(|schema| close(schema, named));
        }
        RefOr::T(_) => {}
    }
}
