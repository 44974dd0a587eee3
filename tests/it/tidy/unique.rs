//! Names that a reader can distinguish: of public types in a crate, and of files in a folder.

use std::collections::{BTreeMap, BTreeSet};

use super::ratchet::{PLURALS, TYPE_NAMES};
use super::repository::{Package, Repository, assert_kept, made_of};

/// Public types of one name, each with the places where it stands.
fn duplicates(package: &Package) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in package.shipped() {
        for it in &source.facts.public_types {
            let place = format!("{}:{}", source.path, it.line);
            places.entry(it.name.clone()).or_default().push(place);
        }
    }
    places.retain(|_, places| places.len() > 1);
    places
}

/// Files or folders of one folder whose names differ by an `s`, by the path of the singular.
fn plurals(repository: &Repository) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for source in repository.sources() {
        let path = source.path.trim_end_matches(".rs");
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        paths.extend(ends.map(|end| path[..end].to_owned()));
    }
    paths.iter().filter(|path| paths.contains(&format!("{path}s"))).cloned().collect()
}

#[test]
fn no_public_type_name_stands_twice_in_a_crate() {
    let mut found = Vec::new();
    let mut kept = BTreeSet::new();
    for package in &Repository::this().packages {
        for (name, places) in duplicates(package) {
            let row = (package.name.as_str(), name.as_str());
            if let Some(row) = TYPE_NAMES.iter().find(|known| **known == row) {
                kept.insert(*row);
            } else {
                found.push(format!("{}: {name} stands in {}", package.name, places.join(", ")));
            }
        }
    }
    let done = TYPE_NAMES.iter().filter(|row| !kept.contains(*row));
    found.extend(done.map(|row| format!("{row:?} stands once: take it off the ratchet")));
    assert_kept("A public type's name stands once in a crate.", &found);
}

#[test]
fn no_two_file_names_differ_by_a_plural() {
    let plurals = plurals(Repository::this());
    let new = plurals.iter().filter(|path| !PLURALS.contains(&path.as_str()));
    let mut found: Vec<_> = new.map(|path| format!("{path} and {path}s")).collect();
    let done = PLURALS.iter().filter(|path| !plurals.contains(**path));
    found.extend(done.map(|path| format!("{path} has no plural: take it off the ratchet")));
    assert_kept("Two names of a folder differ by more than a plural.", &found);
}

#[test]
fn names_that_are_too_close_are_found() {
    let repository = made_of(&[
        ("src/lib.rs", "mod bucket; mod buckets; pub struct A; pub(crate) struct B; struct C;"),
        ("src/bucket.rs", "pub enum A {} pub struct B; #[cfg(test)] pub struct C;"),
        ("src/buckets/mod.rs", "pub type C = u8;"),
    ]);
    let names = duplicates(&repository.packages[0]);
    assert_eq!(names.keys().collect::<Vec<_>>(), ["A"]);
    assert_eq!(names["A"], ["src/bucket.rs:1", "src/lib.rs:1"]);
    assert_eq!(plurals(&repository).into_iter().collect::<Vec<_>>(), ["src/bucket"]);
}
