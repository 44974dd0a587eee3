//! Every crate can be packaged, so that embedders can take the engine from a registry.

use std::path::Path;
use std::process::Command;

use toml::Table;

/// Packaging reads each manifest as a registry does: a dependency on a path needs a version, and
/// every file that the manifest names must lie in the package. It resolves without a network.
#[test]
fn every_crate_can_be_packaged_offline() {
    let target = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(env!("CARGO"))
        .args(["package", "--workspace", "--offline", "--no-verify", "--allow-dirty"])
        .arg("--target-dir")
        .arg(target.path())
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let packages = std::fs::read_dir(target.path().join("package")).unwrap();
    let names: Vec<String> = packages
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".crate"))
        .collect();
    assert_eq!(names.len(), 13, "one package of each crate: {names:?}");
}

/// The parser of JSON rounds as its writer does. A crate that only tests depend on asks for the
/// same, so no test of the server would miss it.
#[test]
fn numbers_of_json_are_rounded_correctly() {
    let manifest: Table = include_str!("../../../Cargo.toml").parse().unwrap();
    let parser = &manifest["workspace"]["dependencies"]["serde_json"];
    let features = parser.get("features").and_then(|it| it.as_array());
    let rounds = features.is_some_and(|all| all.contains(&"float_roundtrip".into()));
    assert!(rounds, "{parser:?}");
}
