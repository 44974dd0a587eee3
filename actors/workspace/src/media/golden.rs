//! The records of a file.

use expect_test::expect;

use super::{ChannelUpload, MediaSource, MediaState};
use super::{media_key, name_key, pending_key, used_key};
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::{MediaId, MessageId, NumberId, WorkspaceId};
use postrider_store::blobs::BlobHash;

#[test]
fn a_file_is_stored_as_ever() {
    let (id, workspace) = (MediaId::from_parts(AT, UNIQUE), "acme".parse::<WorkspaceId>().unwrap());
    let hash = BlobHash([0xa7; 32]);
    let number = NumberId::from_parts(AT, 1);
    let upload = ChannelUpload { number, id: "17".into(), at: AT, doubted: false, renewed: false };
    let renewed = ChannelUpload { doubted: true, renewed: true, ..upload.clone() };
    let state = MediaState {
        media_id: id,
        mime_type: "image/png".to_owned(),
        size: 7,
        sha256: hash.to_string(),
        filename: Some("é.png".to_owned()),
        created_at: AT,
        expires_at: AT,
        uploads: vec![upload],
        message_id: None,
        error: None,
        source: None,
    };
    let source = MediaSource {
        number: NumberId::from_parts(AT, 1),
        id: "18".into(),
        sha256: Some(hash.to_string()),
    };
    let pending = MediaState {
        uploads: Vec::new(),
        message_id: Some(MessageId::from_parts(AT, UNIQUE)),
        error: Some("refused".into()),
        source: Some(source),
        ..state.clone()
    };
    let mut sheet = Sheet::default();
    sheet.text("key", &media_key(&workspace, id));
    sheet.text("used", &used_key(&workspace));
    sheet.text("name", &name_key(&workspace, &hash, id));
    sheet.text("pending", &pending_key(&workspace, id));
    sheet.json("media", &state);
    sheet.json("came in", &pending);
    sheet.json("renewed", &renewed);
    sheet.is(expect![[r#"
        key: acme\x00m\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        used: acme\x00u
        name: acme\x00h\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\xa7\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        pending: acme\x00p\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        media: {"media_id":"med_01hf7yat3v041061050r3gg28a","mime_type":"image/png","size":7,"sha256":"a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7","filename":"é.png","created_at":1700000000123,"expires_at":1700000000123,"uploads":[{"number":"num_01hf7yat3v0000000000000001","id":"17","at":1700000000123}]}
        came in: {"media_id":"med_01hf7yat3v041061050r3gg28a","mime_type":"image/png","size":7,"sha256":"a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7","filename":"é.png","created_at":1700000000123,"expires_at":1700000000123,"message_id":"msg_01hf7yat3v041061050r3gg28a","error":"refused","source":{"number":"num_01hf7yat3v0000000000000001","id":"18","sha256":"a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7"}}
        renewed: {"number":"num_01hf7yat3v0000000000000001","id":"17","at":1700000000123,"doubted":true,"renewed":true}
    "#]]);
    let plain = MediaState { uploads: Vec::new(), ..state };
    let json = serde_json::to_value(&plain).unwrap();
    assert_eq!(json.get("uploads"), None);
    assert_eq!(serde_json::from_value::<MediaState>(json).unwrap(), plain);
}
