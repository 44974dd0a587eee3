//! Opt-outs of people who are known by a phone and by the channel's id.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::channel::hidden_phones::{PHONE, USER, phoneless, reader, seconds, wrote};
use crate::channel::merged_contacts::both;
use crate::fake::{Scripted, callback};
use crate::support::eventually;

/// Returns the callback of a word, or of a choice in the app, by one of the two names.
fn says(by_phone: bool, word: &str, at: u64) -> Value {
    if word != "stop in the app" {
        let names = if by_phone { json!({"from": &PHONE[1..]}) } else { phoneless()[0].clone() };
        return wrote(&names, &format!("wamid.{at}"), word, at);
    }
    let mut choice = json!({
        "category": "marketing_messages", "value": "stop", "timestamp": at,
    });
    let (name, value) = if by_phone { ("wa_id", &PHONE[1..]) } else { ("user_id", USER) };
    choice[name] = value.into();
    let mut notice = callback("106", json!({"user_preferences": [choice]}));
    notice["entry"][0]["changes"][0]["field"] = "user_preferences".into();
    notice
}

#[tokio::test]
async fn the_last_decision_by_either_name_counts_once_both_are_known() {
    let (stop, start, in_app) = ("STOP", "START", "stop in the app");
    // The words by one of the names, or by the other (true), each with its second. Then the number
    // of names that have opted out once both are known.
    for (said, out) in [
        (&[(false, stop, 1), (true, start, 5), (false, stop, 9)][..], 2),
        (&[(false, stop, 1), (true, start, 5)], 1),
        (&[(true, start, 1), (false, stop, 5)], 2),
        (&[(false, in_app, 1), (true, start, 5), (false, in_app, 9)], 2),
        (&[(false, stop, 1), (true, start, 5), (false, in_app, 9)], 2),
        (&[(false, in_app, 1), (true, start, 5)], 1),
    ] {
        for swapped in [false, true] {
            let rig = Rig::new().await;
            let api = reader(&rig).await;
            let begin = seconds(&rig).await - 20;
            for (other, word, second) in said {
                let notice = says(*other != swapped, word, begin + second);
                assert_eq!(post(&rig, &notice).await.status, 200);
            }
            let hello = wrote(&both(), "wamid.both", "Hi", begin + 19);
            assert_eq!(post(&rig, &hello).await.status, 200);
            let total = api.get("/v1/suppressions").await.ok()["total"].clone();
            assert_eq!(total, out, "{said:?} {swapped}");
        }
    }
}

#[tokio::test]
async fn a_refusal_of_marketing_to_the_id_holds_for_the_phone() {
    let rig = Rig::new().await;
    let api = reader(&rig).await;
    let at = seconds(&rig).await;
    assert_eq!(post(&rig, &wrote(&both(), "wamid.a", "Hi", at)).await.status, 200);
    let sale = json!({
        "name": "sale", "language": "en", "category": "marketing", "status": "approved",
        "components": [{"type": "BODY", "text": "Sale"}],
    });
    rig.server.admin().post("/admin/v1/workspaces/acme/templates", sale).await.ok();
    rig.fake.script(None, Scripted::Error { status: 400, code: 131_050 }, None);
    let sale = json!({
        "recipient": USER, "type": "template", "template": {"name": "sale", "language": "en"},
    });
    rig.api.post("/v1/messaging/send", &sale).await.ok();
    let listed = eventually("the suppression", async || {
        let listed = api.get("/v1/suppressions").await.ok();
        (listed["total"] != 0).then_some(listed)
    })
    .await;
    let rows = listed["data"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| (&row["phone"], &row["user_id"])).collect();
    let nothing = &Value::Null;
    assert_eq!(names, [(&json!(PHONE), nothing), (nothing, &json!(USER))]);
}
