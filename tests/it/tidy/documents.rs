//! Every module begins with one sentence, and every crate has its terms in the glossary.

use super::ratchet::OPENINGS;
use super::repository::{Repository, Source, assert_kept, assert_ratchet, made_of};

const OPENING_CHARS_MAX: usize = 100;
/// Fewer words than these make no sentence: there is a verb among three.
const OPENING_WORDS_MIN: usize = 3;
/// The most words of ARCHITECTURE.md, so that people read it; `docs/internals/` has the details.
const ARCHITECTURE_WORDS_MAX: usize = 3500;

/// The first paragraph of a file's documentation, on one line.
fn paragraph(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let lines = lines.map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// The first sentence of a paragraph: a period ends it before a capital or a quotation.
fn sentence(paragraph: &str) -> &str {
    let ends = |at: &usize| {
        let mut after = paragraph[at + 1..].chars();
        let next = (after.next(), after.next());
        match next {
            (None, _) => true,
            (Some(' '), Some(next)) => next.is_uppercase() || next == '`',
            _ => false,
        }
    };
    let end = paragraph.match_indices('.').map(|(at, _)| at).find(ends);
    end.map_or(paragraph, |end| &paragraph[..=end])
}

/// What is wrong with how a file begins.
fn fault(source: &Source) -> Option<String> {
    let paragraph = paragraph(&source.text);
    let sentence = sentence(&paragraph);
    let chars = sentence.chars().count();
    let why = if !source.text.starts_with("//! ") {
        "begins without documentation".to_owned()
    } else if !sentence.ends_with(['.', ':']) {
        "begins with what is no sentence".to_owned()
    } else if sentence.split_whitespace().count() < OPENING_WORDS_MIN {
        "begins with fewer than three words".to_owned()
    } else if chars > OPENING_CHARS_MAX {
        format!("begins with a sentence of {chars} characters")
    } else {
        return None;
    };
    Some(format!("{}:1 {why}: {sentence}", source.path))
}

/// The section below a heading `Glossary`, where there is one.
fn glossary(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let heading = lines.find(|line| {
        let title = line.trim_start_matches('#');
        title.len() < line.len() && title.trim().eq_ignore_ascii_case("glossary")
    })?;
    let level = heading.chars().take_while(|char| *char == '#').count();
    let is_inside = |line: &&str| {
        let depth = line.chars().take_while(|char| *char == '#').count();
        depth == 0 || depth > level || !line[depth..].starts_with(' ')
    };
    Some(lines.take_while(is_inside).collect::<Vec<_>>().join("\n"))
}

/// The crates whose names, with or without `postrider-`, are not in the glossary.
fn without_terms(repository: &Repository) -> Vec<String> {
    let Some(glossary) = repository.architecture.as_deref().and_then(glossary) else {
        return Vec::new();
    };
    let is_part = |char: char| !char.is_alphanumeric() && char != '-' && char != '_';
    let words: Vec<_> = glossary.split(is_part).collect();
    let is_missing = |name: &&str| {
        !words.contains(name) && !words.contains(&name.trim_start_matches("postrider-"))
    };
    let names = repository.packages.iter().map(|package| package.name.as_str());
    names.filter(is_missing).map(str::to_owned).collect()
}

#[test]
fn every_file_begins_with_a_short_sentence() {
    let found: Vec<_> = Repository::this().sources().filter_map(fault).collect();
    let rule = format!("A file begins with a sentence of at most {OPENING_CHARS_MAX} characters.");
    assert_ratchet(&rule, ("OPENINGS", OPENINGS), &found);
}

#[test]
fn every_crate_has_its_terms_in_the_glossary() {
    let found = without_terms(Repository::this());
    assert_kept("The glossary of ARCHITECTURE.md names every crate.", &found);
}

#[test]
fn the_architecture_is_short_enough_to_be_read() {
    let text = Repository::this().architecture.as_deref().unwrap_or_default();
    let words = text.split_whitespace().count();
    let allowed = 1..=ARCHITECTURE_WORDS_MAX;
    assert!(allowed.contains(&words), "ARCHITECTURE.md has {words} words, not {allowed:?}");
}

#[test]
fn a_file_that_begins_badly_is_found() {
    let fault = |text: &str| {
        let repository = made_of(&[("src/lib.rs", text)]);
        repository.sources().find_map(fault)
    };
    let long = format!("//! It is {}.", "long ".repeat(20));
    for bad in ["", "// One word too few.", "//! SIGTERM.", "//! Ends\n\n//! nowhere.", &long] {
        assert!(fault(bad).is_some(), "{bad}");
    }
    let two = format!("//! It takes e.g. 1.5 seconds. {}", "More ".repeat(30));
    for good in
        ["//! It is\n//! short.", "//! Pure: it is short.", "//! It lists these:\n//!", &two]
    {
        assert_eq!(fault(good), None, "{good}");
    }
}

#[test]
fn a_crate_without_terms_is_found() {
    let text = "# A\n## Glossary\n| lane | queue | `domain` |\n### More\n- postrider-store\n## B\n\
                number\n";
    let section = glossary(text).unwrap();
    assert!(section.ends_with("postrider-store"), "{section}");
    assert_eq!(glossary("# Words\nglossary"), None);
    let manifest = |name: &str| format!("[package]\nname = \"postrider-{name}\"\n");
    let manifests = ["domain", "store", "number"].map(manifest);
    let repository = made_of(&[
        ("ARCHITECTURE.md", text),
        ("a/Cargo.toml", &manifests[0]),
        ("b/Cargo.toml", &manifests[1]),
        ("c/Cargo.toml", &manifests[2]),
    ]);
    assert_eq!(without_terms(&repository), ["postrider", "postrider-number"]);
}
