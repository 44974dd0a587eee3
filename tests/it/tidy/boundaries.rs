//! Each capability of the machine is used in one place: disk, time, network; nothing is left
//! undone.

use super::repository::{Package, Repository, Source, assert_kept, made_of};

const ENGINE: &str = "actors/";

/// Ends of paths that read the time.
const NOW: [&str; 4] = ["SystemTime", "Instant", "Timestamp", "Zoned"];

/// Crates that serve or parse a command line: the engine knows neither.
const SERVERS: [&str; 3] = ["axum", "clap", "hyper"];

/// Crates that make calls over the network.
const CLIENTS: [&str; 4] = ["hyper_rustls", "hyper_util", "lettre", "reqwest"];

/// Where archives of a cluster go from a file into the object store, and back.
const CARRIERS: [&str; 5] = [
    "actors/cluster/src/checkpoints/digest.rs",
    "actors/cluster/src/checkpoints/directory.rs",
    "actors/cluster/src/checkpoints/fake.rs",
    "actors/cluster/src/nats/archives.rs",
    "actors/cluster/src/nats/archives/fetching.rs",
];

/// What stands for code that is yet to be written, or is not run.
const UNDONE: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore]"];

/// Why a file may not name a path, if it may not.
fn fault(file: &str, path: &[String]) -> Option<&'static str> {
    let first_two = [path.first(), path.get(1)].map(|it| it.map_or("", String::as_str));
    let last_two = path.len().checked_sub(2).map(|at| [path[at].as_str(), path[at + 1].as_str()]);
    let is_disk = matches!(first_two, ["std" | "tokio", "fs"])
        || path.iter().any(|segment| segment == "OpenOptions");
    // What hyper's clients and servers have in common.
    let is_shared = matches!(first_two, ["hyper", "ext" | "Error"]);
    let is_call = path.len() > 1 && (CLIENTS.contains(&first_two[0]) || is_shared);
    let may_touch = file.contains("/store/") || file.starts_with("actors/log/");
    if is_disk && !may_touch && !CARRIERS.contains(&file) {
        return Some("only store/, the log and what carries archives touch the disk");
    }
    if last_two.is_some_and(|[ty, call]| call == "now" && NOW.contains(&ty))
        && !file.ends_with("/clock.rs")
        && !file.contains("/clock/")
    {
        return Some("only clock.rs reads the time");
    }
    if path.len() > 1 && SERVERS.contains(&first_two[0]) && !is_shared {
        return Some("the engine knows no server");
    }
    (is_call && !file.contains("/channel/") && !file.contains("/webhook/"))
        .then_some("only channel/ and webhook/ make calls")
}

fn faults(package: &Package, source: &Source) -> Vec<String> {
    let names = source.facts.shipped_names();
    let lines = names.filter_map(|name| {
        let path = package.absolute(source, name);
        let why = fault(&source.path, &path)?;
        Some(format!("{}:{} names {}: {why}", source.path, name.line, path.join("::")))
    });
    lines.collect()
}

fn engine_faults(repository: &Repository) -> Vec<String> {
    let engine = repository.packages.iter().filter(|package| package.folder.starts_with(ENGINE));
    let all = engine
        .flat_map(|package| package.shipped().flat_map(move |source| faults(package, source)));
    all.collect()
}

fn undone(repository: &Repository) -> Vec<String> {
    let marks = repository.sources().flat_map(|source| {
        let marks = source.facts.marks.iter().filter(|(mark, _)| UNDONE.contains(&mark.as_str()));
        marks.map(|(mark, line)| format!("{}:{line} has {mark}", source.path))
    });
    marks.collect()
}

#[test]
fn disk_time_and_network_have_one_place_each_in_the_engine() {
    let rule = "Only store/, the log and what carries archives touch the disk, only clock.rs reads \
                the time, only channel/ and webhook/ make calls.";
    assert_kept(rule, &engine_faults(Repository::this()));
}

#[test]
fn nothing_is_left_undone() {
    assert_kept("What is begun is finished, and every test runs.", &undone(Repository::this()));
}

#[test]
fn what_has_its_place_elsewhere_is_found() {
    let faults = |file: &str, text: &str| {
        let module = file.trim_end_matches(".rs");
        let repository = made_of(&[
            ("actors/Cargo.toml", "[package]\nname = \"postrider-actors\"\n"),
            ("actors/src/lib.rs", &format!("mod {};", module.replace('/', "; mod "))),
            ("actors/src/store/mod.rs", "mod fjall;"),
            (&format!("actors/src/{file}"), text),
        ]);
        engine_faults(&repository).len()
    };
    let disk =
        "use std::fs; fn f() { fs::read(0); tokio::fs::read(1); std::fs::OpenOptions::new(); }";
    assert_eq!((faults("a.rs", disk), faults("store/fjall.rs", disk)), (4, 0));
    let time = "use std::time::Instant as I; fn f() { I::now(); }";
    assert_eq!((faults("a.rs", time), faults("clock.rs", time)), (1, 0));
    assert_eq!(faults("a.rs", "use axum::Router; #[cfg(test)] use clap::Parser;"), 1);
    assert_eq!(faults("a.rs", "use hyper_util::client; use reqwest::{self as r};"), 1);
}

#[test]
fn what_is_left_undone_is_found() {
    // Put together, so that this file has none of it.
    let text = ["fn f() { to", "do!(); vec![db", "g!(1)]; } #[ign", "ore = \"x\"] fn g() {}"];
    let text = text.concat().replace("db", "d").replace("dg!", "dbg!");
    let found = undone(&made_of(&[("tests/a.rs", &text)]));
    assert_eq!(found.len(), 3, "{found:?}");
}
