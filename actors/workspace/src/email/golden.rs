//! The records of mails.

use expect_test::expect;

use super::outgoing::{MailRecord, QueuedMail};
use super::*;
use crate::messages::{MessageError, MessageStatus};
use postrider_domain::SenderNotes;
use postrider_domain::golden::{AT, Sheet, UNIQUE};

#[test]
fn a_mail_is_stored_as_ever() {
    let address = Email::new("Ann@example.com").unwrap();
    let error = MessageError { reason: "refused".into(), code: Some(550), details: "no".into() };
    let mail = MailRecord {
        to: address.clone(),
        subject: "Re: Hé".into(),
        text: "Hi".into(),
        message_id: "<a@example.com>".into(),
        in_reply_to: Some("<b@example.com>".into()),
        references: vec!["<b@example.com>".into()],
        status: MessageStatus::Failed,
        error: Some(error),
        give_up_at: AT,
        notes: SenderNotes::default(),
    };
    let (workspace, id) = ("acme".parse().unwrap(), MessageId::from_parts(AT, UNIQUE));
    let mut sheet = Sheet::default();
    sheet.text("mail key", &mail_key(&workspace, id));
    sheet.json("mail", &mail);
    sheet.text("queue key", &queue_key(&workspace, id));
    sheet
        .json("queued", &QueuedMail { handed: true, next_at: AT, failures: 2, why: "busy".into() });
    sheet.text("known key", &known_key(&workspace, "<a@example.com>"));
    sheet.text("address key", &address_key(&workspace, &address));
    sheet.is(expect![[r#"
        mail key: acme\x00m\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        mail: {"to":"Ann@example.com","subject":"Re: Hé","text":"Hi","message_id":"<a@example.com>","in_reply_to":"<b@example.com>","references":["<b@example.com>"],"status":"failed","error":{"reason":"refused","code":550,"details":"no"},"give_up_at":1700000000123}
        queue key: acme\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        queued: {"handed":true,"next_at":1700000000123,"failures":2,"why":"busy"}
        known key: acme\x00d8\x8a\xa2g\xe2\xb9,\x85\xa7\x02j\xab\x1flG\xd8
        address key: acme\x00aq\xd4\xf5_r\xfa\x12\x8d\xfbF\x8a\x1a9\x01P|\x80Kt1d\x88tMv\x9d\x7fK\x16idv
    "#]]);
}
