//! Files and folders that the documents name exist.

use std::path::Path;

use super::markdown::code_spans;
use super::{Document, document, documents, files, root};

/// Folders that are no part of the repository.
const OTHERS: [&str; 4] = [".git", "target", "node_modules", "__pycache__"];
/// Ends of the names of files.
const ENDS: [&str; 9] = ["rs", "toml", "md", "js", "py", "ts", "sh", "yaml", "yml"];
/// How paths begin that are on the machine of a reader.
const ELSEWHERE: [&str; 6] = ["/", "DATA/", "target/", "~", "dist/", "."];

/// All files and folders below one, from the root of the repository, each with a slash before it.
fn below(folder: &Path, found: &mut Vec<String>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if OTHERS.contains(&name) {
            continue;
        }
        found.push(format!("/{}", path.strip_prefix(root()).unwrap().display()));
        if path.is_dir() {
            below(&path, found);
        }
    }
}

/// Whether a span of code names a file or folder of the repository.
fn is_path(span: &str) -> bool {
    let is_plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let is_file = span.rsplit_once('.').is_some_and(|(_, end)| ENDS.contains(&end));
    let is_folder = span.ends_with('/') && span.len() > 1;
    is_plain && (is_file || is_folder) && !ELSEWHERE.iter().any(|begin| span.starts_with(begin))
}

/// Returns whether a span of code is the name of a test, which is a sentence.
fn is_test(span: &str) -> bool {
    let is_name = span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_name && span.matches('_').count() >= 3
}

#[test]
fn every_file_that_is_named_exists() {
    let mut all = Vec::new();
    below(root(), &mut all);
    let more = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(document);
    let (mut count, mut missing) = (0, Vec::new());
    for Document { name, text } in documents().into_iter().chain(more) {
        for span in code_spans(&text).iter().filter(|span| is_path(span)) {
            let path = format!("/{}", span.trim_end_matches('/'));
            count += 1;
            if !all.iter().any(|known| known.ends_with(&path)) {
                missing.push(format!("{name}: {span}"));
            }
        }
    }
    assert!(count > 100, "only {count} paths were found");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_test_that_the_architecture_names_exists() {
    let sources =
        ["actors", "src", "tests/it"].into_iter().flat_map(|folder| files(&root().join(folder)));
    let sources =
        sources.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let code: String = sources.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let internals = documents().into_iter().filter(|it| it.name.starts_with("docs/internals/"));
    let (mut count, mut missing) = (0, Vec::new());
    for Document { name, text } in internals.chain([document("ARCHITECTURE.md")]) {
        for span in code_spans(&text).iter().filter(|span| is_test(span)) {
            count += 1;
            if !code.contains(&format!("fn {span}(")) {
                missing.push(format!("{name}: {span}"));
            }
        }
    }
    assert!(count > 20, "only {count} tests were found");
    assert!(missing.is_empty(), "{missing:#?}");
}
