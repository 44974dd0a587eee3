//! Phones that the channel writes in another form than the caller: both are one person's.

use serde_json::{Value, json};

use crate::channel::callbacks::{post, wrote};
use crate::channel::cloud_api::Rig;
use crate::channel::hidden_phones::{self, USER, received};
use crate::fake::callback;
use crate::support::{Api, TestServer, eventually};

/// Two forms of one phone, of each country that has them.
const FORMS: [[&str; 2]; 5] = [
    ["+5511987654321", "+551187654321"],
    ["+525512345678", "+5215512345678"],
    ["+5491158749895", "+541158749895"],
    ["+5492644472542", "+54264154472542"],
    ["+2250545123456", "+22545123456"],
];
/// Somebody who has not opted out.
const OTHER: &str = "+15550100001";

/// Each pair, and the other way round another person's.
fn both_ways() -> Vec<[String; 2]> {
    let reversed = |[one, other]: [&str; 2]| {
        // Another last digit is another person.
        [other, one].map(|phone| format!("{}0", &phone[..phone.len() - 1]))
    };
    FORMS.into_iter().flat_map(|pair| [pair.map(str::to_owned), reversed(pair)]).collect()
}

async fn api(rig: &Rig) -> Api {
    let scopes = ["contacts:read", "contacts:write", "messaging:send"];
    rig.server.key("acme", &scopes, json!({})).await.1
}

async fn sale(rig: &Rig, recipients: &[&str]) -> Value {
    let body = json!({"name": "Sale", "template_name": "sale", "recipients": recipients});
    let made = rig.api.post("/v1/messaging/broadcasts", body).await.ok();
    let path = format!("/v1/messaging/broadcasts/{}", made["broadcast_id"].as_str().unwrap());
    eventually("completed", async || {
        let found = rig.api.get(&path).await.ok();
        (found["status"] == "completed").then_some(found)
    })
    .await
}

async fn template(rig: &Rig) {
    let sale = json!({
        "name": "sale", "language": "en", "category": "marketing", "status": "approved",
        "components": [{"type": "BODY", "text": "Sale"}],
    });
    rig.server.admin().post("/admin/v1/workspaces/acme/templates", sale).await.ok();
}

#[tokio::test]
async fn who_stops_in_one_form_gets_no_marketing_in_the_other() {
    let rig = Rig::new().await;
    let api = api(&rig).await;
    template(&rig).await;
    let pairs = both_ways();
    for (at, [stored, channels]) in pairs.iter().enumerate() {
        api.post("/v1/contacts", json!({"name": stored, "phone": stored})).await.ok();
        let stop = wrote("106", &channels[1..], &format!("wamid.{at}"), "STOP");
        assert_eq!(post(&rig, &stop).await.status, 200, "{channels}");
    }
    // One contact and one conversation each, and the phone is shown as it is stored.
    let conversations = api.get("/v1/conversations").await.ok();
    assert_eq!(conversations["total"], pairs.len());
    assert_eq!(api.get("/v1/contacts").await.ok()["total"], pairs.len());
    let rows = api.get("/v1/suppressions").await.ok();
    let opted_out = rig.api.get("/v1/events?type=contact.opted_out").await.ok();
    let texts = received(&rig).await;
    assert_eq!((rows["total"].as_u64(), texts.len()), (Some(10), 10));
    for ([stored, _], text) in pairs.iter().zip(&texts) {
        assert_eq!(text["from"], *stored);
        let path = format!("/v1/contacts/{}", text["contact_id"].as_str().unwrap());
        assert_eq!(api.get(&path).await.ok()["phone"], *stored);
        let has = |list: &Value, of: &dyn Fn(&Value) -> Value| {
            list["data"].as_array().unwrap().iter().any(|row| of(row) == **stored)
        };
        assert!(has(&rows, &|row| row["phone"].clone()), "{stored}: {rows}");
        assert!(has(&opted_out, &|row| row["data"]["phone"].clone()), "{stored}: {opted_out}");
    }
    // To both forms of all, and to one who wants it.
    let mut all: Vec<&str> = pairs.iter().flatten().map(String::as_str).collect();
    all.push(OTHER);
    let done = sale(&rig, &all).await;
    assert_eq!(done["total_recipients"], 11, "{done}");
    assert_eq!(done["counts"]["sent"], 1, "{done}");
    assert_eq!((rig.fake.accepted().len(), rig.fake.accepted_to(&OTHER[1..])), (1, 1));
    let single = json!({
        "to": "", "type": "template", "template": {"name": "sale", "language": "en"},
    });
    for phone in pairs.iter().flatten() {
        let mut single = single.clone();
        single["to"] = json!(phone);
        rig.api.post("/v1/messaging/send", &single).await.check(422, "UNPROCESSABLE");
    }
    // Either form takes an opt-out back; what is sent has the form of the caller.
    for [stored, channels] in &pairs {
        let row = api.get(&format!("/v1/suppressions?phone=%2B{}", &channels[1..])).await.ok();
        assert_eq!(row["data"][0]["phone"], *stored);
        assert_eq!(api.delete(&format!("/v1/suppressions/{channels}")).await.status, 204);
        assert_eq!(api.delete(&format!("/v1/suppressions/{stored}")).await.status, 404);
    }
    let stored: Vec<&str> = pairs.iter().map(|[stored, _]| stored.as_str()).collect();
    assert_eq!(sale(&rig, &stored).await["counts"]["sent"], 10);
    for phone in stored {
        assert_eq!(rig.fake.accepted_to(&phone[1..]), 1, "{phone}");
    }
}

#[tokio::test]
async fn a_window_that_one_form_opens_is_open_for_the_other() {
    let rig = Rig::new().await;
    for (at, [stored, channels]) in both_ways().iter().enumerate() {
        let text = json!({"to": stored, "type": "text", "text": "Hello"});
        rig.api.post("/v1/messaging/send", &text).await.check(422, "UNPROCESSABLE");
        let hello = wrote("106", &channels[1..], &format!("wamid.{at}"), "Hi");
        assert_eq!(post(&rig, &hello).await.status, 200, "{channels}");
        rig.api.post("/v1/messaging/send", &text).await.ok();
        let listed =
            rig.api.get(&format!("/v1/messaging/messages?to=%2B{}", &channels[1..])).await.ok();
        assert_eq!(listed["data"][0]["to"], **stored, "{listed}");
    }
}

#[tokio::test]
async fn an_id_that_comes_with_the_other_form_leaves_the_phone_as_it_is() {
    let rig = Rig::new().await;
    let api = api(&rig).await;
    let [stored, channels] = FORMS[0];
    let made = api.post("/v1/contacts", json!({"name": "Ana", "phone": stored})).await.ok();
    let at = hidden_phones::seconds(&rig).await;
    let names = json!({"from": &channels[1..], "from_user_id": USER});
    assert_eq!(post(&rig, &hidden_phones::wrote(&names, "wamid.a", "Hi", at)).await.status, 200);
    let mut choice = callback(
        "106",
        json!({"user_preferences": [{
            "wa_id": &channels[1..], "user_id": USER, "category": "marketing_messages",
            "value": "stop", "detail": "User requested it", "timestamp": at,
        }]}),
    );
    choice["entry"][0]["changes"][0]["field"] = "user_preferences".into();
    assert_eq!(post(&rig, &choice).await.status, 200);
    let listed = api.get("/v1/contacts").await.ok();
    let contact = &listed["data"][0];
    assert_eq!((&listed["total"], &contact["id"]), (&json!(1), &made["id"]));
    assert_eq!((&contact["phone"], &contact["user_id"]), (&json!(stored), &json!(USER)));
    let rows = api.get("/v1/suppressions").await.ok();
    let phones: Vec<_> = rows["data"].as_array().unwrap().iter().map(|row| &row["phone"]).collect();
    assert_eq!(phones, [&json!(stored), &Value::Null]);
}

#[tokio::test]
async fn a_contact_has_its_phone_in_every_form() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    for [one, other] in both_ways() {
        let made = api.post("/v1/contacts", json!({"name": "Ana", "phone": one})).await.ok();
        let about = api.get(&format!("/v1/events?about=%2B{}", &other[1..])).await.ok();
        assert_eq!(about["data"][0]["data"]["phone"], *one, "{other}");
        let again = json!({"name": "Bia", "phone": other});
        api.post("/v1/contacts", &again).await.check(409, "CONFLICT");
        let rows = json!({"contacts": [again], "on_conflict": "update"});
        let rows = api.post("/v1/contacts/batch", rows).await.ok();
        assert_eq!(rows["data"][0]["status"], 200, "{rows}");
        let path = format!("/v1/contacts/{}", made["id"].as_str().unwrap());
        let contact = api.get(&path).await.ok();
        assert_eq!((&contact["name"], &contact["phone"]), (&json!("Bia"), &json!(other)));
        // It may be written otherwise, and is found by both.
        let change = json!({"name": "Bia", "phone": one});
        assert_eq!(api.send_json("PATCH", &path, &change).await.ok()["phone"], *one);
        for form in [&one, &other] {
            let found = api.get(&format!("/v1/contacts?search={}", &form[1..])).await.ok();
            assert_eq!(found["total"], 1, "{form}");
            assert_eq!(found["data"][0]["phone"], *one);
        }
    }
    // A fixed line is nobody's mobile.
    for phone in ["+551133334444", "+5511933334444"] {
        api.post("/v1/contacts", json!({"name": "Caio", "phone": phone})).await.ok();
    }
}

#[tokio::test]
async fn codes_know_a_phone_in_every_form() {
    let server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    let send = async |body: Value| api.post("/v1/otp/send", body).await;
    for [one, other] in both_ways() {
        let asked = send(json!({"phone": one, "mode": "inbound"})).await.ok();
        let said = json!({"from": other, "text": asked["code"]});
        api.post("/v1/sandbox/inbound", said).await.ok();
        let path = format!("/v1/otp/{}", asked["request_id"].as_str().unwrap());
        let row = api.get(&path).await.ok();
        assert_eq!((&row["status"], &row["phone"]), (&json!("verified"), &json!(one)));
        // With that one, the limit of five is reached.
        for phone in [&other, &one, &other, &one] {
            send(json!({"phone": phone})).await.ok();
        }
        send(json!({"phone": other})).await.check(429, "OTP_RATE_LIMITED");
        let listed = api.get(&format!("/v1/otp?phone=%2B{}", &other[1..])).await.ok();
        assert_eq!(listed["data"].as_array().unwrap().len(), 5, "{other}");
    }
    let [one, other] = FORMS[0];
    let path = "/admin/v1/workspaces/acme/test-phones";
    let twice = json!({"phones": {one: "123456", other: "123457"}});
    admin.put(path, twice).await.check(400, "VALIDATION_ERROR");
    admin.put(path, json!({"phones": {one: "123456"}})).await.ok();
    let sent = send(json!({"phone": other})).await.ok();
    let verify = json!({"request_id": sent["request_id"], "otp": "123456"});
    assert_eq!(api.post("/v1/otp/verify", verify).await.ok()["verified"], true);
}
