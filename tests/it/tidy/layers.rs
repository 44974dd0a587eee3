//! Inside of the workspace crate, imports run down a list of layers, features included.

use super::ratchet::CLIMBING;
use super::repository::{Package, Repository, Source, assert_ratchet, made_of};

const PACKAGE: &str = "postrider-workspace";

/// The files and folders of the crate, bottom to top; those of one row may import each other.
const LAYERS: [&[&str]; 16] = [
    &["core"],
    &["sweep", "newest_first"],
    &["mailbox"],
    &[
        "handle",
        "services",
        "directory",
        "events",
        "recovered",
        "snapshots",
        "keyed_permits",
        "media_files",
        "creation_limit",
        "disk_space",
    ],
    &["otp", "templates", "idempotency", "media"],
    &["contacts"],
    &["suppressions"],
    &["conversations"],
    &["messages"],
    &["email"],
    &["analytics"],
    &["broadcasts"],
    &["webhooks"],
    &["inbox"],
    &["numbers"],
    &["actor"],
];

/// Stands above all layers.
const TOP: [&str; 6] = ["delivery_sink", "log_index", "rebase", "removal", "retention", "lib"];

fn layer(package: &Package, source: &Source) -> Option<usize> {
    let path = package.inner_path(source);
    let name = path.split_once('/').map_or(path, |(folder, _)| folder).trim_end_matches(".rs");
    let found = LAYERS.iter().position(|layer| layer.contains(&name));
    found.or_else(|| TOP.contains(&name).then_some(LAYERS.len()))
}

fn climbing(package: &Package) -> Vec<String> {
    let homeless = package.shipped().filter(|source| layer(package, source).is_none());
    let mut found: Vec<_> =
        homeless.map(|source| format!("{} has no place in the list", source.path)).collect();
    let climbs = package.edges().into_iter().filter(|edge| {
        let [from, to] = [edge.from, edge.to].map(|it| layer(package, &package.sources[it]));
        matches!((from, to), (Some(from), Some(to)) if from < to)
    });
    found.extend(climbs.map(|edge| package.describe(&edge)));
    found
}

#[test]
fn imports_inside_of_the_workspace_run_down_the_layers() {
    let found = Repository::this().package(PACKAGE).map(climbing).unwrap_or_default();
    let layers: Vec<_> = LAYERS.iter().map(|layer| layer.join(", ")).collect();
    let rule = format!(
        "Inside of workspace a file imports only what stands left of it or beside it in: {} < {}.",
        layers.join(" < "),
        TOP.join(", ")
    );
    assert_ratchet(&rule, ("CLIMBING", CLIMBING), &found);
}

#[test]
fn every_name_of_the_layers_is_a_file_or_a_folder() {
    let repository = Repository::this();
    let package = repository.package(PACKAGE).unwrap();
    let names = LAYERS.iter().copied().flatten().chain(&TOP);
    let dead: Vec<_> = names
        .filter(|name| {
            let own = |path: &str| {
                path.strip_prefix(*name).is_some_and(|rest| rest.starts_with(['.', '/']))
            };
            !package.shipped().any(|source| own(package.inner_path(source)))
        })
        .collect();
    assert!(dead.is_empty(), "the list of layers names nothing: {dead:?}");
}

#[test]
fn an_import_that_climbs_is_found() {
    let manifest = format!("[package]\nname = \"{PACKAGE}\"\n");
    let repository = made_of(&[
        ("actors/workspace/Cargo.toml", &manifest),
        ("actors/workspace/src/lib.rs", "mod contacts; mod core; mod inbox; mod odd;"),
        ("actors/workspace/src/core/mod.rs", "pub struct Core;"),
        ("actors/workspace/src/contacts.rs", "use crate::{core::Core, inbox::Inbox};"),
        ("actors/workspace/src/inbox/mod.rs", "pub struct Inbox(crate::core::Core);"),
        ("actors/workspace/src/odd.rs", ""),
    ]);
    let found = climbing(repository.package(PACKAGE).unwrap());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("odd.rs has no place"), "{found:?}");
    assert!(found[1].starts_with("actors/workspace/src/contacts.rs:1 imports"), "{found:?}");
}
