//! Dependencies have known licences, no known fault, and stand in the release's list.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs a script of `packaging/` with these arguments.
fn packaging(script: &str, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("packaging").join(script);
    let python = Command::new("python3").arg(script).args(arguments).current_dir(root).output();
    python.unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a lock file with these packages is refused for.
fn refused(packages: &[(&str, &str)]) -> String {
    let mut lock = "version = 4\n".to_owned();
    for (name, version) in packages {
        lock += &format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("Cargo.lock");
    std::fs::write(&path, lock).unwrap();
    let output = packaging("supply-chain", &["--lock", path.to_str().unwrap()]);
    assert!(!output.status.success());
    stderr(&output)
}

#[test]
fn every_dependency_has_a_known_licence_and_no_known_fault() {
    let output = packaging("supply-chain", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn affected_versions_are_found_and_patched_ones_are_not() {
    let found = refused(&[
        ("instant", "0.1.13"),
        ("bytes", "1.11.0"),
        ("h2", "0.3.26"),
        ("rand", "0.8.5"),
        ("rustls", "0.23.14"),
        ("tokio", "1.43.0"),
    ]);
    assert!(found.contains("bytes 1.11.0: RUSTSEC-2026-0007 (vulnerable)"), "{found}");
    assert!(found.contains("rand 0.8.5: RUSTSEC-2026-0097 (unsound)"), "{found}");
    assert!(found.contains("rustls 0.23.14: RUSTSEC-2024-0399"), "{found}");
    assert!(found.contains("tokio 1.43.0: RUSTSEC-2025-0023"), "{found}");
    // It fits `^0.3.26`, one of the patched versions.
    assert!(!found.contains("RUSTSEC-2024-0332"), "{found}");
    assert!(!found.contains("instant 0.1.13"), "it is accepted: {found}");
    // What is accepted and no longer there is to be struck off.
    assert!(found.contains("nothing needs RUSTSEC-2025-0057 on fxhash"), "{found}");

    let patched = refused(&[("bytes", "1.11.1"), ("rand", "0.8.6"), ("tokio", "1.43.1")]);
    for name in ["bytes", "rand", "tokio"] {
        assert!(!patched.contains(&format!("{name} 1")), "{patched}");
        assert!(!patched.contains(&format!("{name} 0")), "{patched}");
    }
}

#[test]
fn the_list_of_a_release_names_all_that_is_compiled_into_the_server() {
    let output = packaging("sbom", &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["bomFormat"], "CycloneDX");
    assert_eq!(list["specVersion"], "1.5");
    assert!(list["serialNumber"].as_str().unwrap().starts_with("urn:uuid:"));
    assert_eq!(list["metadata"]["component"]["name"], "postrider");
    assert_eq!(output.stdout, packaging("sbom", &[]).stdout, "twice the same bytes");

    let mut listed = BTreeSet::from([package(&list["metadata"]["component"])]);
    for component in list["components"].as_array().unwrap() {
        let (name, version) = package(component);
        assert_eq!(component["purl"], format!("pkg:cargo/{name}@{version}"));
        assert!(component["licenses"][0]["expression"].is_string(), "{name}");
        if !name.starts_with("postrider-") {
            let hash = &component["hashes"][0];
            assert_eq!(hash["alg"], "SHA-256", "{name}");
            assert_eq!(hash["content"].as_str().unwrap().len(), 64, "{name}");
        }
        assert!(listed.insert((name, version)));
    }
    assert_eq!(listed, compiled());
    let references: BTreeSet<_> =
        listed.iter().map(|(name, version)| format!("pkg:cargo/{name}@{version}")).collect();
    let dependencies = list["dependencies"].as_array().unwrap();
    assert_eq!(dependencies.len(), listed.len());
    for dependency in dependencies {
        let needed = dependency["dependsOn"].as_array().unwrap().iter().chain([&dependency["ref"]]);
        assert!(needed.into_iter().all(|it| references.contains(it.as_str().unwrap())));
    }
}

fn package(component: &Value) -> (String, String) {
    let text = |field: &str| component[field].as_str().unwrap().to_owned();
    (text("name"), text("version"))
}

/// Name and version of what `cargo tree` shows for the server on this machine.
fn compiled() -> BTreeSet<(String, String)> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "postrider", "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let tree = String::from_utf8(output.stdout).unwrap();
    let words = tree.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    });
    let found: BTreeSet<_> = words.collect();
    assert!(found.len() > 200, "{tree}");
    found
}
