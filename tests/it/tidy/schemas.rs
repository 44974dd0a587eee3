//! Names of schemas. The OpenAPI document has one schema for each: of two, one hides the other.

use std::collections::BTreeMap;

use syn::visit::{Visit, visit_item_enum, visit_item_struct};

use super::repository::{Repository, Source, assert_kept};

/// The schemas that a file declares, each by its name and the line of its type.
#[derive(Default)]
struct Schemas(Vec<(String, usize)>);

impl Schemas {
    fn add(&mut self, attrs: &[syn::Attribute], ident: &syn::Ident) {
        let (mut is_schema, mut name) = (false, ident.to_string());
        for attr in attrs {
            let syn::Meta::List(list) = &attr.meta else { continue };
            let text = list.tokens.to_string();
            is_schema |= !list.path.is_ident("schema") && text.contains("ToSchema");
            let given = text.strip_prefix("as = ").filter(|_| list.path.is_ident("schema"));
            if let Some(given) = given {
                name = given.split(',').next().unwrap_or_default().trim().to_owned();
            }
        }
        if is_schema {
            self.0.push((name, ident.span().start().line));
        }
    }
}

impl Visit<'_> for Schemas {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        self.add(&item.attrs, &item.ident);
        visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        self.add(&item.attrs, &item.ident);
        visit_item_enum(self, item);
    }
}

fn schemas(source: &Source) -> Vec<(String, usize)> {
    let mut found = Schemas::default();
    found.visit_file(&syn::parse_file(&source.text).unwrap());
    found.0
}

#[test]
fn no_two_schemas_have_one_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in &Repository::this().packages {
        for source in package.shipped() {
            for (name, line) in schemas(source) {
                places.entry(name).or_default().push(format!("{}:{line}", source.path));
            }
        }
    }
    assert!(places.contains_key("NumberProblem"), "a name that an attribute gives");
    assert!(places.len() > 100, "{}", places.len());
    places.retain(|_, places| places.len() > 1);
    let found: Vec<_> = places
        .iter()
        .map(|(name, places)| format!("{name} stands in {}", places.join(", ")))
        .collect();
    assert_kept("A schema's name stands once.", &found);
}
