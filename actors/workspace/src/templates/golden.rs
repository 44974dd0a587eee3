//! The record of a template.

use expect_test::expect;
use serde_json::json;

use super::*;
use postrider_domain::golden::{AT, Sheet};

#[test]
fn a_template_is_stored_as_ever() {
    let template = Template {
        name: "offer".into(),
        language: "en_US".into(),
        category: TemplateCategory::Utility,
        status: TemplateStatus::InAppeal,
        components: vec![json!({"type": "BODY", "text": "Hi {{1}}", "example": {"a": [1]}})],
        updated_at: AT,
    };
    let mut sheet = Sheet::default();
    sheet.text("key", &key(&"acme".parse().unwrap(), &template.name, &template.language));
    sheet.json("template", &template);
    let statuses: Vec<_> = TemplateStatus::WORDS.iter().map(|word| word.parse()).collect();
    let statuses: Vec<TemplateStatus> = statuses.into_iter().map(Result::unwrap).collect();
    sheet.json("statuses", &statuses);
    let categories: Vec<_> = TemplateCategory::WORDS.iter().map(|word| word.parse()).collect();
    let categories: Vec<TemplateCategory> = categories.into_iter().map(Result::unwrap).collect();
    sheet.json("categories", &categories);
    sheet.is(expect![[r#"
        key: acme\x00offer\x00en_US
        template: {"name":"offer","language":"en_US","category":"utility","status":"in_appeal","components":[{"example":{"a":[1]},"text":"Hi {{1}}","type":"BODY"}],"updated_at":1700000000123}
        statuses: ["approved","pending","rejected","paused","disabled","in_appeal","pending_deletion","deleted","limit_exceeded"]
        categories: ["utility","marketing","authentication"]
    "#]]);
}
