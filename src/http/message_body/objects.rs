//! The objects of messages that are not text, and the fields that each of them must have.
//!
//! Of interactive messages lengths and counts are checked here; the channel checks the rest.

use std::borrow::Cow;

use axum::http::Uri;
use postrider_actors::ObjectContent;
use postrider_actors::domain::{MessageId, MessageKind, printable};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::http::pipeline::ApiError;

/// The maximum length of a caption, in characters.
const CAPTION_CHARS_MAX: usize = 1024;
/// The maximum length of a file's name, in characters.
const FILENAME_CHARS_MAX: usize = 240;
/// The maximum length of a link, in characters.
const LINK_CHARS_MAX: usize = 2048;
/// The maximum length of a place's name or address, in characters.
const PLACE_CHARS_MAX: usize = 1000;
/// The maximum length of an emoji, in characters: some emojis are made of many.
const EMOJI_CHARS_MAX: usize = 32;
/// The maximum number of address cards of a message.
const CARDS_MAX: usize = 257;
/// The maximum length of the line that shows whose cards they are, in characters.
const LINE_CHARS_MAX: usize = 200;
/// The maximum number of reply buttons.
const BUTTONS_MAX: usize = 3;
/// The maximum number of rows of a list, in all its sections.
const ROWS_MAX: usize = 10;

/// The possible fields of a picture, film, file, sound or sticker.
#[derive(Deserialize)]
pub(crate) struct MediaObject<'a> {
    #[serde(borrow)]
    media_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    link: Option<Cow<'a, str>>,
    #[serde(borrow)]
    caption: Option<Cow<'a, str>>,
    #[serde(borrow)]
    filename: Option<Cow<'a, str>>,
    voice: Option<bool>,
}

macro_rules! media_objects {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$field_about:meta])* $field:ident: $of:ty,)*
    })*) => {$(
        $(#[$about])*
        #[derive(ToSchema)]
        #[schema(example = json!({"media_id": "med_01jd3v0x5n8m7k2q4r6s8t0w2y"}))]
        #[allow(dead_code, reason = "describes what `MediaObject` reads for some types")]
        pub(crate) struct $name {
            /// A file that was uploaded or came in; left out with `link`.
            #[schema(example = "med_01jd3v0x5n8m7k2q4r6s8t0w2y")]
            media_id: Option<String>,
            /// Where the channel gets it: an `http` or `https` URL; left out with `media_id`.
            #[schema(example = "https://example.com/plan.png", max_length = 2048)]
            link: Option<String>,
            $($(#[$field_about])* $field: Option<$of>,)*
        }
    )*};
}

media_objects! {
    /// A picture or a film.
    CaptionedObject {
        /// What stands below it.
        #[schema(min_length = 1, max_length = 1024)]
        caption: String,
    }
    /// A file that is shown by its name.
    DocumentObject {
        /// What stands below it.
        #[schema(min_length = 1, max_length = 1024)]
        caption: String,
        /// Its name, of printable characters without slashes.
        #[schema(min_length = 1, max_length = 240)]
        filename: String,
    }
    /// A sound.
    AudioObject {
        /// Whether it is a voice message.
        voice: bool,
    }
    /// A sticker.
    StickerObject {}
}

/// A place.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"latitude": 52.52, "longitude": 13.405, "name": "Berlin"}))]
pub(crate) struct LocationObject<'a> {
    /// Degrees to the north.
    #[schema(minimum = -90, maximum = 90)]
    latitude: f64,
    /// Degrees to the east.
    #[schema(minimum = -180, maximum = 180)]
    longitude: f64,
    /// What it is called.
    #[serde(borrow)]
    #[schema(min_length = 1, max_length = 1000)]
    name: Option<Cow<'a, str>>,
    /// Its address.
    #[serde(borrow)]
    #[schema(min_length = 1, max_length = 1000)]
    address: Option<Cow<'a, str>>,
}

/// An emoji on a message.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"message_id": "msg_01jd3v0x5n8m7k2q4r6s8t0w2y", "emoji": "👍"}))]
pub(crate) struct ReactionObject<'a> {
    /// The message, of the same conversation.
    #[serde(borrow)]
    message_id: Cow<'a, str>,
    /// The emoji; an empty one takes the reaction back.
    #[serde(borrow)]
    #[schema(max_length = 32)]
    emoji: Cow<'a, str>,
}

/// The message that is answered.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"message_id": "msg_01jd3v0x5n8m7k2q4r6s8t0w2y"}))]
pub(crate) struct AnsweredMessage<'a> {
    /// The message, of the same conversation.
    #[serde(borrow)]
    pub(super) message_id: Cow<'a, str>,
}

/// Parses a message's id.
pub(super) fn message_id(field: &str, id: &str) -> Result<MessageId, ApiError> {
    id.parse().map_err(|_| ApiError::field(field, "must be the id of a message"))
}

/// Checks that a text has from `min` to `max` characters.
pub(super) fn check_length(
    field: &str,
    text: &str,
    min: usize,
    max: usize,
) -> Result<(), ApiError> {
    let chars = text.chars().count();
    if (min..=max).contains(&chars) {
        return Ok(());
    }
    Err(ApiError::field(field, format_args!("must have {min} to {max} characters")))
}

/// Checks that a link is an `http` or `https` URL.
pub(super) fn check_link(field: &str, link: &str) -> Result<(), ApiError> {
    let is_web = link.parse::<Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    });
    if is_web && link.chars().count() <= LINK_CHARS_MAX {
        return Ok(());
    }
    Err(ApiError::field(field, "must be an http or https URL of at most 2048 characters"))
}

fn content(kind: MessageKind, object: Value, text: String) -> ObjectContent {
    ObjectContent {
        kind,
        object: object.to_string().into(),
        text: text.into(),
        about: None,
        media: None,
    }
}

impl MediaObject<'_> {
    /// Checks that the fields suit an object of this kind.
    pub(super) fn checked(&self, kind: MessageKind) -> Result<ObjectContent, ApiError> {
        let name = kind.as_str();
        let field = |of: &str| format!("{name}.{of}");
        let only = |of: &str, kinds: &str| {
            Err(ApiError::field(&field(of), format_args!("is of {kinds} only")))
        };
        let mut object = Map::new();
        let media = match (self.media_id.as_deref(), self.link.as_deref()) {
            (None, Some(link)) => {
                check_link(&field("link"), link)?;
                object.insert("link".to_owned(), link.into());
                None
            }
            (Some(id), None) => Some(id.parse().map_err(|_| {
                ApiError::field(&field("media_id"), "must be the id of an uploaded file")
            })?),
            _ => {
                let rule = "must be given, or `link`, and not both";
                return Err(ApiError::field(&field("media_id"), rule));
            }
        };
        if let Some(caption) = self.caption.as_deref() {
            if matches!(kind, MessageKind::Audio | MessageKind::Sticker) {
                return only("caption", "image, video and document");
            }
            check_length(&field("caption"), caption, 1, CAPTION_CHARS_MAX)?;
            object.insert("caption".to_owned(), caption.into());
        }
        if let Some(filename) = self.filename.as_deref() {
            if kind != MessageKind::Document {
                return only("filename", "document");
            }
            check_filename(&field("filename"), filename)?;
            object.insert("filename".to_owned(), filename.into());
        }
        if let Some(voice) = self.voice {
            if kind != MessageKind::Audio {
                return only("voice", "audio");
            }
            object.insert("voice".to_owned(), voice.into());
        }
        let line = self.caption.as_deref().or(self.filename.as_deref()).unwrap_or_default();
        Ok(ObjectContent { media, ..content(kind, object.into(), line.to_owned()) })
    }
}

/// Checks the name of a file.
pub(crate) fn check_filename(field: &str, name: &str) -> Result<(), ApiError> {
    check_length(field, name, 1, FILENAME_CHARS_MAX)?;
    if printable::has_control(name) || name.contains(['/', '\\']) {
        return Err(ApiError::field(field, "must have printable characters and no slashes"));
    }
    Ok(())
}

impl LocationObject<'_> {
    /// Checks the coordinates, the name and the address of the place.
    pub(super) fn checked(&self) -> Result<ObjectContent, ApiError> {
        let Self { latitude, longitude, name, address } = self;
        for (field, degrees, max) in
            [("location.latitude", latitude, 90), ("location.longitude", longitude, 180)]
        {
            if degrees.abs() > f64::from(max) {
                return Err(ApiError::field(field, format_args!("must be -{max} to {max}")));
            }
        }
        let mut object = json!({"latitude": latitude, "longitude": longitude});
        for (of, text) in [("name", name), ("address", address)] {
            if let Some(text) = text {
                check_length(&format!("location.{of}"), text, 1, PLACE_CHARS_MAX)?;
                object[of] = (**text).into();
            }
        }
        let line = name.as_deref().or(address.as_deref()).map(str::to_owned);
        let line = line.unwrap_or_else(|| format!("{latitude}, {longitude}"));
        Ok(content(MessageKind::Location, object, line))
    }
}

impl ReactionObject<'_> {
    /// Checks the message's id and the emoji of the reaction.
    pub(super) fn checked(&self) -> Result<ObjectContent, ApiError> {
        let about = message_id("reaction.message_id", &self.message_id)?;
        check_length("reaction.emoji", &self.emoji, 0, EMOJI_CHARS_MAX)?;
        let (emoji, line) = (json!({"emoji": self.emoji}), self.emoji.to_string());
        Ok(ObjectContent { about: Some(about), ..content(MessageKind::Reaction, emoji, line) })
    }
}

/// Checks address cards: each must name somebody; the channel checks the rest.
pub(super) fn cards(cards: &[Value]) -> Result<ObjectContent, ApiError> {
    if !(1..=CARDS_MAX).contains(&cards.len()) {
        return Err(ApiError::field("contacts", "must have 1 to 257 entries"));
    }
    let mut names = Vec::with_capacity(cards.len());
    for (index, card) in cards.iter().enumerate() {
        let name = card["name"]["formatted_name"].as_str().filter(|name| !name.is_empty());
        names.push(name.ok_or_else(|| {
            let field = format!("contacts[{index}].name.formatted_name");
            ApiError::field(&field, "must be a text that is not empty")
        })?);
    }
    let line = names.join(", ").chars().take(LINE_CHARS_MAX).collect();
    Ok(content(MessageKind::Contacts, cards.into(), line))
}

/// Checks an interactive message.
pub(super) fn checked_interactive(object: &Map<String, Value>) -> Result<ObjectContent, ApiError> {
    let whole = Value::Object(object.clone());
    let of = JsonPlace { path: "interactive".to_owned(), value: &whole };
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
        "button" => check_buttons(&action)?,
        "list" => check_list(&action)?,
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

fn check_buttons(action: &JsonPlace<'_>) -> Result<(), ApiError> {
    for button in action.get("buttons").items(BUTTONS_MAX)? {
        button.get("type").is("reply")?;
        button.get("reply").get("id").text(1, 256)?;
        button.get("reply").get("title").text(1, 20)?;
    }
    Ok(())
}

fn check_list(action: &JsonPlace<'_>) -> Result<(), ApiError> {
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
struct JsonPlace<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> JsonPlace<'a> {
    fn get(&self, field: &str) -> Self {
        JsonPlace { path: format!("{}.{field}", self.path), value: &self.value[field] }
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
        let at = |(index, value)| JsonPlace { path: format!("{}[{index}]", self.path), value };
        Ok(items.iter().enumerate().map(at).collect())
    }
}
