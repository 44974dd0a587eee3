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
        facts: ChannelFacts::default(),
    };
    let facts = ChannelFacts {
        quality: Some(TemplateQuality::Yellow),
        ttl_seconds: Some(600),
        parameter_format: Some("named".into()),
        correct_category: Some(TemplateCategory::Marketing),
    };
    let rated = Template { facts, components: Vec::new(), ..template.clone() };
    let mut sheet = Sheet::default();
    sheet.text("key", &key(&"acme".parse().unwrap(), &template.name, &template.language));
    sheet.json("template", &template);
    sheet.json("rated", &rated);
    let read: Template = serde_json::from_value(serde_json::to_value(&rated).unwrap()).unwrap();
    assert_eq!(read, rated);
    let statuses: Vec<_> = TemplateStatus::WORDS.iter().map(|word| word.parse()).collect();
    let statuses: Vec<TemplateStatus> = statuses.into_iter().map(Result::unwrap).collect();
    sheet.json("statuses", &statuses);
    let categories: Vec<_> = TemplateCategory::WORDS.iter().map(|word| word.parse()).collect();
    let categories: Vec<TemplateCategory> = categories.into_iter().map(Result::unwrap).collect();
    sheet.json("categories", &categories);
    sheet.is(expect![[r#"
        key: acme\x00offer\x00en_US
        template: {"name":"offer","language":"en_US","category":"utility","status":"in_appeal","components":[{"example":{"a":[1]},"text":"Hi {{1}}","type":"BODY"}],"updated_at":1700000000123}
        rated: {"name":"offer","language":"en_US","category":"utility","status":"in_appeal","components":[],"updated_at":1700000000123,"quality":"yellow","ttl_seconds":600,"parameter_format":"named","correct_category":"marketing"}
        statuses: ["approved","pending","rejected","paused","disabled","in_appeal","pending_deletion","deleted","limit_exceeded"]
        categories: ["utility","marketing","authentication"]
    "#]]);
}
