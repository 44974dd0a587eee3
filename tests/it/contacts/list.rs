//! Listing and searching contacts.

use serde_json::{Value, json};

use crate::contacts::{CONTACTS, UNLIMITED, make, path};
use crate::support::{Api, TestServer};

fn names(listed: &Value) -> Vec<String> {
    let rows = listed["data"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the names that a search finds, newest first.
async fn search(api: &Api, text: &str) -> Vec<String> {
    let escaped: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let found = api.get(&format!("{CONTACTS}?search={escaped}")).await.ok();
    let names = names(&found);
    assert_eq!(found["total"], names.len(), "{text}");
    names
}

#[tokio::test]
async fn pages_are_newest_first_and_each_contact_is_on_one() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let mut made = Vec::new();
    for number in 0..130 {
        made.push(make(&api, json!({"name": format!("n{number}")})).await);
    }
    made.reverse();
    let first = api.get(CONTACTS).await.ok();
    assert_eq!((&first["total"], &first["page"]), (&json!(130), &json!(1)));
    assert_eq!(first["data"].as_array().unwrap(), &made[..50]);
    let mut all = Vec::new();
    for page in 1..=6 {
        let part = api.get(&format!("{CONTACTS}?page={page}&limit=25")).await.ok();
        assert_eq!((&part["total"], &part["page"]), (&json!(130), &json!(page)));
        all.extend(part["data"].as_array().unwrap().clone());
    }
    assert_eq!(all, made);
    let beyond = api.get(&format!("{CONTACTS}?page=4294967295&limit=200")).await.ok();
    assert_eq!((&beyond["data"], &beyond["total"]), (&json!([]), &json!(130)));
    for index in [0, 66, 129] {
        api.delete(&path(&made[index])).await.ok();
    }
    let left = api.get(&format!("{CONTACTS}?limit=200")).await.ok();
    assert_eq!(left["total"], 127);
    assert!(!names(&left).contains(&"n129".to_owned()));
    make(&api, json!({"name": "newest"})).await;
    assert_eq!(names(&api.get(&format!("{CONTACTS}?limit=1")).await.ok()), ["newest"]);
}

#[tokio::test]
async fn absurd_pages_and_limits_are_refused() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    for (name, bad) in [
        ("page", "0"),
        ("page", "-1"),
        ("page", "x"),
        ("page", "1.5"),
        ("page", "99999999999999999999"),
        ("page", ""),
        ("limit", "0"),
        ("limit", "201"),
        ("limit", "-1"),
        ("limit", "1e2"),
    ] {
        api.get(&format!("{CONTACTS}?{name}={bad}")).await.check_field(name);
    }
    api.get(&format!("{CONTACTS}?page=1&page=2")).await.check_field("page");
    let long = "x".repeat(201);
    api.get(&format!("{CONTACTS}?search={long}")).await.check_field("search");
    let empty = api.get(&format!("{CONTACTS}?limit=200&unknown=1")).await.ok();
    assert_eq!(empty, json!({"data": [], "total": 0, "page": 1}));
}

#[tokio::test]
async fn a_part_of_name_phone_or_email_is_found_in_any_case() {
    let server = TestServer::with(&UNLIMITED).await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    make(&other, json!({"name": "Ana elsewhere"})).await;
    make(&api, json!({"name": "Ana Souza", "phone": "+15550123456", "email": "ana@example.com"}))
        .await;
    make(&api, json!({"name": "Ömer ÇELİK", "phone": "+905551112233"})).await;
    make(&api, json!({"name": "Жанна", "email": "J.Anna@Example.COM"})).await;
    make(&api, json!({"name": "Großmann", "tags": ["secret"], "custom_fields": {"x": "hidden"}}))
        .await;
    make(&api, json!({"name": "王小明"})).await;
    make(&api, json!({"name": "ΟΔΥΣΣΕΥΣ"})).await;
    for (text, expected) in [
        ("ana", vec!["Ana Souza"]),
        ("ANA S", vec!["Ana Souza"]),
        ("a", vec!["Großmann", "Жанна", "Ana Souza"]),
        ("example.com", vec!["Жанна", "Ana Souza"]),
        ("+1555", vec!["Ana Souza"]),
        ("0123", vec!["Ana Souza"]),
        ("555", vec!["Ömer ÇELİK", "Ana Souza"]),
        ("öMER", vec!["Ömer ÇELİK"]),
        ("çelik", vec!["Ömer ÇELİK"]),
        ("ЖАН", vec!["Жанна"]),
        ("GROSSM", vec!["Großmann"]),
        ("小", vec!["王小明"]),
        ("οδυσσευς", vec!["ΟΔΥΣΣΕΥΣ"]),
        ("ΣΕ", vec!["ΟΔΥΣΣΕΥΣ"]),
        ("  Souza ", vec!["Ana Souza"]),
        ("secret", vec![]),
        ("hidden", vec![]),
        ("Souza+1555", vec![]),
        ("Souza\u{0}", vec![]),
        ("%", vec![]),
        ("_", vec![]),
        (".*", vec![]),
        ("\\", vec![]),
        ("' OR 1=1 --", vec![]),
        ("\u{202e}", vec![]),
        ("con_", vec![]),
    ] {
        assert_eq!(search(&api, text).await, expected, "{text}");
    }
    assert_eq!(search(&api, "  ").await.len(), 6, "nothing to look for");
    let no_text = api.get(&format!("{CONTACTS}?search=%FF%FE")).await.ok();
    assert_eq!(no_text["total"], 0);
}

#[tokio::test]
async fn a_search_follows_changes_and_restarts() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let ana = make(&api, json!({"name": "Ana", "phone": "+15550123456"})).await;
    let bo = make(&api, json!({"name": "Bo", "email": "bo@example.com"})).await;
    let change = json!({"name": "Renata", "phone": "+4915112345678"});
    api.send_json("PATCH", &path(&ana), &change).await.ok();
    for round in 0..2 {
        assert_eq!(search(&api, "ana").await, Vec::<String>::new(), "{round}");
        assert_eq!(search(&api, "5550").await, Vec::<String>::new());
        assert_eq!(search(&api, "nat").await, ["Renata"]);
        assert_eq!(search(&api, "4915").await, ["Renata"]);
        server.restart().await;
    }
    api.delete(&path(&bo)).await.ok();
    assert_eq!(search(&api, "bo").await, Vec::<String>::new());
}

#[tokio::test]
async fn found_ones_come_in_pages_too() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let contacts: Vec<_> = (0..300)
        .map(|number| json!({"name": format!("{} {number}", if number % 3 == 0 { "fizz" } else { "x" })}))
        .collect();
    api.post("/v1/contacts/batch", json!({ "contacts": contacts })).await.ok();
    let mut found = Vec::new();
    for page in 1..=4 {
        let part = api.get(&format!("{CONTACTS}?search=FIZZ&limit=30&page={page}")).await.ok();
        assert_eq!(part["total"], 100);
        found.extend(names(&part));
    }
    let expected: Vec<_> =
        (0..300).rev().filter(|n| n % 3 == 0).map(|n| format!("fizz {n}")).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_list_is_narrowed_and_sorted() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let mut ids = Vec::new();
    for (name, tags, fields) in [
        ("bo", json!(["a"]), json!({"plan": "gold", "n": 5})),
        ("Ana", json!(["a", "b"]), json!({"plan": "free", "n": "5"})),
        ("cy", json!(["c"]), json!({"vip": true})),
        ("ana", json!([]), json!({})),
    ] {
        let contact = json!({"name": name, "tags": tags, "custom_fields": fields});
        ids.push(make(&api, contact).await["id"].as_str().unwrap().to_owned());
    }
    // This contact is changed last.
    server.advance(1).await;
    let path = format!("{CONTACTS}/{}", ids[0]);
    api.send_json("PATCH", &path, &json!({"name": "bo"})).await.ok();
    let names = async |query: &str| {
        let page = api.get(&format!("{CONTACTS}?{query}")).await.ok();
        let rows = page["data"].as_array().unwrap().clone();
        let names: Vec<_> =
            rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
        (names.join(" "), page["total"].as_u64().unwrap())
    };
    for (query, expected, total) in [
        ("", "ana cy Ana bo", 4),
        ("tags_any=b,c", "cy Ana", 2),
        ("tags_all=a,b", "Ana", 1),
        ("tags_none=a", "ana cy", 2),
        ("tags_any=a&tags_none=b", "bo", 1),
        ("custom_fields.plan=gold", "bo", 1),
        ("custom_fields.n=5", "Ana bo", 2),
        ("custom_fields.vip=true", "cy", 1),
        ("custom_fields.plan=gold&custom_fields.n=6", "", 0),
        ("search=an&tags_any=a", "Ana", 1),
        ("sort=created_at", "bo Ana cy ana", 4),
        ("sort=created_at&limit=3&page=2", "ana", 4),
        ("sort=-created_at&limit=1", "ana", 4),
        ("sort=name", "Ana ana bo cy", 4),
        ("sort=-name", "cy bo ana Ana", 4),
        ("sort=name&limit=2&page=2", "bo cy", 4),
        ("sort=name&tags_any=a,c&limit=1&page=3", "cy", 3),
        ("sort=updated_at", "Ana cy ana bo", 4),
        ("sort=-updated_at&limit=1", "bo", 4),
    ] {
        assert_eq!(names(query).await, (expected.to_owned(), total), "{query}");
    }
    for (query, field) in [
        ("sort=phone", "sort"),
        ("sort=", "sort"),
        ("sort=name&sort=name", "sort"),
        ("custom_fields.=x", "custom_fields"),
    ] {
        api.get(&format!("{CONTACTS}?{query}")).await.check_field(field);
    }
    let deep = api.get(&format!("{CONTACTS}?sort=name&limit=200&page=501")).await;
    assert_eq!(deep.check(422, "UNPROCESSABLE")["reason"], "too_many_to_sort");
    assert_eq!(names("sort=created_at&page=4000000000").await, (String::new(), 4));
}
