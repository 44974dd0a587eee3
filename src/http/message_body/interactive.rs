//! Interactive messages: lengths and counts are checked here, the rest by the channel.

use postrider_actors::ObjectContent;
use postrider_actors::domain::MessageKind;
use serde_json::{Map, Value};

use super::objects::{check_length, check_link};
use crate::http::pipeline::ApiError;

/// The maximum number of reply buttons.
const BUTTONS_MAX: usize = 3;
/// The maximum number of rows of a list, in all its sections.
const ROWS_MAX: usize = 10;

/// Checks an interactive message.
pub(super) fn checked(object: &Map<String, Value>) -> Result<ObjectContent, ApiError> {
    let whole = Value::Object(object.clone());
    let of = At { path: "interactive".to_owned(), value: &whole };
    let kind = of.get("type");
    let kind = kind.value.as_str().unwrap_or_default();
    let body = of.get("body").get("text").text(1, if kind == "list" { 4096 } else { 1024 })?;
    if of.get("footer").is_there() {
        of.get("footer").get("text").text(1, 60)?;
    }
    let header = of.get("header");
    if header.is_there() && header.get("type").value == "text" {
        header.get("text").text(1, 60)?;
    }
    let action = of.get("action");
    match kind {
        "button" => buttons(&action)?,
        "list" => list(&action)?,
        "cta_url" => {
            action.get("name").is("cta_url")?;
            let parameters = action.get("parameters");
            parameters.get("display_text").text(1, 20)?;
            let url = parameters.get("url");
            check_link(&url.path, url.value.as_str().unwrap_or_default())?;
        }
        "flow" => action.get("name").is("flow")?,
        "location_request_message" => action.get("name").is("send_location")?,
        _ => {
            let rule = "must be button, list, cta_url, flow or location_request_message";
            return Err(ApiError::field("interactive.type", rule));
        }
    }
    let (text, object) = (body.into(), whole.to_string().into());
    Ok(ObjectContent { kind: MessageKind::Interactive, object, text, about: None, media: None })
}

fn buttons(action: &At<'_>) -> Result<(), ApiError> {
    for button in action.get("buttons").items(BUTTONS_MAX)? {
        button.get("type").is("reply")?;
        button.get("reply").get("id").text(1, 256)?;
        button.get("reply").get("title").text(1, 20)?;
    }
    Ok(())
}

fn list(action: &At<'_>) -> Result<(), ApiError> {
    action.get("button").text(1, 20)?;
    let sections = action.get("sections").items(ROWS_MAX)?;
    let mut rows = 0;
    for section in &sections {
        let title = section.get("title");
        // Several sections can be distinguished by their titles only.
        if title.is_there() || sections.len() > 1 {
            title.text(1, 24)?;
        }
        for row in section.get("rows").items(ROWS_MAX)? {
            rows += 1;
            row.get("id").text(1, 200)?;
            row.get("title").text(1, 24)?;
            if row.get("description").is_there() {
                row.get("description").text(1, 72)?;
            }
        }
    }
    if rows > ROWS_MAX {
        let rule = format_args!("must have at most {ROWS_MAX} rows in all");
        return Err(ApiError::field(&action.get("sections").path, rule));
    }
    Ok(())
}

/// A value of the body, and its path.
struct At<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> At<'a> {
    fn get(&self, field: &str) -> Self {
        At { path: format!("{}.{field}", self.path), value: &self.value[field] }
    }

    fn is_there(&self) -> bool {
        !self.value.is_null()
    }

    fn text(&self, min: usize, max: usize) -> Result<&'a str, ApiError> {
        let text = self.value.as_str();
        let text = text.ok_or_else(|| ApiError::field(&self.path, "must be a text"))?;
        check_length(&self.path, text, min, max).map(|()| text)
    }

    fn is(&self, word: &str) -> Result<(), ApiError> {
        if self.value == word {
            return Ok(());
        }
        Err(ApiError::field(&self.path, format_args!("must be `{word}`")))
    }

    fn items(&self, max: usize) -> Result<Vec<Self>, ApiError> {
        let items = self.value.as_array().filter(|items| (1..=max).contains(&items.len()));
        let rule = format_args!("must be a list with 1 to {max} entries");
        let items = items.ok_or_else(|| ApiError::field(&self.path, rule))?;
        let at = |(index, value)| At { path: format!("{}[{index}]", self.path), value };
        Ok(items.iter().enumerate().map(at).collect())
    }
}
