//! Writes the query of a request.

/// Formats the given parameters for the part of an address behind the `?`.
pub(crate) fn query<const N: usize>(parameters: [(&str, Option<String>); N]) -> String {
    let given = parameters.into_iter().filter_map(|(name, text)| Some((name, text?)));
    let pairs: Vec<_> = given.map(|(name, text)| format!("{name}={}", encoded(&text))).collect();
    pairs.join("&")
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_written_so_that_it_is_read_again() {
        let parameters =
            [("to", Some("+1 é&".to_owned())), ("none", None), ("b", Some("x".into()))];
        assert_eq!(query(parameters), "to=%2B1%20%C3%A9%26&b=x");
    }
}
