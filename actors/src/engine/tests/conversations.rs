//! Conversations: the order of what was written, and how many there are.

use crate::{ConversationFilter, ConversationStatus, MessageContent};
use postrider_channel::callback::Callback;
use postrider_domain::{NumberId, SenderNotes};

use super::support::messages::wrote;
use super::*;

async fn number(engine: &Engine) -> NumberId {
    engine.admin().numbers(&id("acme")).await.unwrap()[0].id
}

#[tokio::test(start_paused = true)]
async fn what_comes_within_a_second_is_shown_in_the_order_of_its_coming() {
    let engine = engine(&CrashingStore::new(), START).await;
    let acme = workspace(&engine, "acme", 10).await;
    let number = number(&engine).await;
    let receive = async |text: &str, at: Timestamp| {
        let mut inbound = wrote(phone(1), text, at).inbound;
        inbound[0].text = text.into();
        acme.receive(number, Callback { inbound, ..Callback::default() }).await.unwrap();
    };
    let first = async || {
        let mut page = acme.conversations(Default::default(), 0, 1).await.unwrap();
        page.conversations.remove(0).0
    };
    receive("question", START).await;
    let conversation = first().await.id;
    engine.pass(Duration::from_millis(300)).await;
    let content = MessageContent::Text("which?".parse().unwrap());
    acme.reply(conversation, content, None, SenderNotes::default(), None).await.unwrap();
    engine.pass(Duration::from_millis(300)).await;
    // The provider reports whole seconds.
    receive("this one", START).await;
    receive("please", START).await;
    receive("from a clock that is ahead", Timestamp::from_millis(99_999_999_999_000)).await;
    receive("late", Timestamp::from_millis(START.as_millis() - 5_000)).await;
    let now = first().await;
    assert_eq!(now.last_message, "from a clock that is ahead");
    assert_eq!(now.last_message_at, engine.clock().now());
    engine.pass(Duration::from_millis(400)).await;
    receive("thanks", engine.clock().now()).await;
    assert_eq!(first().await.last_message, "thanks");
    let seen = acme.conversation_messages(conversation, 0, 100).await.unwrap().messages;
    let texts: Vec<_> = seen.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "thanks",
            "from a clock that is ahead",
            "please",
            "this one",
            "which?",
            "question",
            "late",
        ]
    );
}

/// Each total is the number of rows, whatever is asked for.
async fn check_totals(acme: &Workspace) {
    for status in [None].into_iter().chain(ConversationStatus::ALL.map(Some)) {
        for assigned_to in
            [None, Some("ana".to_owned()), Some("bo".to_owned()), Some(String::new())]
        {
            let (unassigned, search) = (false, None);
            let filter = ConversationFilter { status, assigned_to, unassigned, search };
            let all = acme.conversations(filter.clone(), 0, 200).await.unwrap();
            assert_eq!(all.total, all.conversations.len(), "{filter:?}");
            let one = acme.conversations(filter.clone(), 1, 1).await.unwrap();
            assert_eq!(
                (one.total, one.conversations.len()),
                (all.total, usize::from(all.total > 1))
            );
        }
        let filter = ConversationFilter { status, unassigned: true, ..Default::default() };
        let all = acme.conversations(filter, 0, 200).await.unwrap();
        assert_eq!(all.total, all.conversations.len(), "{status:?}");
        assert!(all.conversations.iter().all(|(row, _)| row.assigned_to.is_none()));
    }
    let counts = acme.conversation_counts(Some("bo".to_owned())).await.unwrap();
    let all = acme.conversations(Default::default(), 0, 200).await.unwrap().conversations;
    let count = |fits: &dyn Fn(&crate::Conversation) -> bool| {
        all.iter().filter(|(row, _)| fits(row)).count()
    };
    let stands = |status| count(&|row| row.status == status);
    let undone = |row: &crate::Conversation| row.status != ConversationStatus::Resolved;
    let expected = crate::ConversationCounts {
        open: stands(ConversationStatus::Open),
        pending: stands(ConversationStatus::Pending),
        resolved: stands(ConversationStatus::Resolved),
        mine: count(&|row| undone(row) && row.assigned_to.as_deref() == Some("bo")),
        unassigned: count(&|row| undone(row) && row.assigned_to.is_none()),
        unread: count(&|row| row.unread > 0),
    };
    assert_eq!(counts, expected);
}

#[tokio::test(start_paused = true)]
async fn conversations_are_counted_as_they_are_listed() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    let acme = workspace(&engine, "acme", 100).await;
    let number = number(&engine).await;
    for round in 0..40_u32 {
        let of = phone(round * 7 % 13);
        acme.receive(number, wrote(of, &format!("in-{round}"), START)).await.unwrap();
        let all = acme.conversations(Default::default(), 0, 200).await.unwrap().conversations;
        let (conversation, contact) = &all[round as usize * 5 % all.len()];
        let agent =
            [None, Some("ana".to_owned()), Some("bo".to_owned())][round as usize % 3].clone();
        let change = crate::ConversationChange {
            status: (round % 4 > 0).then(|| ConversationStatus::ALL[round as usize % 3]),
            assigned_to: (round % 5 > 0).then_some(agent),
        };
        acme.update_conversation(conversation.id, change).await.unwrap();
        if round % 3 == 0 {
            let content = crate::MessageContent::Text("Yes.".parse().unwrap());
            acme.reply(conversation.id, content, None, SenderNotes::default(), None).await.unwrap();
        }
        if round % 7 == 6 {
            acme.delete_contact(contact.id).await.unwrap();
        }
        if round % 11 == 5 {
            // The contact may be deleted.
            drop(acme.mark_conversation_read(conversation.id).await);
        }
        check_totals(&acme).await;
    }
}
