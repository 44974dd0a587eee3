//! Files and functions are short, and a type's implementation stands together.

use std::collections::{BTreeMap, BTreeSet};

use super::ratchet::SPREAD_TYPES;
use super::repository::{Package, Repository, assert_kept, made_of};

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 60;
/// The formatter keeps code to this width, but not comments.
const COLUMNS_MAX: usize = 100;
/// Most files that the `impl` blocks of one type stand in.
const IMPL_FILES_MAX: usize = 3;

/// The face of all features: each of them adds its methods.
const SPREAD_ON_PURPOSE: [&str; 1] = ["Workspace"];

fn long_ones(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for source in repository.sources() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            found.push(format!("{}:{lines} is the last line", source.path));
        }
        let wide = source.text.lines().enumerate().filter(|(_, line)| {
            // A row of a table cannot be wrapped.
            let is_comment = line.trim_start().starts_with("//") && !line.starts_with("//! |");
            is_comment && line.chars().count() > COLUMNS_MAX
        });
        found.extend(
            wide.map(|(at, _)| format!("{}:{} is a comment too wide", source.path, at + 1)),
        );
        let long = source.facts.functions.iter().filter(|it| it.lines > FUNCTION_LINES_MAX);
        found.extend(long.map(|it| {
            format!("{}:{} begins a function of {} lines", source.path, it.line, it.lines)
        }));
    }
    found
}

/// The types whose `impl` blocks stand in too many files, with those files. Conversions may stand
/// with either of their types.
fn spread(package: &Package) -> Vec<(String, BTreeSet<String>)> {
    let mut files: BTreeMap<(usize, String), BTreeSet<String>> = BTreeMap::new();
    for source in package.shipped() {
        for it in &source.facts.implementations {
            let path = package.absolute_path(source, &it.scope, &it.segments);
            let Some(target) = package.definition(&path) else { continue };
            if let Some(name) = target.item {
                let place = format!("{}:{}", source.path, it.line);
                let known = files.entry((target.source, name)).or_default();
                let is_new = !known.iter().any(|at| at.starts_with(&format!("{}:", source.path)));
                known.extend(is_new.then_some(place));
            }
        }
    }
    let wide = files.into_iter().filter(|((_, name), files)| {
        files.len() > IMPL_FILES_MAX && !SPREAD_ON_PURPOSE.contains(&name.as_str())
    });
    wide.map(|((_, name), files)| (name, files)).collect()
}

#[test]
fn files_and_functions_are_short() {
    let repository = Repository::this();
    let rule = format!(
        "A file has at most {FILE_LINES_MAX} lines, a function at most {FUNCTION_LINES_MAX}, a \
         comment at most {COLUMNS_MAX} columns."
    );
    assert_kept(&rule, &long_ones(repository));
    let count: usize = repository.sources().map(|source| source.facts.functions.len()).sum();
    assert!(count > 1000, "only {count} functions were found");
}

#[test]
fn the_implementation_of_a_type_stands_together() {
    let mut found = Vec::new();
    let mut kept: BTreeSet<&(&str, &str, usize)> = BTreeSet::new();
    for package in &Repository::this().packages {
        for (name, files) in spread(package) {
            let is_row = |row: &&(&str, &str, usize)| row.0 == package.name && row.1 == name;
            let row = SPREAD_TYPES.iter().find(is_row);
            kept.extend(row);
            let named = files.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            match row {
                Some((.., allowed)) if files.len() == *allowed => {}
                Some((.., allowed)) if files.len() < *allowed => found.push(format!(
                    "{name}: {} files: lower the ratchet from {allowed}",
                    files.len()
                )),
                _ => found.push(format!("{name} has {} files: {named}", files.len())),
            }
        }
    }
    let done = SPREAD_TYPES.iter().filter(|row| !kept.contains(*row));
    found.extend(done.map(|row| format!("{row:?} keeps the rule: take it off the ratchet")));
    let rule = format!("The impl blocks of a type stand in at most {IMPL_FILES_MAX} files.");
    assert_kept(&rule, &found);
}

#[test]
fn what_is_too_long_is_found_also_inside_of_macros() {
    let body = "\n".repeat(FUNCTION_LINES_MAX);
    let text = format!(
        "fn a() {{\n}}\nfn b() {{{body}}}\nimpl S {{ fn c() {{{body}}} }}\n\
         proptest! {{ fn d(x in 0..1) {{{body}}} }}\ntrait T {{ fn e(); fn f() {{{body}}} }}"
    );
    let found = long_ones(&made_of(&[("src/lib.rs", &text)]));
    let lines: Vec<_> = found.iter().map(|it| it.split([':', ' ']).nth(1).unwrap()).collect();
    assert_eq!(lines, ["3", "64", "125", "186"]);
    let long = "\n".repeat(FILE_LINES_MAX + 1);
    assert_eq!(long_ones(&made_of(&[("src/lib.rs", &long)])), ["src/lib.rs:701 is the last line"]);
    let wide = format!("// {}\n    //! {}\n", "ä".repeat(97), "w".repeat(93));
    let found = long_ones(&made_of(&[("src/lib.rs", &wide)]));
    assert_eq!(found, ["src/lib.rs:2 is a comment too wide"]);
}

#[test]
fn a_type_whose_implementation_is_spread_is_found() {
    let child = "use crate::T; impl T {} impl Clone for T {} impl From<T> for u8 {}";
    let by_path = "impl crate::T { } impl Drop for super::T {}";
    let files = [
        ("src/lib.rs", "mod a; mod b; mod c; pub struct T; impl T {}"),
        ("src/a.rs", child),
        ("src/b.rs", by_path),
        (
            "src/c.rs",
            "#[cfg(test)] impl crate::T {} impl From<u8> for crate::T {} struct T; impl T {}",
        ),
    ];
    assert_eq!(spread(&made_of(&files).packages[0]), []);
    let mut wide = files;
    wide[3].1 = "use super::T as U; impl U {}";
    let found = spread(&made_of(&wide).packages[0]);
    assert_eq!((found[0].0.as_str(), found[0].1.len()), ("T", 4));
}
