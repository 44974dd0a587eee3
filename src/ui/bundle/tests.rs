//! What joined files have, and how modules must be written to be joined.

use super::*;
use crate::ui::sources::sources;

fn texts(files: &[(&str, &str)]) -> Texts {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_module_becomes_a_function_of_what_it_imports() {
    for (module, function) in [
        ("a();\n", "a();\nreturn {  };"),
        (
            "import { a, b as c } from '../lib/d.js';\nc(a);\n",
            "const { a, b: c } = __use('lib/d.js');\nc(a);\nreturn {  };",
        ),
        (
            "import {\n  a,\n  b,\n} from './d.js';\n",
            "\n\n\nconst {  a,  b,} = __use('pages/d.js');\nreturn {  };",
        ),
        (
            "export const A = 1;\nexport function b() {}\nexport async function c() {}\n",
            "const A = 1;\nfunction b() {}\nasync function c() {}\nreturn { A, b, c };",
        ),
        (
            "export class $D_1 extends E {}\nexport default function page() {}\n",
            "class $D_1 extends E {}\nfunction page() {}\nreturn { $D_1, default: page };",
        ),
        (
            "const at = import.meta.url;\nimport(`./${at}.js`);\n",
            "const at = __here;\n__load(`./${at}.js`);\nreturn {  };",
        ),
        ("/** @import { T } from './t.js' */\n// No.\na();\n", "\n\na();\nreturn {  };"),
        (
            "import { a } from './a.js';\n\nconst text = `\nimport { b } from 'b';\n`;\n",
            "const { a } = __use('pages/a.js');\n\nconst text = `\nimport { b } from 'b';\n`;\nreturn {  };",
        ),
        ("  export no();\n", "  export no();\nreturn {  };"),
    ] {
        let expected = format!("'pages/x.js': (__use, __load, __here) => {{\n{function}\n}},\n");
        assert_eq!(definition("pages/x.js", module), expected);
    }
}

#[test]
fn each_module_is_in_one_file_except_those_that_the_worker_has_too() {
    let import = |path: &str| format!("import {{ a }} from '{path}';\n");
    let files = texts(&[
        ("app.js", &import("./lib/a.js")),
        ("icon.svg", "<svg/>"),
        ("import/csv.js", &import("./rows.js")),
        ("import/rows.js", ""),
        ("lib/a.js", &import("../lib/b.js")),
        ("lib/b.js", ""),
        ("lib/modules.js", "/** The runtime. */\nexport const use = 1;\n"),
        ("lib/types.js", "export {};\n"),
        ("pages/codes.js", &(import("../lib/b.js") + &import("../import/rows.js"))),
        ("pages/home.js", ""),
        ("styles/a.css", "a{}\n"),
        ("styles/base.css", "b{}\n"),
        ("styles/tokens.css", "t{}\n"),
    ]);
    let joined = join(&files);
    let names: Vec<_> = joined.keys().map(String::as_str).collect();
    assert_eq!(names, ["app.css", "app.js", "icon.svg", "pages.js", "worker.js"]);
    assert_eq!(joined["app.css"], "t{}\nb{}\na{}\n");
    let has = |file: &str| {
        let entries = joined[file].lines().filter(|line| line.ends_with("=> {"));
        entries.filter_map(|line| line.split('\'').nth(1)).collect::<Vec<_>>()
    };
    assert_eq!(has("app.js"), ["app.js", "lib/a.js", "lib/b.js", "pages/home.js"]);
    assert_eq!(has("pages.js"), ["import/rows.js", "pages/codes.js"]);
    assert_eq!(has("worker.js"), ["import/csv.js", "import/rows.js"]);
    assert!(joined["app.js"].starts_with("\nexport const use = 1;\ndefine({\n"));
    assert!(joined["app.js"].ends_with("});\nuse('app.js');\n"));
    assert!(joined["worker.js"].ends_with("});\nuse('import/csv.js');\n"));
    assert!(joined["pages.js"].starts_with("import { define } from './app.js';\ndefine({\n"));
    let first = first_modules(&files);
    assert!(first.contains("pages/home.js") && !first.contains("pages/codes.js"));
}

/// Returns the names that a converted module looks up, each with the module that exports it.
fn looked_up(code: &str) -> Vec<(Vec<String>, String)> {
    let lines =
        code.lines().filter_map(|line| line.strip_prefix("const {")?.split_once("} = __use('"));
    let of = |(names, rest): (&str, &str)| {
        let names = names.split(',').map(|it| it.split(':').next().unwrap_or_default().trim());
        let names = names.filter(|it| !it.is_empty()).map(str::to_owned).collect();
        (names, rest.split('\'').next().unwrap_or_default().to_owned())
    };
    lines.map(of).collect()
}

#[test]
fn every_module_of_the_page_is_written_so_that_it_can_be_joined() {
    let files = sources();
    let modules: Vec<_> = files.iter().filter(|(path, _)| path.ends_with(".js")).collect();
    assert!(modules.len() > 80, "{} modules", modules.len());
    for (path, text) in modules.iter().filter(|(path, _)| !is_special(path)) {
        for line in without_comments(text).lines() {
            assert!(!line.starts_with("import ") || line.starts_with("import {"), "{path}: {line}");
            assert!(!line.starts_with("await "), "{path}: {line}");
            let Some(declaration) = line.strip_prefix("export ") else { continue };
            let declaration = declaration.strip_prefix("default ").unwrap_or(declaration);
            let (keyword, rest) = declaration.split_once(' ').unwrap();
            let rest = rest.strip_prefix("function ").unwrap_or(rest);
            let followed = rest.strip_prefix(declared_name(declaration)).unwrap_or_default();
            let wanted = match keyword {
                "const" => " =",
                "function" | "async" => "(",
                "class" => " ",
                _ => "an unknown keyword",
            };
            assert!(followed.starts_with(wanted), "{path}: {line}");
        }
        let (code, _) = converted(path, text);
        assert!(!code.contains("import.meta"), "{path}");
        let imported = imported_modules(path, text);
        assert_eq!(code.matches(" = __use('").count(), imported.len(), "{path}");
        for (names, other) in looked_up(&code) {
            let (_, exported) = converted(&other, &files[&other]);
            for name in names {
                assert!(exported.contains(&name), "{path}: {other} exports no {name}");
            }
        }
        for other in imported {
            assert!(files.contains_key(&other), "{path} imports {other}");
            let back = reachable_modules([other.as_str()], &files);
            assert!(!back.contains(path.as_str()), "{path} and {other} import each other");
        }
    }
}

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
