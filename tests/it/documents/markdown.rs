//! Reads Markdown as far as the documents use it: fences, links, headings, tables.

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// Its first line in the document, counted from 1.
    pub line: usize,
    pub language: String,
    pub text: String,
    /// Why it is not run, as the comment before it says.
    pub not_run: Option<String>,
    /// Whether only blank lines stand between it and the fence before.
    pub follows: bool,
}

/// The reason in `<!-- not run: reason -->`.
fn not_run(line: &str) -> Option<String> {
    let reason = line.trim().strip_prefix("<!-- not run: ")?.strip_suffix(" -->")?;
    Some(reason.to_owned())
}

/// The fenced blocks of a document, in order.
pub fn fences(text: &str) -> Vec<Fence> {
    let mut found: Vec<Fence> = Vec::new();
    let mut open: Option<Fence> = None;
    let mut marker = None;
    let mut follows = false;
    for (at, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(language), None) => {
                let (language, not_run) = (language.to_owned(), marker.take());
                open =
                    Some(Fence { line: at + 2, language, text: String::new(), not_run, follows });
            }
            (Some(_), Some(_)) => {
                found.extend(open.take());
                follows = true;
            }
            (None, Some(fence)) => {
                fence.text.push_str(line);
                fence.text.push('\n');
            }
            (None, None) if line.trim().is_empty() => {}
            (None, None) => {
                marker = not_run(line);
                follows = false;
            }
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

/// A document without its fenced blocks.
pub fn prose(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What the links of a document lead to.
pub fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let after = prose.split("](").skip(1);
    let targets = after.filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// What is written between single backticks, line breaks as spaces.
pub fn code_spans(text: &str) -> Vec<String> {
    let prose = prose(text).replace('\n', " ");
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The anchors of a document's headings, as code hosts form them.
pub fn anchors(text: &str) -> Vec<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        title.chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// The rows of a document's tables, headers included, with the heading above them.
pub fn rows(text: &str) -> Vec<(String, Vec<String>)> {
    let prose = prose(text);
    let mut heading = String::new();
    let mut found = Vec::new();
    for line in prose.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim().to_owned();
        }
        let Some(row) = line.strip_prefix('|').and_then(|row| row.trim_end().strip_suffix('|'))
        else {
            continue;
        };
        let cells: Vec<_> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
        if cells.iter().any(|cell| !cell.trim_matches([':', '-']).is_empty()) {
            found.push((heading.clone(), cells));
        }
    }
    found
}

const EXAMPLE: &str = "\
# A [title](x.md) & more

Text with `code` and [a link](docs/a.md#part).

```sh
one
```

```json
{}
```

Text between.
<!-- not run: needs an account -->
```sh
two](no)
```

| a | b |
|---|--:|
| 1 | `2` |
";

#[test]
fn fences_know_their_marker_and_what_they_follow() {
    let found = fences(EXAMPLE);
    let texts: Vec<_> =
        found.iter().map(|it| (it.line, it.language.as_str(), it.follows)).collect();
    assert_eq!(texts, [(6, "sh", false), (10, "json", true), (16, "sh", false)]);
    assert_eq!(found[0].text, "one\n");
    let reasons: Vec<_> = found.iter().map(|it| it.not_run.as_deref()).collect();
    assert_eq!(reasons, [None, None, Some("needs an account")]);
}

#[test]
fn links_headings_and_tables_are_found() {
    assert_eq!(links(EXAMPLE), ["x.md", "docs/a.md#part"]);
    assert_eq!(anchors("# A `b` & C\n"), ["a-b--c"]);
    assert_eq!(code_spans(EXAMPLE), ["code", "2"]);
    let rows: Vec<_> = rows(EXAMPLE).into_iter().map(|(_, cells)| cells).collect();
    assert_eq!(rows, [["a", "b"], ["1", "`2`"]]);
}
