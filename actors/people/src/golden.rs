//! The records of people, sessions and links.

use expect_test::expect;
use postrider_domain::golden::{AT, Sheet, UNIQUE};
use postrider_domain::{InviteId, PersonId, SessionId};

use crate::authenticator::{Authenticator, totp_requirement};
use crate::link::{Invite, Link};
use crate::password::PasswordHash;
use crate::permission::Role;
use crate::person::{Login, Person};
use crate::session::{SessionHolder, SessionRecord};
use crate::token::TokenHash;

fn person() -> Person {
    let id = PersonId::from_parts(AT, UNIQUE);
    let new = Person::new(id, Login::new("ada@acme.com").unwrap(), AT);
    new.with_role(&"acme".parse().unwrap(), Some(Role::Developer))
}

#[test]
fn a_person_is_stored_as_ever() {
    let mut sheet = Sheet::default();
    let person = person();
    sheet.text("key", &person.put().key);
    sheet.json("record", &person);
    let hash = r#"{"memory_kib":19456,"passes":2,"lanes":1,"salt":"c2FsdA","hash":"aGFzaA"}"#;
    let hash: PasswordHash = postrider_store::view::codec::decode(hash.as_bytes()).unwrap();
    sheet.json("with a password", &Person { password: Some(hash), ..person.clone() });
    let authenticator = r#"{"secret":{"key_version":1,"text":"c2VjcmV0"},"last_step":7,
        "recovery":[]}"#;
    let authenticator = postrider_store::view::codec::decode(authenticator.as_bytes()).unwrap();
    let authenticator: Option<Authenticator> = Some(authenticator);
    sheet.json("with an authenticator", &Person { authenticator, ..person });
    sheet.is(expect![[r#"
        key: person/\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        record: {"id":"usr_01hf7yat3v041061050r3gg28a","email":"ada@acme.com","name":"ada@acme.com","operator":false,"disabled":false,"created_at":1700000000123,"memberships":[{"workspace":"acme","role":"developer"}]}
        with a password: {"id":"usr_01hf7yat3v041061050r3gg28a","email":"ada@acme.com","name":"ada@acme.com","operator":false,"disabled":false,"created_at":1700000000123,"memberships":[{"workspace":"acme","role":"developer"}],"password":{"memory_kib":19456,"passes":2,"lanes":1,"salt":"c2FsdA","hash":"aGFzaA"}}
        with an authenticator: {"id":"usr_01hf7yat3v041061050r3gg28a","email":"ada@acme.com","name":"ada@acme.com","operator":false,"disabled":false,"created_at":1700000000123,"memberships":[{"workspace":"acme","role":"developer"}],"authenticator":{"secret":{"key_version":1,"text":"c2VjcmV0"},"last_step":7,"recovery":[]}}
    "#]]);
}

#[test]
fn a_session_is_stored_as_ever() {
    let mut sheet = Sheet::default();
    let record = SessionRecord {
        id: SessionId::from_parts(AT, UNIQUE),
        holder: SessionHolder::Person(person().id),
        hash: TokenHash::of("golden"),
        created_at: AT,
        seen_at: AT,
        ends_at: AT,
        user_agent: "Mozilla/5.0".into(),
        address: "192.0.2.7".into(),
        elevated_until: Some(AT),
    };
    sheet.text("key", &record.put().key);
    sheet.json("record", &record);
    let holder = SessionHolder::AdminToken {
        id: None,
        name: Some("alice".into()),
        hash: Some(TokenHash::of("golden")),
    };
    sheet.json("of a token", &SessionRecord { holder, elevated_until: None, ..record });
    sheet.is(expect![[r#"
        key: session/\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        record: {"id":"ses_01hf7yat3v041061050r3gg28a","holder":{"person":"usr_01hf7yat3v041061050r3gg28a"},"hash":[221,86,222,65,55,149,29,156,146,104,27,3,65,110,193,95,136,107,68,130,162,126,58,81,125,50,240,133,36,76,190,93],"created_at":1700000000123,"seen_at":1700000000123,"ends_at":1700000000123,"user_agent":"Mozilla/5.0","address":"192.0.2.7","elevated_until":1700000000123}
        of a token: {"id":"ses_01hf7yat3v041061050r3gg28a","holder":{"admin_token":{"id":null,"name":"alice","hash":[221,86,222,65,55,149,29,156,146,104,27,3,65,110,193,95,136,107,68,130,162,126,58,81,125,50,240,133,36,76,190,93]}},"hash":[221,86,222,65,55,149,29,156,146,104,27,3,65,110,193,95,136,107,68,130,162,126,58,81,125,50,240,133,36,76,190,93],"created_at":1700000000123,"seen_at":1700000000123,"ends_at":1700000000123,"user_agent":"Mozilla/5.0","address":"192.0.2.7","elevated_until":null}
    "#]]);
}

#[test]
fn a_link_is_stored_as_ever() {
    let mut sheet = Sheet::default();
    let link = Link { person: person().id, hash: TokenHash::of("golden"), ends_at: AT };
    sheet.text("key", &link.put().key);
    sheet.json("record", &link);
    sheet.is(expect![[r#"
        key: sign_in_link/\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        record: {"person":"usr_01hf7yat3v041061050r3gg28a","hash":[221,86,222,65,55,149,29,156,146,104,27,3,65,110,193,95,136,107,68,130,162,126,58,81,125,50,240,133,36,76,190,93],"ends_at":1700000000123}
    "#]]);
}

#[test]
fn an_invite_is_stored_as_ever() {
    let mut sheet = Sheet::default();
    let invite = Invite {
        id: InviteId::from_parts(AT, UNIQUE),
        workspace: "acme".parse().unwrap(),
        role: Role::Agent,
        email: Login::new("bob@acme.com").unwrap(),
        ends_at: AT,
        hash: TokenHash::of("golden"),
        by: Some(person().id),
    };
    sheet.text("key", &invite.put().key);
    sheet.json("record", &invite);
    sheet.text("a strict workspace", &totp_requirement(&invite.workspace, true).key);
    sheet.is(expect![[r#"
        key: invite/\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
        record: {"id":"inv_01hf7yat3v041061050r3gg28a","workspace":"acme","role":"agent","email":"bob@acme.com","ends_at":1700000000123,"hash":[221,86,222,65,55,149,29,156,146,104,27,3,65,110,193,95,136,107,68,130,162,126,58,81,125,50,240,133,36,76,190,93],"by":"usr_01hf7yat3v041061050r3gg28a"}
        a strict workspace: totp_required/acme
    "#]]);
}
