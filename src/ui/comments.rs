//! Removes the comments of a module before it is sent: they are an eighth of its bytes. Pure.

/// Removes the comments at the start of a line, `/** … */` and `// …`, from a module.
///
/// Lines keep their numbers, so an error's position is that of the file. No text of a page may
/// start with a comment mark at the start of a line.
pub(super) fn without_comments(module: &str) -> String {
    let mut out = String::with_capacity(module.len());
    let mut is_inside = false;
    for line in module.split_inclusive('\n') {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        let begins = text.trim_start();
        let kept = if is_inside || begins.starts_with("/**") {
            let rest = text.split_once("*/").map(|(_, rest)| rest);
            is_inside = rest.is_none();
            rest.unwrap_or_default()
        } else if begins.starts_with("// ") {
            ""
        } else {
            text
        };
        out.push_str(kept);
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_lines_stay() {
        for (module, sent) in [
            ("", ""),
            ("a();\n", "a();\n"),
            ("/** One. */\na();", "\na();"),
            ("  /**\n * Two,\n * long.\n */\na();\n", "\n\n\n\na();\n"),
            ("/** @type {any} */ (a)();\n", " (a)();\n"),
            ("a(); /** kept */\n//kept\n", "a(); /** kept */\n//kept\n"),
            ("  // One.\na(); // kept\n// Two.", "\na(); // kept\n"),
            ("/**\n// One.\n*/\n// Two.\n", "\n\n\n\n"),
            ("const at = '/**';\nb('*/');\n", "const at = '/**';\nb('*/');\n"),
            ("/** a */\n/** b */\nc /* d */;", "\n\nc /* d */;"),
        ] {
            assert_eq!(without_comments(module), sent, "{module}");
        }
    }
}
