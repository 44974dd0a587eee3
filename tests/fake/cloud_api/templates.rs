//! The list of templates, in pages.

use serde_json::{Value, json};

use super::Shared;
use super::server::Answer;

/// Returns a template with one text.
pub fn template(name: &str, language: &str, category: &str, status: &str, text: &str) -> Value {
    json!({
        "name": name, "language": language, "category": category, "status": status,
        "components": [{"type": "BODY", "text": text}],
    })
}

pub(super) fn page(shared: &Shared, account: &str, query: &str) -> Answer {
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse::<usize>().ok())
    };
    let state = &mut *shared.state.lock().unwrap();
    state.template_calls += 1;
    let all = state.templates_of.get(account).unwrap_or(&state.templates);
    // Small pages, so that few templates need several.
    let limit = parameter("limit").unwrap_or(25).clamp(1, 3);
    let from = parameter("after").unwrap_or(0).min(all.len());
    let to = (from + limit).min(all.len());
    let mut paging = json!({"cursors": {"before": from.to_string(), "after": to.to_string()}});
    if to < all.len() {
        paging["next"] = json!("https://graph.facebook.com/next");
    }
    let with_id = |template: &Value| {
        let mut template = template.clone();
        if template["id"].is_null() && template.is_object() {
            template["id"] = json!(format!("{}/{}", template["name"], template["language"]));
        }
        template
    };
    let data: Vec<_> = all[from..to].iter().map(with_id).collect();
    Answer(200, json!({"data": data, "paging": paging}).to_string())
}
