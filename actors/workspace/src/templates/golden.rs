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
        account: None,
        others: Vec::new(),
    };
    let facts = ChannelFacts {
        quality: Some(TemplateQuality::Yellow),
        ttl_seconds: Some(600),
        parameter_format: Some("named".into()),
        correct_category: Some(TemplateCategory::Marketing),
        rejected_reason: None,
    };
    let rated = Template { facts, components: Vec::new(), ..template.clone() };
    let why = Some("invalid_format".into());
    let rejected = Template {
        status: TemplateStatus::Rejected,
        facts: ChannelFacts { rejected_reason: why, ..ChannelFacts::default() },
        components: Vec::new(),
        ..template.clone()
    };
    let (mut sheet, workspace) = (Sheet::default(), "acme".parse().unwrap());
    sheet.text("key", &key(&workspace, &template.name, &template.language));
    sheet.json("template", &template);
    sheet.json("rated", &rated);
    sheet.json("rejected", &rejected);
    let other = OfAccount {
        account: "108".into(),
        category: TemplateCategory::Marketing,
        status: TemplateStatus::Paused,
        components: vec![json!({"type": "BODY", "text": "Hi"})],
        facts: rated.facts.clone(),
    };
    let shared = Template { account: Some("107".into()), others: vec![other], ..rated.clone() };
    sheet.json("of two accounts", &shared);
    for template in [rated, rejected, shared] {
        let json = serde_json::to_value(&template).unwrap();
        assert_eq!(serde_json::from_value(json).ok(), Some(template));
    }
    let statuses = TemplateStatus::WORDS.iter().map(|it| it.parse::<TemplateStatus>().unwrap());
    sheet.json("statuses", &statuses.collect::<Vec<_>>());
    let categories = TemplateCategory::WORDS.iter().map(|word| word.parse().unwrap());
    let categories: Vec<TemplateCategory> = categories.collect();
    sheet.json("categories", &categories);
    sheet.is(expect![[r#"
        key: acme\x00offer\x00en_US
        template: {"name":"offer","language":"en_US","category":"utility","status":"in_appeal","components":[{"example":{"a":[1]},"text":"Hi {{1}}","type":"BODY"}],"updated_at":1700000000123}
        rated: {"name":"offer","language":"en_US","category":"utility","status":"in_appeal","components":[],"updated_at":1700000000123,"quality":"yellow","ttl_seconds":600,"parameter_format":"named","correct_category":"marketing"}
        rejected: {"name":"offer","language":"en_US","category":"utility","status":"rejected","components":[],"updated_at":1700000000123,"rejected_reason":"invalid_format"}
        of two accounts: {"name":"offer","language":"en_US","category":"utility","status":"in_appeal","components":[],"updated_at":1700000000123,"quality":"yellow","ttl_seconds":600,"parameter_format":"named","correct_category":"marketing","account":"107","others":[{"account":"108","category":"marketing","status":"paused","components":[{"text":"Hi","type":"BODY"}],"quality":"yellow","ttl_seconds":600,"parameter_format":"named","correct_category":"marketing"}]}
        statuses: ["approved","pending","rejected","paused","disabled","in_appeal","pending_deletion","deleted","limit_exceeded"]
        categories: ["utility","marketing","authentication"]
    "#]]);
}
