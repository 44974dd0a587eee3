//! `postrider contacts import` with phones as people write them.

use crate::contacts::UNLIMITED;
use crate::contacts::import::{Desk, all, total};
use crate::support::TestServer;

#[tokio::test]
async fn phones_are_imported_as_people_write_them() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let desk = Desk::new(format!("http://{}", server.address()), &api);
    let phones =
        ["030 123456", "+1 (555) 012-3456", "0044 20 7946 0958", "'+15550123457", "4.9E+11"];
    let lines: String = (0..).zip(phones).map(|(n, phone)| format!("n{n},{phone}\n")).collect();
    desk.write("people.csv", format!("name,phone\n{lines}"));
    // Nothing is sent before it is checked, and nothing is guessed.
    let ran = desk.run(&["import", "people.csv", "--check"]).await;
    assert!(!ran.good);
    ran.says("line 2: phone: has no `+` and calling code: --country");
    ran.says("line 3: phone: +1 (555) 012-3456 is sent as +15550123456\n");
    ran.says("line 6: phone: was rounded by a spreadsheet");
    ran.says("3 contacts would be sent, 2 lines refused");
    assert!(!desk.file("people.csv.import").exists());
    assert_eq!(total(&api).await, 0);
    desk.run(&["import", "people.csv", "--country", "Germany"]).await.says("two letters");
    let ran = desk.run(&["import", "people.csv", "--country", "de"]).await;
    ran.says("line 2: phone: 030 123456 is sent as +4930123456\n");
    ran.says("4 contacts created, 1 lines refused");
    let made = all(&api).await;
    let made: Vec<_> = made.iter().map(|it| it["phone"].as_str().unwrap()).collect();
    assert_eq!(made, ["+4930123456", "+15550123456", "+442079460958", "+15550123457"]);
}
