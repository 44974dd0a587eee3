//! Broadcasts to many phones, and waits for their statuses.

use serde_json::json;

use postrider_actors::{
    Audience, Broadcast, BroadcastPolicy, BroadcastStatus, Engine, NewBroadcast, NewTemplate,
    Variables, Workspace,
};
use postrider_domain::template::{TemplateCategory, TemplateStatus};
use postrider_domain::{BroadcastId, SenderNotes};

use super::{phone, until, workspace};

pub(crate) const CREDITS: u64 = 100_000;

pub(crate) async fn with_template(engine: &Engine) -> Workspace {
    let acme = workspace(engine, "acme", CREDITS).await;
    for (name, text) in [("sale", "Sale"), ("hello", "Hello {{1}}")] {
        let template = NewTemplate {
            name: name.into(),
            language: "en".into(),
            category: TemplateCategory::Marketing,
            status: TemplateStatus::Approved,
            components: vec![json!({"type": "BODY", "text": text})],
        };
        acme.create_template(template).await.unwrap();
    }
    acme
}

pub(crate) fn broadcast_to(recipients: u32) -> NewBroadcast {
    let mut audience = Audience::new();
    (0..recipients).for_each(|number| audience.add(phone(number), Variables::default()));
    NewBroadcast {
        name: "Sale".into(),
        template: "sale".into(),
        language: "en".into(),
        components: Vec::new(),
        audience,
        schedule_at: None,
        policy: BroadcastPolicy::AtMostOnce,
        notes: SenderNotes::default(),
        from: Vec::new(),
    }
}

pub(crate) async fn create(acme: &Workspace, new: NewBroadcast) -> BroadcastId {
    acme.create_broadcast(new, None).await.unwrap().answer.broadcast_id
}

/// Waits until a broadcast has this status and has recorded everything.
pub(crate) async fn becomes(
    acme: &Workspace,
    id: BroadcastId,
    status: BroadcastStatus,
) -> Broadcast {
    until(status.as_str(), async || {
        acme.broadcast(id).await.is_ok_and(|found| found.status == status)
    })
    .await;
    acme.broadcast(id).await.unwrap()
}
