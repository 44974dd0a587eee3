//! Reads what macros are given, which has no syntax tree: paths, functions, calls of macros.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::facts::Reader;

fn is_punct(tokens: &[TokenTree], at: usize, char: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

impl Reader {
    /// Reads the tokens of a macro. `before` is the path in front of the braces of `a::{…}`.
    pub fn tokens(&mut self, tokens: TokenStream, before: &[String]) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at += match &tokens[at] {
                TokenTree::Ident(_) => self.path_in(&tokens[at..], before),
                TokenTree::Group(group) => {
                    if at > 0 && is_punct(&tokens, at - 1, '#') {
                        self.attribute_in(group);
                    }
                    self.tokens(group.stream(), &[]);
                    1
                }
                _ => 1,
            };
        }
    }

    /// Notes the path that these tokens begin with, and says how many of them it takes.
    fn path_in(&mut self, tokens: &[TokenTree], before: &[String]) -> usize {
        let mut path = before.to_vec();
        let mut at = 0;
        while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
            path.extend((ident != "self" || path.is_empty()).then(|| ident.to_string()));
            if !(is_punct(tokens, at + 1, ':') && is_punct(tokens, at + 2, ':')) {
                break;
            }
            match tokens.get(at + 3) {
                Some(TokenTree::Ident(_)) => at += 3,
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    self.tokens(group.stream(), &path);
                    return at + 4;
                }
                _ => break,
            }
        }
        let line = tokens[at].span().start().line;
        if is_punct(tokens, at + 1, '!') && matches!(tokens.get(at + 2), Some(TokenTree::Group(_)))
        {
            self.facts.marks.push((format!("{}!", tokens[at]), line));
        }
        if path == ["fn"] {
            self.function_in(tokens);
        }
        self.name(path, line, None);
        at + 1
    }

    /// Notes a function among the tokens of a macro, which begin with `fn`.
    fn function_in(&mut self, tokens: &[TokenTree]) {
        let ends = |tree: &&TokenTree| match tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(punct) => punct.as_char() == ';',
            _ => false,
        };
        let is_named = matches!(tokens.get(1), Some(TokenTree::Ident(_)));
        if let (true, Some(TokenTree::Group(body))) = (is_named, tokens.iter().find(ends)) {
            self.function(tokens[0].span(), body.span_close());
        }
    }

    fn attribute_in(&mut self, group: &Group) {
        if let Some(TokenTree::Ident(name)) = group.stream().into_iter().next() {
            self.facts.marks.push((format!("#[{name}]"), name.span().start().line));
        }
    }
}
