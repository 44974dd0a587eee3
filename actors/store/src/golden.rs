//! Golden bytes of journal frames and of the event log's chunks, and the tables' names.

use expect_test::expect;

use super::view::log_chunk::Head;
use super::*;
use postrider_domain::golden::Sheet;

fn workspace() -> postrider_domain::WorkspaceId {
    "acme".parse().unwrap()
}

#[test]
fn a_frame_is_written_and_read_as_ever() {
    let section = |workspace: &str, events: &[u8]| Section {
        workspace: workspace.parse().unwrap(),
        events: events.to_vec(),
    };
    let sections = vec![section("acme", b"one two"), section("b-2", b"")];
    let frame = Frame { epoch: 3, number: Position(0x0102_0304), sections };
    let empty = Frame { epoch: u64::MAX, number: Position(1), sections: Vec::new() };
    let mut sheet = Sheet::default();
    for (name, frame) in [("frame", frame), ("empty", empty)] {
        let mut bytes = Vec::new();
        frame.encode_into(&mut bytes);
        assert_eq!(Frame::decode(&bytes), Ok(frame));
        sheet.bytes(name, &bytes);
    }
    sheet.is(expect![[r#"
        frame:
            00000000000000030000000001020304aa1c1bf40461636d65000000076f6e652074776f03622d32
            00000000
        empty: ffffffffffffffff00000000000000010cd2f6f9
    "#]]);
}

#[test]
fn a_chunk_of_the_event_log_is_written_and_read_as_ever() {
    let mut sheet = Sheet::default();
    sheet.text("prefix", &event_log_prefix(&workspace()));
    sheet.text("key", &event_log_key(&workspace(), 0x0102_0304_0506));
    let head = Head { count: 3, before: 0x0a0b_0c0d };
    let bytes = [&head.encode()[..], b"entries"].concat();
    assert_eq!(Head::decode(&bytes), Some((head, &b"entries"[..])));
    sheet.bytes("head", &head.encode());
    sheet.is(expect![[r#"
        prefix: acme\x00
        key: acme\x00\x00\x00\x01\x02\x03\x04\x05\x06
        head: 00000003000000000a0b0c0d
    "#]]);
}

#[test]
fn tables_keep_their_names() {
    let names: Vec<_> = Table::ALL.iter().map(|table| table.name()).collect();
    expect![[r#"
        meta
        workspaces
        keys
        buckets
        events
        idempotency
        contacts
        contact_index
        segments
        conversations
        webhooks
        messages
        windows
        aliases
        received
        templates
        broadcasts
        broadcast_audience
        broadcast_phones
        broadcast_outcomes
        broadcast_reports
        broadcast_names
        suppressions
        analytics
        mails
        mail_queue
        audit
        otps
        message_index
        media
        otp_index
        portfolios
        event_index"#]]
    .assert_eq(&names.join("\n"));
}
