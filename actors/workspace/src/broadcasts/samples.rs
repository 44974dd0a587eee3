//! Pure: checks which templates give the same messages with the same parameters.
//!
//! A broadcast's messages are made of one account's template, and are sent through numbers of other
//! accounts too. So those must have a template that takes the very same parameters.

use postrider_broadcast::parameters::with_variables;
use postrider_domain::template::Misfit;
use postrider_domain::template::parameters::fill;
use serde_json::Value;

/// A number of places that no body has room for.
const PLACES_MAX: usize = 210;

/// The parameters of a broadcast's messages: the shared ones, or samples for recipients' variables.
#[derive(Debug)]
pub(super) struct Samples(Vec<Vec<Value>>);

impl Samples {
    /// Returns the samples of a broadcast with these parameters.
    ///
    /// For recipients with variables, which fit `personal`, there is one with as many variables as
    /// its body takes. There is one without any if that fits as well. The text of a variable
    /// matters to no template.
    pub(super) fn of(components: &[Value], personal: Option<&[Value]>) -> Self {
        let shared = components.to_vec();
        let Some(template) = personal else { return Self(vec![shared]) };
        let of = |places| with_variables(components, &vec![Box::from("x"); places]);
        let fits = |given: &Vec<Value>| fill(template, given).is_ok();
        let with_variables = (1..=PLACES_MAX).map(of).find(fits);
        let shared = Some(shared).filter(|it| with_variables.is_none() || fits(it));
        Self(with_variables.into_iter().chain(shared).collect())
    }

    /// Returns the filled components of each sample, for the channel.
    ///
    /// # Errors
    /// [`Misfit`]: one of them does not fit the template.
    pub(super) fn filled(&self, template: &[Value]) -> Result<Vec<String>, Misfit> {
        self.0.iter().map(|given| Ok(fill(template, given)?.components)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(text: &str) -> Vec<Value> {
        vec![json!({"type": "BODY", "text": text})]
    }

    fn given(texts: &[&str]) -> Vec<Value> {
        let texts = texts.iter().map(|text| json!({"type": "text", "text": text}));
        vec![json!({"type": "body", "parameters": texts.collect::<Vec<_>>()})]
    }

    #[test]
    fn templates_are_sent_alike_whatever_their_words_are() {
        let one = body("Hi {{1}}");
        for samples in [Samples::of(&given(&["Ada"]), None), Samples::of(&[], Some(&one))] {
            let filled = samples.filled(&one).unwrap();
            assert_eq!(samples.filled(&body("Hello {{1}}, you")).as_ref(), Ok(&filled));
            assert!(samples.filled(&body("Hello")).is_err());
            assert!(samples.filled(&body("Hello {{1}} {{2}}")).is_err());
            let named = samples.filled(&body("Hello {{name}}")).unwrap();
            assert_ne!(named, filled, "the channel wants the name");
        }
    }

    #[test]
    fn recipients_without_variables_have_what_all_have() {
        let one = body("Hi {{1}}");
        let samples = Samples::of(&given(&["you"]), Some(&one));
        assert_eq!(samples.filled(&one).unwrap().len(), 2);
        assert_eq!(Samples::of(&[], Some(&one)).filled(&one).unwrap().len(), 1);
        let none = body("Hi");
        assert_eq!(Samples::of(&[], Some(&none)).filled(&none).unwrap(), ["[]"]);
    }
}
