//! The list of a release's parts is whole.

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
