//! Every crate of actors has the same rooms, and only its shell and directory hold actors.

use super::ratchet;
use super::repository::{Package, Repository, assert_ratchet, made_of};

/// The crates of actors, with the files of which each has one of every row.
const ROOMS: [(&str, &[&[&str]]); 4] = [
    ("postrider-number", &PLAIN),
    ("postrider-webhook", &PLAIN),
    ("postrider-broadcast", &PLAIN),
    (
        "postrider-workspace",
        &[&["mailbox/message.rs"], &["directory.rs"], &["actor.rs", "actor/mod.rs"]],
    ),
];

const PLAIN: [&[&str]; 3] = [&["message.rs"], &["directory.rs"], &["actor.rs", "actor/mod.rs"]];

fn violations(package: &Package) -> Vec<String> {
    let Some((_, rooms)) = ROOMS.iter().find(|(name, _)| *name == package.name) else {
        return Vec::new();
    };
    let has = |room: &str| package.shipped().any(|source| package.inner_path(source) == room);
    let missing = rooms.iter().filter(|room| !room.iter().any(|file| has(file)));
    let mut found: Vec<_> =
        missing.map(|room| format!("{}src/{} is missing", package.folder, room[0])).collect();
    for source in package.shipped() {
        let path = package.inner_path(source);
        if matches!(path, "directory.rs" | "actor.rs") || path.starts_with("actor/") {
            continue;
        }
        let names = source.facts.shipped_names();
        let refs = names.filter(|name| name.segments.iter().any(|it| it == "ActorRef"));
        found.extend(refs.map(|it| format!("{}:{} names ActorRef", source.path, it.line)));
    }
    found
}

#[test]
fn every_crate_of_actors_has_its_rooms() {
    let found = Repository::this().packages.iter().flat_map(violations).collect::<Vec<_>>();
    let rule = "A crate of actors has a message, a directory and an actor, and only the last two \
                name ActorRef.";
    assert_ratchet(rule, ("ROOMS", ratchet::ROOMS), &found);
}

#[test]
fn a_missing_room_and_an_actor_outside_of_them_are_found() {
    let repository = made_of(&[
        ("actors/number/Cargo.toml", "[package]\nname = \"postrider-number\"\n"),
        ("actors/number/src/lib.rs", "mod actor; mod directory; mod pacer;"),
        ("actors/number/src/actor/mod.rs", "use ractor::ActorRef;"),
        ("actors/number/src/directory.rs", "use ractor::ActorRef;"),
        ("actors/number/src/pacer.rs", "\nstruct P(ractor::ActorRef<u8>);"),
    ]);
    let found = violations(repository.package("postrider-number").unwrap());
    assert_eq!(
        found,
        ["actors/number/src/message.rs is missing", "actors/number/src/pacer.rs:2 names ActorRef"]
    );
}
