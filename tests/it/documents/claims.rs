//! Links, settings, commands, examples and measurements that the documents name.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use postrider::settings::{Flags, Settings};

use super::markdown::{anchors, code_spans, fences, links, rows};
use super::{Document, document, documents, root};

#[test]
fn every_link_leads_somewhere() {
    let mut count = 0;
    let of_developers = [document("ARCHITECTURE.md"), document("CONTRIBUTING.md")];
    for Document { name, text } in documents().into_iter().chain(of_developers) {
        let folder = root().join(&name).parent().unwrap().to_owned();
        let relative = links(&text).into_iter().filter(|link| !link.contains("://"));
        for link in relative {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { root().join(&name) } else { folder.join(path) };
            assert!(target.exists(), "{name}: {link} is not there");
            if !anchor.is_empty() {
                let there = anchors(&std::fs::read_to_string(&target).unwrap());
                assert!(there.iter().any(|it| it == anchor), "{name}: {link}: no such heading");
            }
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} links were found");
}

#[test]
fn every_example_of_settings_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("settings.toml");
    let mut count = 0;
    for Document { name, text } in documents() {
        for block in fences(&text).into_iter().filter(|block| block.language == "toml") {
            std::fs::write(&file, &block.text).unwrap();
            let taken = Settings::from_layers(Some(&file), Vec::new(), &Flags::default());
            assert!(taken.is_ok(), "{name}:{}: {taken:?}", block.line);
            count += 1;
        }
    }
    assert!(count > 0);
}

/// What a command says of itself.
pub(super) fn help(command: &[&str]) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_postrider"));
    let output = program.args(command).arg("--help").output().unwrap();
    assert!(output.status.success(), "postrider {} is no command", command.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// The names of a command's own commands.
pub(super) fn commands(help: &str) -> Vec<&str> {
    let below = help.split_once("\nCommands:\n").map_or("", |(_, below)| below);
    let lines = below.lines().take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

/// The command lines of a text: what stands after `postrider`, word by word.
fn command_lines(text: &str) -> Vec<Vec<&str>> {
    let after = text.split("postrider ").skip(1);
    let lines = after.map(|rest| rest.split(['\n', '|', ';', ')']).next().unwrap_or_default());
    lines.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn every_command_exists() {
    let whole = help(&[]);
    let mut count = 0;
    for Document { name, text } in documents() {
        let blocks = fences(&text).into_iter().filter(|block| block.language == "sh");
        let blocks = blocks.map(|block| block.text.replace("\\\n", " "));
        let texts: Vec<_> = blocks.chain(code_spans(&text)).collect();
        for words in texts.iter().flat_map(|text| command_lines(text)) {
            let Some(group) = words.first().filter(|word| !word.starts_with('-')) else { continue };
            assert!(commands(&whole).contains(group), "{name}: postrider {group}");
            let of_group = help(&[*group]);
            let command = words.get(1).filter(|_| of_group.contains("\nCommands:\n"));
            let mut described = of_group.clone();
            if let Some(command) = command.filter(|word| !word.starts_with('-')) {
                assert!(
                    commands(&of_group).contains(command),
                    "{name}: postrider {group} {command}"
                );
                described = help(&[*group, *command]);
            }
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap_or_default();
                assert!(described.contains(flag), "{name}: {} has no {flag}", words.join(" "));
            }
            count += 1;
        }
    }
    assert!(count > 15, "only {count} commands were found");
}

#[test]
fn every_line_of_rust_is_one_of_the_example() {
    let example = std::fs::read_to_string(root().join("actors/examples/embed.rs")).unwrap();
    let example: Vec<_> = example.lines().map(str::trim).collect();
    let document = document("docs/embedding.md");
    let blocks = fences(&document.text).into_iter().filter(|block| block.language == "rust");
    let mut count = 0;
    for block in blocks {
        let lines: Vec<_> = block.text.lines().map(str::trim).collect();
        let copied = example.windows(lines.len()).any(|window| window == lines);
        assert!(copied, "{}:{} is not in the example", document.name, block.line);
        count += 1;
    }
    assert!(count > 0);
}

/// The measured rows of a document: by name, each cell by its column's title.
fn measured(name: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut titles = Vec::new();
    for (_, cells) in rows(&document(name).text) {
        if !cells[0].starts_with('`') {
            titles = cells;
        } else if titles[0] == "row" {
            let row = cells[0].trim_matches('`').to_owned();
            found.insert(row, titles.iter().cloned().zip(cells).collect());
        }
    }
    found
}

/// The numbers in a cell, without the commas between their digits.
fn numbers(cell: &str) -> Vec<String> {
    let words = cell.split(|it: char| !it.is_ascii_digit() && !matches!(it, '.' | ','));
    let words = words.map(|word| word.trim_matches(['.', ',']).replace(',', ""));
    words.filter(|word| !word.is_empty()).collect()
}

/// Asserts that a line of README.md has the figures of the row or the comparison that it names.
fn check_figures(line: &[String], all: &BTreeMap<String, BTreeMap<String, String>>) {
    let [what, own, instead, row] = line else { panic!("{line:?} has other columns") };
    let figures =
        |cells: Vec<String>| -> BTreeSet<_> { numbers(&cells.join(" ")).into_iter().collect() };
    let (known, others) = match all.get(row.trim_matches('`')) {
        Some(cells) => (figures(vec![cells["value"].clone()]), BTreeSet::new()),
        None => {
            let compared = rows(&document("docs/comparisons.md").text).into_iter();
            let of_row = |own: bool| {
                let compared = compared.clone().map(|(_, cells)| cells);
                let same =
                    compared.filter(move |it| it[0] == *what && (it[1] == "Postrider") == own);
                figures(same.flat_map(|it| [it[2].clone(), it[4].clone()]).collect())
            };
            (of_row(true), of_row(false))
        }
    };
    assert!(!known.is_empty(), "{line:?} names no row");
    for (cell, known) in [(own, known), (instead, others)] {
        for number in numbers(cell) {
            assert!(known.contains(&number), "{number} is not in {known:?}: {line:?}");
        }
    }
}

#[test]
fn the_readme_measures_what_the_tables_of_all_rows_say() {
    let all = measured("docs/measurements.md");
    let readme = rows(&document("README.md").text);
    let lines = readme.iter().filter(|(heading, _)| heading == "How fast it is").skip(1);
    let lines: Vec<_> = lines.map(|(_, cells)| cells).collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    lines.into_iter().for_each(|line| check_figures(line, &all));
}

#[test]
fn a_row_that_misses_its_budget_is_explained() {
    let name = "docs/measurements.md";
    let explained = rows(&document(name).text).into_iter();
    let explained = explained.filter(|(heading, _)| heading == "Rows that miss their budget");
    let explained = explained.map(|(_, cells)| cells[0].trim_matches('`').to_owned()).skip(1);
    let explained: BTreeSet<_> = explained.collect();
    let missed = measured(name);
    let missed = missed.iter().filter(|(_, cells)| cells["kept"].contains("missed"));
    let missed: BTreeSet<_> = missed.map(|(row, _)| row.clone()).collect();
    assert_eq!(explained, missed, "{name} explains other rows than those that are missed");
}

#[test]
fn every_measured_row_exists() {
    let folder = root().join("benches/harness/rows");
    let sources = folder.read_dir().unwrap();
    let sources = sources.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let sources: String = sources.collect();
    for row in measured("docs/measurements.md").keys() {
        assert!(sources.contains(&format!("\"{row}\"")), "{row} is no row of the harness");
    }
}
