//! Pure: leaves the comments of a module out of what is sent, which take an eighth of its bytes.

/// A module without its comments of the form `/** … */` that begin a line. Lines keep their
/// numbers, so an error's place is that of the file.
pub(super) fn without_comments(module: &str) -> String {
    let mut out = String::with_capacity(module.len());
    let mut is_inside = false;
    for line in module.split_inclusive('\n') {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        let starts = !is_inside && text.trim_start().starts_with("/**");
        let kept = match (is_inside || starts, text.split_once("*/")) {
            (false, _) => text,
            (true, None) => {
                is_inside = true;
                ""
            }
            (true, Some((_, rest))) => {
                is_inside = false;
                rest
            }
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
            ("a(); /** kept */\n// kept\n", "a(); /** kept */\n// kept\n"),
            ("const at = '/**';\nb('*/');\n", "const at = '/**';\nb('*/');\n"),
            ("/** a */\n/** b */\nc /* d */;", "\n\nc /* d */;"),
        ] {
            assert_eq!(without_comments(module), sent, "{module}");
        }
    }
}
