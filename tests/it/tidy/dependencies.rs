//! Every crate depends on what the table allows, and on nothing else.

use std::process::Command;

use toml::{Table, Value};

use super::repository::{Package, Repository, assert_kept, made_of};

/// A crate of the workspace: what it may depend on, and why it is a crate.
struct Row {
    name: &'static str,
    reason: &'static str,
    /// The crates of the workspace that it may depend on, for tests too.
    may: &'static [&'static str],
    must_not: &'static [&'static str],
}

const DOMAIN: &str = "postrider-domain";
const RUNTIME: &str = "postrider-runtime";
const LOG: &str = "postrider-log";
const CLUSTER: &str = "postrider-cluster";
const STORE: &str = "postrider-store";
const CHANNEL: &str = "postrider-channel";
const NUMBER: &str = "postrider-number";
const WEBHOOK: &str = "postrider-webhook";
const PEOPLE: &str = "postrider-people";
const BROADCAST: &str = "postrider-broadcast";
const WORKSPACE: &str = "postrider-workspace";
const FACE: &str = "postrider-actors";
const SERVER: &str = "postrider";

const CRATES: [Row; 13] = [
    Row {
        name: DOMAIN,
        reason: "Only a dependency list can prove that rules are pure.",
        may: &[],
        must_not: &IMPURE,
    },
    Row {
        name: RUNTIME,
        reason: "The one place that reads time, draws random numbers and supervises; every actor \
                 needs it.",
        may: &[DOMAIN],
        must_not: &["fjall", "sled", "reqwest", "axum"],
    },
    Row {
        name: LOG,
        reason: "A commit's format and its files are proven without records, actors or a runtime.",
        may: &[],
        must_not: &["tokio", "ractor", "fjall", "sled", "reqwest", "axum"],
    },
    Row {
        name: CLUSTER,
        reason: "The rules of a cluster are proven in virtual time without an engine, and only it \
                 knows NATS.",
        may: &[LOG],
        must_not: &["ractor", "fjall", "sled", "reqwest", "axum"],
    },
    Row {
        name: STORE,
        reason: "The only crate that touches the disk, apart from the log; a replicated log will \
                 stand behind its port without seeing an actor.",
        may: &[DOMAIN, LOG],
        must_not: &["ractor", "reqwest", "axum"],
    },
    Row {
        name: CHANNEL,
        reason: "The port that embedders implement, and the only crate with provider and mail \
                 clients.",
        may: &[DOMAIN, RUNTIME],
        must_not: &[STORE, "ractor"],
    },
    Row {
        name: NUMBER,
        reason: "Dispatch is proven without durability, and is used by workspace and broadcast.",
        may: &[DOMAIN, RUNTIME, CHANNEL],
        must_not: &[STORE, "fjall", "sled"],
    },
    Row {
        name: WEBHOOK,
        reason: "Delivery with its own pool, client and SSRF rules, which must not see numbers.",
        may: &[DOMAIN, RUNTIME, STORE],
        must_not: &[CHANNEL, NUMBER],
    },
    Row {
        name: PEOPLE,
        reason: "Who signs in, and what they may do; it hashes passwords and sees no workspace.",
        may: &[DOMAIN, RUNTIME, STORE],
        must_not: &["ractor", "reqwest", "axum"],
    },
    Row {
        name: BROADCAST,
        reason: "The fan-out; the boundary keeps what it asks of a workspace to a few calls.",
        may: &[DOMAIN, RUNTIME, STORE, CHANNEL, NUMBER],
        must_not: &[WEBHOOK, WORKSPACE],
    },
    Row {
        name: WORKSPACE,
        reason: "One actor, its pure core and all commands on it: an inherent impl cannot cross \
                 crates.",
        may: &[DOMAIN, RUNTIME, STORE, CHANNEL, NUMBER, WEBHOOK, BROADCAST],
        must_not: &["axum", "clap", "fjall", "sled"],
    },
    Row {
        name: FACE,
        reason: "The public face: it assembles the others and re-exports names.",
        may: &[DOMAIN, RUNTIME, STORE, PEOPLE, CHANNEL, NUMBER, WEBHOOK, BROADCAST, WORKSPACE],
        must_not: &["axum", "clap", "toml"],
    },
    Row {
        name: SERVER,
        reason: "The HTTP edge and command line, over the face and the cluster alone.",
        may: &[FACE, CLUSTER],
        must_not: &["fjall", "sled", "ractor"],
    },
];

/// Runtimes, stores, randomness and HTTP: what the domain has at no depth.
const IMPURE: [&str; 17] = [
    "axum",
    "fjall",
    "h2",
    "http",
    "http-body",
    "http-body-util",
    "hyper",
    "hyper-rustls",
    "hyper-util",
    "lettre",
    "ractor",
    "rand",
    "reqwest",
    "sled",
    "tokio",
    "tower",
    "tower-http",
];

/// Databases: they stand in the store's manifest and in no other, once it is a crate.
const DATABASES: [&str; 2] = ["fjall", "sled"];

/// What the domain has only behind a feature, and why: schemas of the events' payloads stand with
/// the payloads, and only a server that serves an OpenAPI document needs them.
const DOMAIN_OPTIONAL: [&str; 1] = ["utoipa"];

/// What the server's benches and tests over HTTP measure against or drive themselves.
const REFERENCES: [&str; 1] = ["ractor"];

/// The only features of tokio that the store may have.
const STORE_TOKIO: [&str; 1] = ["sync"];

struct Dependency {
    /// The name in the registry, whatever the manifest calls it.
    name: String,
    is_dev: bool,
    is_optional: bool,
    features: Vec<String>,
}

/// What a manifest depends on, for each target and for building too.
fn dependencies(manifest: &Table, workspace: &Table) -> Vec<Dependency> {
    let shared = |name: &str| workspace.get("workspace")?.get("dependencies")?.get(name);
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(targets) {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let listed = table.get(section).and_then(Value::as_table);
            for (key, value) in listed.into_iter().flatten() {
                let is_shared = value.get("workspace").is_some();
                let sources = [Some(value), shared(key).filter(|_| is_shared)];
                let field = |name| sources.iter().flatten().filter_map(move |it| it.get(name));
                let name = field("package").find_map(Value::as_str).unwrap_or(key).to_owned();
                let features = field("features").filter_map(Value::as_array).flatten();
                let features = features.filter_map(Value::as_str).map(str::to_owned).collect();
                let is_dev = section == "dev-dependencies";
                let is_optional = value.get("optional").and_then(Value::as_bool) == Some(true);
                found.push(Dependency { name, is_dev, is_optional, features });
            }
        }
    }
    found
}

/// What one member's manifest has against the table.
fn violations(package: &Package, repository: &Repository) -> Vec<String> {
    let file = format!("{}Cargo.toml:1", package.folder);
    let Some(row) = CRATES.iter().find(|row| row.name == package.name) else {
        return vec![format!("{file}: {} has no row in the table", package.name)];
    };
    let has_store = repository.package(STORE).is_some();
    let mut found = Vec::new();
    for it in dependencies(&package.manifest, &repository.manifest) {
        let name = it.name.as_str();
        let is_reference = it.is_dev && row.name == SERVER && REFERENCES.contains(&name);
        let is_ours = name == SERVER || name.starts_with("postrider-");
        let is_own = it.is_dev && name == row.name;
        if is_ours && !is_own && !row.may.contains(&name) {
            found.push(format!("{file}: {} must not depend on {name}", row.name));
        } else if row.must_not.contains(&name) && !is_reference {
            found.push(format!("{file}: {} must not have {name}", row.name));
        } else if DATABASES.contains(&name) && has_store && row.name != STORE && !is_reference {
            found.push(format!("{file}: only {STORE} has {name}, not {}", row.name));
        }
        if row.name == DOMAIN && DOMAIN_OPTIONAL.contains(&name) && !it.is_optional {
            found.push(format!("{file}: {DOMAIN} has {name} only as optional"));
        }
        if is_ours && !it.is_dev && it.features.iter().any(|feature| feature == "testing") {
            found.push(format!("{file}: only tests have the feature testing of {name}"));
        }
        let more = it.features.iter().filter(|it| !STORE_TOKIO.contains(&it.as_str()));
        let more: Vec<_> = more.map(String::as_str).collect();
        if row.name == STORE && name == "tokio" && !it.is_dev && !more.is_empty() {
            let more = more.join(", ");
            found.push(format!("{file}: {STORE} has only {STORE_TOKIO:?} of tokio, not {more}"));
        }
    }
    if !found.is_empty() {
        let may =
            if row.may.is_empty() { "nothing of ours".to_owned() } else { row.may.join(", ") };
        let (name, reason) = (row.name, row.reason);
        found.push(format!("{name} may have: {may}. Why it is a crate: {reason}"));
    }
    found
}

/// What a list of packages, one a line as `name v1.2.3`, has that the domain must not have.
fn impure_in(tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<_> = names.filter(|name| IMPURE.contains(name)).map(str::to_owned).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn every_crate_depends_on_what_the_table_allows() {
    let repository = Repository::this();
    let found = repository.packages.iter().flat_map(|package| violations(package, repository));
    assert_kept("The crates of the workspace import one way.", &found.collect::<Vec<_>>());
}

#[test]
fn the_domain_has_no_runtime_store_or_http_at_any_depth() {
    if Repository::this().package(DOMAIN).is_none() {
        return;
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["tree", "--package", DOMAIN, "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}", "--all-features", "--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.starts_with(DOMAIN), "{tree}");
    assert_kept("The domain's dependencies are pure; see `cargo tree`.", &impure_in(&tree));
}

/// What the table has against a member of this name with this manifest below its name.
fn found_in(name: &str, manifest: &str) -> Vec<String> {
    let member = format!("[package]\nname = \"{name}\"\n{manifest}");
    let root = "[package]\nname = \"postrider\"\n[workspace]\n[workspace.dependencies]\n\
                db = { version = \"1\", package = \"fjall\" }\n\
                tokio = { version = \"1\", features = [\"sync\", \"net\"] }\n";
    let store = "[package]\nname = \"postrider-store\"\n";
    let mut files = vec![("Cargo.toml", root), ("actors/a/Cargo.toml", member.as_str())];
    if name != STORE {
        files.push(("actors/store/Cargo.toml", store));
    }
    let repository = made_of(&files);
    violations(repository.package(name).unwrap(), &repository)
}

#[test]
fn a_dependency_against_the_table_is_found() {
    let bad = [
        (NUMBER, "[dependencies]\npostrider-store.workspace = true"),
        (NUMBER, "[dev-dependencies]\npostrider-workspace = { path = \"..\" }"),
        (NUMBER, "[target.'cfg(unix)'.dependencies]\ndb.workspace = true"),
        (WEBHOOK, "[build-dependencies]\nname = { package = \"postrider-number\" }"),
        (CHANNEL, "[dependencies]\nsled = \"0.34\""),
        (DOMAIN, "[dependencies]\nhyper-util = \"1\""),
        (DOMAIN, "[dependencies]\nutoipa = \"6\""),
        (BROADCAST, "[dependencies]\npostrider-number = { features = [\"testing\"] }"),
        (STORE, "[dependencies]\ntokio.workspace = true"),
        ("postrider-new", ""),
    ];
    for (name, manifest) in bad {
        assert!(!found_in(name, manifest).is_empty(), "{name}: {manifest}");
    }
    let shown = found_in(NUMBER, bad[0].1).join("\n");
    assert!(shown.contains("Dispatch is proven without durability"), "{shown}");
    let good = [
        (NUMBER, "[dependencies]\npostrider-channel.workspace = true\ntokio.workspace = true"),
        (BROADCAST, "[dev-dependencies]\npostrider-number = { features = [\"testing\"] }"),
        (STORE, "[dependencies]\ndb.workspace = true\ntokio = { features = [\"sync\"] }"),
        (STORE, "[dev-dependencies]\ntokio.workspace = true"),
        (DOMAIN, "[dependencies]\nutoipa = { version = \"6\", optional = true }"),
    ];
    for (name, manifest) in good {
        assert_eq!(found_in(name, manifest), Vec::<String>::new(), "{name}: {manifest}");
    }
}

#[test]
fn what_is_impure_is_found_at_any_depth() {
    let tree = "postrider-domain v0.1.0 (/x)\nserde v1.0.0\nhttp v1.5.0\nrand v0.10.0\nrand v0.9.0";
    assert_eq!(impure_in(tree), ["http", "rand"]);
    assert_eq!(impure_in("rand_core v0.9.0\nhttparse v1.0.0"), Vec::<String>::new());
}
