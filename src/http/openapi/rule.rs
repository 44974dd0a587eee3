//! The rules that the document states for values, beyond their types.

use serde_json::Value;
use utoipa::openapi::schema::{Array, ArrayItems, Object, Schema, SchemaFormat, SchemaType};
use utoipa::openapi::{RefOr, Type};

/// A rule for a value, beyond its type.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// The value is one of these words.
    Words(fn() -> Vec<&'static str>),
    /// The value matches this pattern.
    Pattern(&'static str),
    /// The value matches the pattern that this function returns.
    PatternOf(fn() -> String),
    /// The value has this format.
    Format(&'static str),
    /// The text has from the first to the second number of characters.
    Chars(usize, usize),
    /// The number is at most this.
    Max(i64),
    /// A list has at least one item, an object at least one field.
    NotEmpty,
    /// Each item of the list follows these rules.
    Items(&'static [Rule]),
    /// The object may have any shape; the function returns an example.
    Like(fn() -> Value),
}

use Rule::{Chars, Format, Items, Like, Max, NotEmpty, Pattern, PatternOf, Words};

impl Rule {
    /// Adds the rule to a schema of the type that the rule is for.
    pub(super) fn apply(self, place: &mut Schema) {
        match place {
            Schema::Array(array) => self.apply_to_list(array),
            Schema::Object(object) => self.apply_to_value(object),
            _ => debug_assert!(false, "the rule is for a list, a text or a number"),
        }
    }

    fn apply_to_list(self, array: &mut Array) {
        match self {
            NotEmpty => array.min_items = Some(1),
            Items(rules) => {
                if let ArrayItems::RefOrSchema(items) = &mut array.items
                    && let RefOr::T(item) = &mut **items
                {
                    rules.iter().for_each(|rule| rule.apply(item));
                }
            }
            _ => debug_assert!(false, "the rule is not for lists"),
        }
    }

    fn apply_to_value(self, object: &mut Object) {
        match self {
            Words(words) => {
                let mut allowed: Vec<Value> = words().into_iter().map(Value::from).collect();
                if is_nullable(object) {
                    allowed.push(Value::Null);
                }
                object.enum_values = Some(allowed);
            }
            Pattern(pattern) => object.pattern = Some(pattern.to_owned()),
            PatternOf(made) => object.pattern = Some(made()),
            Format(format) => object.format = Some(SchemaFormat::Custom(format.to_owned())),
            Chars(min, max) => {
                (object.min_length, object.max_length) = ((min > 0).then_some(min), Some(max));
            }
            Max(max) => object.maximum = Some(max.into()),
            Like(example) => object.example = Some(example()),
            NotEmpty => object.min_properties = Some(1),
            Items(_) => debug_assert!(false, "the rule is for lists"),
        }
    }
}

fn is_nullable(object: &Object) -> bool {
    matches!(&object.schema_type, SchemaType::Array(types) if types.contains(&Type::Null))
}
