//! What says that it is pure names no runtime, no clock, no randomness, no thread and no I/O.
//!
//! A file says so with its first line, `//! Pure: …`. The check reads the whole file without the
//! items that only tests have, takes imports apart and follows them to what they name. A `&dyn
//! View` that is handed in is an argument, not I/O.

use super::facts::Import;
use super::ratchet::{PURE_FILES_MIN, UNMARKED};
use super::repository::{Package, Repository, Source, assert_kept, assert_ratchet, made_of};

const HEADER: &str = "//! Pure:";

/// Every file below must be pure.
const PURE_FOLDERS: [&str; 3] =
    ["actors/domain/src/", "actors/workspace/src/core/", "actors/runtime/src/flow/"];

/// Crates that a pure file does not name.
const CRATES: [&str; 14] = [
    "axum",
    "fjall",
    "getrandom",
    "governor",
    "hyper",
    "hyper_util",
    "lettre",
    "mio",
    "ractor",
    "rand",
    "reqwest",
    "sled",
    "tempfile",
    "tokio",
];

/// Modules of the standard library that a pure file does not name.
const STD_MODULES: [&str; 5] = ["env", "fs", "net", "process", "thread"];

/// Our modules that read the time and draw random numbers, in the engine or the runtime.
const MODULES: [&str; 2] = ["clock", "random"];

/// Types that read the time, by whatever path.
const TYPES: [&str; 3] = ["Clock", "Instant", "SystemTime"];

/// Whether a full path leads to something impure. A single name is a crate only in an import.
fn is_impure(path: &[String], import: Option<&Import>) -> bool {
    let first_two = [path.first(), path.get(1)].map(|it| it.map_or("", String::as_str));
    let is_place = match first_two {
        [first, _] if CRATES.contains(&first) => import.is_some() || path.len() > 1,
        // The whole of it has all of its modules.
        ["std", ""] => import.is_some_and(|import| import.local == "*"),
        ["std", second] => STD_MODULES.contains(&second),
        ["crate" | "postrider_runtime" | "postrider_actors", second] => MODULES.contains(&second),
        _ => false,
    };
    let is_type = |segment: &String| TYPES.contains(&segment.as_str());
    is_place
        || path.iter().any(is_type)
        || path.ends_with(&["Timestamp".to_owned(), "now".to_owned()])
}

/// What a pure file names all the same, with its lines.
fn impurities(package: &Package, source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for name in source.facts.shipped_names() {
        let path = package.absolute(source, name);
        let outside = package.outside(&path).unwrap_or_else(|| path.clone());
        let import = name.import.as_ref();
        if let Some(path) = [path, outside].iter().find(|path| is_impure(path, import)) {
            found.push(format!("{}:{} names {}", source.path, name.line, path.join("::")));
        }
    }
    found.dedup();
    found
}

fn says_so(source: &Source) -> bool {
    source.text.starts_with(HEADER)
}

#[test]
fn what_says_that_it_is_pure_is_pure() {
    let mut found = Vec::new();
    let mut count = 0;
    for package in &Repository::this().packages {
        for source in package.sources.iter().filter(|source| says_so(source)) {
            count += 1;
            found.extend(impurities(package, source));
        }
    }
    assert_kept("A file that begins `//! Pure:` is a function of its arguments.", &found);
    let lost = PURE_FILES_MIN.saturating_sub(count);
    assert_eq!(lost, 0, "fewer files than {PURE_FILES_MIN} begin `{HEADER}`");
}

#[test]
fn the_rules_say_that_they_are_pure() {
    let is_rule = |source: &&Source| {
        PURE_FOLDERS.iter().any(|folder| source.path.starts_with(folder)) && !source.test
    };
    let silent = Repository::this().sources().filter(is_rule).filter(|source| !says_so(source));
    let silent: Vec<_> = silent.map(|source| format!("{}:1", source.path)).collect();
    assert_ratchet("A file of these folders begins `//! Pure:`.", ("UNMARKED", UNMARKED), &silent);
}

/// What the check finds in a file `a.rs` of the engine, by what it names.
fn named(text: &str) -> Vec<String> {
    let repository = made_of(&[
        ("actors/Cargo.toml", "[package]\nname = \"postrider-actors\"\n"),
        (
            "actors/src/lib.rs",
            "use std::fs::File; mod clock; mod a; mod again { pub use tokio as runtime; }",
        ),
        ("actors/src/clock.rs", ""),
        ("actors/src/a.rs", text),
    ]);
    let package = &repository.packages[1];
    let source = package.sources.iter().find(|source| source.path.ends_with("a.rs")).unwrap();
    let lines = impurities(package, source);
    lines.iter().map(|line| line.rsplit_once(' ').unwrap().1.to_owned()).collect()
}

#[test]
fn a_file_is_read_past_its_first_tests() {
    let text = "#[cfg(test)]\nuse std::fs;\n#[cfg(test)]\nmod tests;\nuse std::fs::File;\n";
    assert_eq!(named(text), ["std::fs::File"]);
}

#[test]
fn items_of_tests_may_be_impure() {
    let tests = "#[cfg(test)]\nuse tokio::time;\n#[cfg(test)]\nmod tests {\n use std::fs;\n}\n\
                 #[cfg(any(test, feature = \"testing\"))]\nfn f() { std::env::args(); }\n\
                 struct S;\nimpl S {\n #[cfg(test)]\n fn g() -> Instant { rand::random() }\n}\n";
    assert_eq!(named(tests), Vec::<String>::new());
    assert_eq!(named("#[cfg(not(test))]\nuse std::fs;\n"), ["std::fs"]);
}

#[test]
fn a_group_hides_nothing() {
    assert_eq!(named("use crate::{clock};"), ["crate::clock"]);
    assert_eq!(named("use super::{clock::{self}};"), ["crate::clock"]);
    assert_eq!(named("use std::{collections::HashMap, {fs::{self, File}}};").len(), 2);
    assert_eq!(named("use std::{sync::Arc, time::{Duration, Instant}};"), ["std::time::Instant"]);
}

#[test]
fn the_runtime_is_found_in_a_file_that_calls_itself_pure() {
    assert_eq!(named("//! Pure: it is not.\nuse tokio::sync::Mutex;"), ["tokio::sync::Mutex"]);
}

#[test]
fn a_rename_hides_nothing() {
    assert_eq!(named("use std as s;\nfn f() { s::fs::read(0); }"), ["std::fs::read"]);
    assert_eq!(named("use std::{self as s};\nuse s::thread as t;"), ["std::thread"]);
    assert_eq!(named("use crate as all;\nfn f() { all::clock::now() }"), ["crate::clock::now"]);
    assert_eq!(named("extern crate rand as r;"), ["rand"]);
}

#[test]
fn neither_a_glob_nor_a_re_export_hides_anything() {
    assert_eq!(named("use tokio::*;"), ["tokio"]);
    assert_eq!(named("use std::*;"), ["std"]);
    assert_eq!(named("use super::*;\nfn f() { clock::now() }"), ["crate::clock::now"]);
    assert_eq!(named("use super::*;\nfn f(_: File) {}"), ["std::fs::File"]);
    assert_eq!(named("use crate::again::runtime::spawn;"), ["tokio::spawn"]);
}

#[test]
fn paths_count_in_types_expressions_attributes_and_macros() {
    assert_eq!(named("type T = ractor::ActorRef<u8>;"), ["ractor::ActorRef"]);
    assert_eq!(named("fn f() { let _ = ::tokio::spawn(g()); }"), ["tokio::spawn"]);
    assert_eq!(named("#[tokio::main]\nasync fn main() {}"), ["tokio::main"]);
    assert_eq!(named("fn f() { vec![std::env::args()]; }"), ["std::env::args"]);
    assert_eq!(named("macro_rules! m { () => { use std::{fs}; } }"), ["std::fs"]);
    assert_eq!(named("macro_rules! m { () => { $crate::clock::now() } }"), ["crate::clock::now"]);
    assert_eq!(named("fn f() -> jiff::Timestamp { jiff::Timestamp::now() }").len(), 1);
    assert_eq!(named("fn f(rand: u8, clock: u8) -> u8 { println!(\"{}\", rand); clock }").len(), 0);
}
