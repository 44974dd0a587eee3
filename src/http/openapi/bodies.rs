//! States in the document which fields of a body are alternatives, and that it has no others.

use std::collections::BTreeSet;

use serde_json::Value;
use utoipa::Modify;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOf, ArrayItems, Object, OneOf, Schema, SchemaType,
};
use utoipa::openapi::{ObjectBuilder, OpenApi, RefOr, Type};

use super::operations::operations;

/// The alternatives of a file: one that is uploaded here, or one at a link.
const FILES: &[Alternative] = &[one(&["media_id"], &["link"]), one(&["link"], &["media_id"])];
/// The prefix of the paths to which providers post. Their bodies may have any fields.
const OF_PROVIDERS: &str = "/channels/";

/// A body with several alternative sets of fields.
struct Alternatives {
    schema: &'static str,
    /// The alternatives, each with the fields that must be given and the fields that must not. A
    /// given field must not be null. The explorer of the dashboard starts with the first
    /// alternative.
    of: &'static [Alternative],
}

struct Alternative {
    /// A field, and the only words that it may have in this alternative.
    tag: Option<(&'static str, &'static [&'static str])>,
    given: &'static [&'static str],
    left_out: &'static [&'static str],
}

const fn one(given: &'static [&'static str], left_out: &'static [&'static str]) -> Alternative {
    Alternative { tag: None, given, left_out }
}

/// Declares the bodies of messages: for each type, the object of that name must be given. A message
/// to one recipient names them by a phone or by the channel's id.
macro_rules! messages {
    ($($kind:literal, [$($left_out:literal)?]);*) => {
        const MESSAGES: &[Alternative] = &[$(
            Alternative { tag: Some(("type", &[$kind])), given: &[$kind], left_out: &[$($left_out)?] },
        )*];

        const SENT: &[Alternative] = &[$(
            Alternative {
                tag: Some(("type", &[$kind])),
                given: &[$kind, "to"],
                left_out: &["recipient", $($left_out)?],
            },
            Alternative {
                tag: Some(("type", &[$kind])),
                given: &[$kind, "recipient"],
                left_out: &["to", $($left_out)?],
            },
        )*];
    };
}

messages! {
    "text", ["template"]; "template", []; "image", []; "video", []; "document", []; "audio", [];
    "sticker", []; "location", []; "contacts", []; "reaction", ["context"]; "interactive", []
}

const ALTERNATIVES: &[Alternatives] = &[
    Alternatives {
        schema: "NewBroadcastBody",
        of: &[
            one(&["recipients"], &["segment_id", "variables_from"]),
            one(&["segment_id"], &["recipients"]),
        ],
    },
    Alternatives {
        schema: "BroadcastTestBody",
        of: &[
            one(&["recipients"], &["segment_id", "variables_from"]),
            one(&["segment_id"], &["recipients"]),
        ],
    },
    Alternatives {
        schema: "BulkBody",
        of: &[
            one(&["ids", "add_tags"], &["filter", "delete"]),
            one(&["ids", "remove_tags"], &["filter", "add_tags", "delete"]),
            one(&["filter", "add_tags"], &["ids", "delete"]),
            one(&["filter", "remove_tags"], &["ids", "add_tags", "delete"]),
            one(&["ids", "delete"], &["filter", "add_tags", "remove_tags"]),
            one(&["filter", "delete"], &["ids", "add_tags", "remove_tags"]),
        ],
    },
    Alternatives {
        schema: "SignInBody",
        of: &[
            one(&["link"], &["email", "password", "totp", "admin_token"]),
            one(&["email", "password"], &["link", "admin_token"]),
            one(&["admin_token"], &["link", "email", "password", "totp"]),
        ],
    },
    Alternatives {
        schema: "ElevateBody",
        of: &[one(&["password"], &[]), one(&["totp"], &["password"])],
    },
    Alternatives {
        schema: "WorkspaceDeletion",
        of: &[one(&["confirm"], &["name"]), one(&["name"], &["confirm"])],
    },
    Alternatives {
        schema: "SendBody",
        of: &[
            one(&["phone"], &[]),
            Alternative {
                tag: Some(("mode", &["inbound"])),
                given: &[],
                left_out: &["phone", "length", "channels"],
            },
        ],
    },
    // An inbound message without a text has another type, which is rare.
    Alternatives {
        schema: "InboundBody",
        of: &[one(&["from", "text"], &[]), one(&["user_id", "text"], &["from"])],
    },
    Alternatives {
        schema: "SmsInput",
        of: &[
            Alternative { tag: Some(("kind", &["sandbox"])), given: &[], left_out: &["url"] },
            Alternative { tag: Some(("kind", &["http"])), given: &["url"], left_out: &[] },
        ],
    },
    Alternatives { schema: "SendMessage", of: SENT },
    Alternatives { schema: "Reply", of: MESSAGES },
    Alternatives { schema: "CaptionedObject", of: FILES },
    Alternatives { schema: "DocumentObject", of: FILES },
    Alternatives { schema: "AudioObject", of: FILES },
    Alternatives { schema: "StickerObject", of: FILES },
    Alternatives {
        schema: "SuppressionBody",
        of: &[one(&["phone"], &["user_id"]), one(&["user_id"], &["phone"])],
    },
    Alternatives {
        schema: "ReplayBody",
        of: &[
            one(&["since"], &["event_id", "failed"]),
            one(&["event_id"], &["since", "failed"]),
            Alternative { tag: None, given: &["failed"], left_out: &["since", "event_id"] },
        ],
    },
    Alternatives {
        schema: "LinkBody",
        of: &[one(&[], &["workspace", "role"]), one(&["workspace", "role"], &[])],
    },
    Alternatives {
        schema: "ReportBody",
        of: &[
            Alternative { tag: Some(("status", &["failed"])), given: &[], left_out: &[] },
            Alternative {
                tag: Some(("status", &["delivered", "read"])),
                given: &[],
                left_out: &["error_code"],
            },
        ],
    },
    Alternatives {
        schema: "OutcomeBody",
        of: &[
            Alternative { tag: Some(("outcome", &["failed"])), given: &[], left_out: &[] },
            Alternative {
                tag: Some(("outcome", &["sent", "unavailable", "lost", "slow", "silent", "held"])),
                given: &[],
                left_out: &["error_code"],
            },
        ],
    },
    Alternatives {
        schema: "NumberInput",
        of: &[
            Alternative { tag: Some(("kind", &["sandbox"])), given: &[], left_out: &[] },
            Alternative {
                tag: Some(("kind", &["cloud_api"])),
                given: &[
                    "phone",
                    "phone_number_id",
                    "account_id",
                    "token",
                    "app_secret",
                    "verify_token",
                ],
                left_out: &[],
            },
        ],
    },
];

/// Adds the alternatives to the document.
pub(crate) struct BodyAlternatives;

impl Modify for BodyAlternatives {
    fn modify(&self, document: &mut OpenApi) {
        let Some(components) = &mut document.components else { return };
        for Alternatives { schema, of } in ALTERNATIVES {
            if let Some(RefOr::T(place)) = components.schemas.get_mut(*schema)
                && let Schema::Object(body) = place
            {
                let mut one_of = OneOf::new();
                one_of.items = of.iter().map(|fields| fields.schema(body)).collect();
                let mut all_of = AllOf::new();
                all_of.description.clone_from(&body.description);
                let body = std::mem::replace(place, Schema::Object(Object::new()));
                all_of.items = vec![RefOr::T(body), RefOr::T(Schema::OneOf(one_of))];
                *place = Schema::AllOf(all_of);
            }
        }
    }
}

impl Alternative {
    fn schema(&self, body: &Object) -> RefOr<Schema> {
        let mut object = Object::new();
        if let Some((field, words)) = self.tag {
            let words = ObjectBuilder::new()
                .schema_type(Type::String)
                .enum_values(Some(words.iter().copied()));
            object.properties.insert(field.to_owned(), words.build().into());
            object.required.push(field.to_owned());
        }
        for field in self.given {
            let kind = type_of(body.properties.get(*field));
            let given = ObjectBuilder::new().schema_type(kind).build();
            object.properties.insert((*field).to_owned(), given.into());
            object.required.push((*field).to_owned());
        }
        for field in self.left_out {
            let null = ObjectBuilder::new().schema_type(Type::Null).build();
            object.properties.insert((*field).to_owned(), null.into());
        }
        if self.given == ["failed"] {
            let only = ObjectBuilder::new()
                .schema_type(Type::Boolean)
                .enum_values(Some([Value::Bool(true)]));
            object.properties.insert("failed".to_owned(), only.build().into());
        }
        object.into()
    }
}

/// Returns the type of a field that must be given, which is not null.
fn type_of(field: Option<&RefOr<Schema>>) -> Type {
    let types = match field {
        Some(RefOr::T(Schema::Object(object))) => &object.schema_type,
        Some(RefOr::T(Schema::Array(_))) => return Type::Array,
        // A reference to another object.
        _ => return Type::Object,
    };
    match types {
        SchemaType::Type(kind) => kind.clone(),
        SchemaType::Array(kinds) => {
            kinds.iter().find(|kind| **kind != Type::Null).cloned().unwrap_or(Type::Object)
        }
        SchemaType::AnyValue => Type::Object,
    }
}

/// Closes the schemas of bodies, and those that they contain.
pub(crate) struct ClosedBodies;

impl Modify for ClosedBodies {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::openapi_document;

    #[test]
    fn every_alternative_has_its_body() {
        let document = serde_json::to_value(openapi_document()).unwrap();
        for Alternatives { schema, of } in ALTERNATIVES {
            let body = &document["components"]["schemas"][schema];
            let found = body.pointer("/allOf/1/oneOf").and_then(Value::as_array).unwrap();
            assert_eq!(found.len(), of.len(), "{schema}");
            for fields in *of {
                for field in fields.given.iter().chain(fields.left_out) {
                    assert!(body.pointer(&format!("/allOf/0/properties/{field}")).is_some());
                }
            }
        }
    }
}
