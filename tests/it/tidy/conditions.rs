//! Decides which attributes keep code for tests only.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Whether these attributes leave an item out of every build but one for tests.
pub fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let name = attribute.path().segments.last().map(|last| last.ident.to_string());
        match name.as_deref() {
            Some("cfg") => attribute.parse_args().is_ok_and(|meta| holds(&meta) == Some(false)),
            name => name == Some("test"),
        }
    })
}

/// Whether a condition holds in a build without tests; none when that depends on the build.
fn holds(condition: &Meta) -> Option<bool> {
    let words = |list: &syn::MetaList| -> Vec<Option<bool>> {
        let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
        list.parse_args_with(parser).map_or(vec![None], |all| all.iter().map(holds).collect())
    };
    match condition {
        Meta::Path(path) if path.is_ident("test") => Some(false),
        Meta::NameValue(pair) if pair.path.is_ident("feature") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(name), .. }) => {
                (name.value() == "testing").then_some(false)
            }
            _ => None,
        },
        Meta::List(list) if list.path.is_ident("not") => words(list).pop()?.map(|held| !held),
        Meta::List(list) if list.path.is_ident("all") => {
            let words = words(list);
            let all = words.iter().all(|word| *word == Some(true)).then_some(true);
            if words.contains(&Some(false)) { Some(false) } else { all }
        }
        Meta::List(list) if list.path.is_ident("any") => {
            let words = words(list);
            let none = words.iter().all(|word| *word == Some(false)).then_some(false);
            if words.contains(&Some(true)) { Some(true) } else { none }
        }
        _ => None,
    }
}

fn is_left_out(attribute: &str) -> bool {
    let item: syn::ItemFn = syn::parse_str(&format!("{attribute} fn f() {{}}")).unwrap();
    is_test_only(&item.attrs)
}

#[test]
fn what_no_release_build_has_is_for_tests_only() {
    for test in [
        "#[test]",
        "#[tokio::test]",
        "#[cfg(test)]",
        "#[cfg(all(unix, test))]",
        "#[cfg(any(test, feature = \"testing\"))]",
        "#[cfg(not(not(test)))]",
    ] {
        assert!(is_left_out(test), "{test}");
    }
    for shipped in [
        "#[cfg(not(test))]",
        "#[cfg(any(test, unix))]",
        "#[cfg(feature = \"schema\")]",
        "#[cfg_attr(test, inline)]",
        "#[must_use]",
    ] {
        assert!(!is_left_out(shipped), "{shipped}");
    }
}
