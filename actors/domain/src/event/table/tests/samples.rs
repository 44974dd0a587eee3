//! Pure: one payload of each event type, and of each way to emit it.

use serde_json::json;

use crate::event::OtpFailure;
use crate::event::message::{
    MessageContextData, MessageErrorData, MessageTemplateData, ReceivedMediaData, ReferralData,
};
use crate::event::otp::{OtpDecision, OtpNotes};
use crate::event::payload::CompletedCounts;
use crate::event::table::*;
use crate::golden::{AT, UNIQUE};
use crate::template::{TemplateCategory, TemplateQuality, TemplateStatus};
use crate::{
    BroadcastId, ContactId, ContactName, ConversationId, Email, MediaId, MessageId, NumberId,
    OptOutSource, Phone, RequestId, SenderNotes, Tags, WebhookId,
};

fn phone() -> Phone {
    "+15550123456".parse().unwrap()
}

fn try_started() -> OtpTryStartedData {
    OtpTryStartedData {
        request_id: RequestId::from_parts(AT, UNIQUE),
        phone: phone(),
        step: 2,
        channel: "sms",
        test: None,
        reference: None,
        metadata: None,
        number_id: None,
    }
}

fn try_ended() -> OtpTryEndedData {
    OtpTryEndedData {
        request_id: RequestId::from_parts(AT, UNIQUE),
        phone: phone(),
        step: 2,
        channel: "sms",
        status: "failed",
        error_code: Some(30007),
        next: Some("email"),
        test: None,
        reference: None,
        metadata: None,
        number_id: None,
    }
}

fn broadcast() -> BroadcastData {
    BroadcastData {
        broadcast_id: BroadcastId::from_parts(AT, UNIQUE),
        name: "Spring \"é\"".into(),
        status: "paused",
        total_recipients: 7,
        reason: Some("the template is paused".into()),
        reference: None,
        metadata: None,
    }
}

fn completed() -> BroadcastCompletedData {
    let BroadcastData { broadcast_id, name, total_recipients, reason, .. } = broadcast();
    let counts = CompletedCounts { held: 3, sent: 4, failed: 1, unknown: 0, suppressed: 2 };
    let status = "completed";
    BroadcastCompletedData {
        broadcast_id,
        name,
        status,
        total_recipients,
        reason,
        counts,
        reference: None,
        metadata: None,
    }
}

fn contact() -> ContactData {
    ContactData {
        contact_id: ContactId::from_parts(AT, UNIQUE),
        name: ContactName::new("Ánn").unwrap(),
        phone: Some(phone()),
        user_id: None,
        username: None,
        previous_phone: None,
        previous_user_id: None,
        email: Some(Email::new("ann@example.com").unwrap()),
        tags: Tags::new(["vip", "é"].iter()).unwrap(),
        custom_fields: json!({"plan": "gold", "age": 41, "sum": 100.0}),
        created_at: AT,
        updated_at: AT,
    }
}

fn conversation() -> ConversationData {
    ConversationData {
        conversation_id: ConversationId::from_parts(AT, UNIQUE),
        contact_id: ContactId::from_parts(AT, UNIQUE),
        phone: Some(phone()),
        status: "open",
        channel: "messaging",
        assigned_to: Some("ann".to_owned()),
        last_message: "Hi".to_owned(),
        last_message_at: AT,
        created_at: AT,
    }
}

fn message(status: &'static str) -> MessageData {
    let error = ("channel_refused".into(), Some(131_026), "no such phone".into());
    let (reason, code, details) = error;
    MessageData {
        message_id: MessageId::from_parts(AT, UNIQUE),
        broadcast_id: None,
        to: Some(phone().to_string()),
        recipient: None,
        r#type: Some("template"),
        status,
        template: Some(MessageTemplateData { name: "offer".into(), language: "en".into() }),
        error: Some(MessageErrorData { reason, code, details }),
        number_id: Some(NumberId::from_parts(AT, UNIQUE)),
        reference: None,
        metadata: None,
    }
}

fn broadcast_message(to: Option<String>) -> MessageData {
    let broadcast_id = Some(BroadcastId::from_parts(AT, UNIQUE));
    let (error, number_id) = (None, None);
    MessageData {
        broadcast_id,
        to,
        r#type: None,
        template: None,
        error,
        number_id,
        ..message("read")
    }
}

fn mail() -> MessageData {
    let (to, r#type) = (Some("ann@example.com".to_owned()), Some(MessageData::EMAIL));
    MessageData { to, r#type, template: None, number_id: None, ..message("failed") }
}

fn changed_contact() -> ContactData {
    ContactData {
        previous_phone: Some(phone()),
        user_id: "US.2".parse().ok(),
        previous_user_id: "US.1".parse().ok(),
        username: Some("ann".into()),
        ..contact()
    }
}

fn channel_error() -> ChannelErrorData {
    ChannelErrorData {
        number_id: NumberId::from_parts(AT, UNIQUE),
        error_code: Some(131_031),
        title: Some("Account locked".into()),
        details: "locked".into(),
    }
}

fn channel_ignored() -> ChannelIgnoredData {
    let number_id = NumberId::from_parts(AT, UNIQUE);
    ChannelIgnoredData { number_id, field: "messages", reason: "no_sender", count: 3 }
}

fn merged() -> ContactMergedData {
    ContactMergedData {
        contact_id: ContactId::from_parts(AT, UNIQUE),
        merged_contact_id: ContactId::from_parts(AT, UNIQUE + 1),
    }
}

fn template_status() -> EventData {
    EventData::TemplateStatusChanged(TemplateStatusData {
        name: "offer".into(),
        language: "en_US".into(),
        category: TemplateCategory::Utility,
        status: TemplateStatus::InAppeal,
        previous_status: TemplateStatus::Approved,
        account_id: Some("107".into()),
    })
}

fn template_category() -> EventData {
    EventData::TemplateCategoryChanged(TemplateCategoryData {
        name: "offer".into(),
        language: "en_US".into(),
        previous: TemplateCategory::Utility,
        category: TemplateCategory::Marketing,
        account_id: Some("107".into()),
    })
}

fn template_quality() -> EventData {
    EventData::TemplateQualityChanged(TemplateQualityData {
        name: "offer".into(),
        language: "en_US".into(),
        previous: TemplateQuality::Unknown,
        quality: TemplateQuality::Red,
        account_id: Some("107".into()),
    })
}

fn received() -> MessageReceivedData {
    let referral = ReferralData {
        source_type: "ad".into(),
        source_id: "42".into(),
        headline: Some("Spring".into()),
        body: None,
        source_url: None,
        ctwa_clid: None,
    };
    MessageReceivedData {
        message_id: MessageId::from_parts(AT, UNIQUE),
        conversation_id: ConversationId::from_parts(AT, UNIQUE),
        contact_id: ContactId::from_parts(AT, UNIQUE),
        number_id: Some(NumberId::from_parts(AT, UNIQUE)),
        channel: None,
        from: Some(phone().to_string()),
        user_id: None,
        username: None,
        subject: None,
        name: Some("Ann".into()),
        r#type: "text".into(),
        text: "Hi".into(),
        at: AT,
        referral: Some(referral),
        media: None,
        content: None,
        content_truncated: false,
        context: None,
    }
}

fn received_file() -> MessageReceivedData {
    let media = ReceivedMediaData {
        media_id: MediaId::from_parts(AT, UNIQUE),
        mime_type: "image/png".to_owned(),
        filename: Some("é.png".to_owned()),
        state: "pending",
    };
    MessageReceivedData { media: Some(media), r#type: "image".into(), ..received() }
}

fn received_place() -> MessageReceivedData {
    let referral = ReferralData {
        source_type: "ad".into(),
        source_id: "42".into(),
        headline: None,
        body: Some("é".into()),
        source_url: Some("https://ad.example.com".into()),
        ctwa_clid: Some("c1".into()),
    };
    let message_id = Some(MessageId::from_parts(AT, UNIQUE));
    MessageReceivedData {
        r#type: "location".into(),
        referral: Some(referral),
        content: Some(json!({"latitude": 1.5, "longitude": -2, "name": "é"})),
        content_truncated: true,
        context: Some(MessageContextData { message_id, forwarded: true }),
        ..received()
    }
}

fn media(error: Option<Box<str>>) -> MediaData {
    let is_there = error.is_none();
    MediaData {
        media_id: MediaId::from_parts(AT, UNIQUE),
        message_id: Some(MessageId::from_parts(AT, UNIQUE)),
        mime_type: "image/png".to_owned(),
        filename: Some("é.png".to_owned()),
        size: is_there.then_some(3),
        sha256: is_there.then(|| "ba78".to_owned()),
        error,
    }
}

/// The newest event types, in the order of their rows.
fn newest() -> Vec<EventData> {
    vec![
        template_category(),
        template_quality(),
        EventData::MediaReady(media(None)),
        EventData::MediaFailed(media(Some("refused".into()))),
        EventData::MessageHeld(message("held")),
        EventData::NumberChanged(NumberChangedData {
            number_id: NumberId::from_parts(AT, UNIQUE),
            field: "pace",
            previous: Some("80".into()),
            value: "1000".into(),
        }),
        EventData::NumberLimitReached(LimitReachedData {
            portfolio_id: "107".into(),
            daily_recipients: Some(250),
            frees_at: Some(AT),
        }),
        EventData::NumberLimitFreed(LimitFreedData {
            portfolio_id: "107".into(),
            daily_recipients: None,
        }),
        EventData::OtpDecided(OtpDecidedData {
            request_id: Some(RequestId::from_parts(AT, UNIQUE)),
            phone: phone(),
            prefix: "1555".into(),
            rule: "prefix",
            sent: 50,
            verified: 4,
            decision: OtpDecision::Probe.as_str(),
        }),
    ]
}

/// Returns one payload of each type, with every field that it may have when emitted in its usual
/// way.
pub(super) fn payloads() -> Vec<EventData> {
    use EventData as Data;
    let (request_id, webhook_id) =
        (RequestId::from_parts(AT, UNIQUE), WebhookId::from_parts(AT, UNIQUE));
    let (number_id, contact_id) =
        (NumberId::from_parts(AT, UNIQUE), Some(ContactId::from_parts(AT, UNIQUE)));
    let (calling_code, source) = ("971".to_owned(), OptOutSource::Api);
    let (phone, reason) = (Some(phone()), Some("asked to".to_owned()));
    let (user_id, its_phone) = (None, self::phone());
    vec![
        Data::OtpDelivered(OtpData::of(request_id, its_phone)),
        Data::BroadcastCreated(broadcast()),
        Data::BroadcastStarted(broadcast()),
        Data::BroadcastPaused(broadcast()),
        Data::BroadcastResumed(broadcast()),
        Data::BroadcastCompleted(completed()),
        Data::BroadcastCancelled(broadcast()),
        Data::BroadcastFailed(broadcast()),
        Data::OtpPumpingSuspected(OtpPumpingData {
            calling_code,
            unverified: 30,
            hour: AT,
            refused: true,
        }),
        Data::ContactCreated(contact()),
        Data::ContactUpdated(changed_contact()),
        Data::ContactDeleted(contact()),
        Data::ConversationOpened(conversation()),
        Data::ConversationUpdated(conversation()),
        Data::WebhookDisabled(WebhookDisabledData { webhook_id, reason: "gone" }),
        Data::WebhookTest(WebhookData { webhook_id }),
        Data::MessageQueued(message("queued")),
        Data::MessageSent(message("sent")),
        Data::MessageDelivered(message("delivered")),
        Data::MessageRead(message("read")),
        Data::MessageFailed(message("failed")),
        Data::MessageReceived(received()),
        template_status(),
        Data::NumberStopped(NumberStoppedData {
            number_id,
            error_code: Some(131_031),
            reason: "locked".into(),
        }),
        Data::NumberRecovered(NumberData { number_id }),
        Data::ContactOptedOut(OptedOutData { user_id: None, phone, contact_id, reason, source }),
        Data::ContactOptedIn(OptedInData { phone, user_id, contact_id }),
        Data::ChannelError(channel_error()),
        Data::ContactMerged(merged()),
        Data::ChannelIgnored(channel_ignored()),
        Data::OtpCancelled(OtpData::of(request_id, its_phone)),
        Data::OtpTryStarted(try_started()),
        Data::OtpTryEnded(try_ended()),
    ]
    .into_iter()
    .chain(newest())
    .collect()
}

fn notes() -> SenderNotes {
    let metadata = [("é".to_owned(), "1".to_owned())].into();
    SenderNotes { reference: Some("order-7".to_owned()), metadata }
}

/// Returns payloads of other ways to emit them, and payloads without optional fields.
pub(super) fn other_payloads() -> Vec<EventData> {
    use EventData as Data;
    let to = phone().to_string();
    let (phone, contact_id, reason, source) = (None, None, None, OptOutSource::Channel);
    let (number_id, from) = (None, Some("ann@example.com".to_owned()));
    let user_id: Option<crate::UserId> = "US.13491208".parse().ok();
    let (channel, subject) = (Some("email"), Some("Order".to_owned()));
    let text =
        || MessageData { r#type: Some("text"), template: None, error: None, ..message("queued") };
    let (reference, metadata) = notes().shown();
    vec![
        Data::MessageQueued(text()),
        Data::MessageQueued(MessageData {
            reference: reference.clone(),
            metadata: metadata.clone(),
            ..text()
        }),
        Data::MessageQueued(MessageData { to: None, recipient: user_id.clone(), ..text() }),
        Data::MessageRead(broadcast_message(Some(to))),
        Data::MessageRead(broadcast_message(None)),
        Data::MessageFailed(mail()),
        Data::MessageReceived(MessageReceivedData {
            number_id,
            channel,
            from,
            subject,
            r#type: "email".into(),
            referral: None,
            ..received()
        }),
        Data::BroadcastStarted(BroadcastData { reason: None, ..broadcast() }),
        Data::BroadcastStarted(BroadcastData {
            reference: reference.clone(),
            metadata: metadata.clone(),
            ..broadcast()
        }),
        Data::BroadcastCompleted(BroadcastCompletedData { reference, metadata, ..completed() }),
        Data::ContactCreated(ContactData { phone: None, email: None, ..contact() }),
        Data::ConversationOpened(ConversationData {
            phone: None,
            assigned_to: None,
            ..conversation()
        }),
        Data::NumberStopped(NumberStoppedData {
            number_id: NumberId::from_parts(AT, UNIQUE),
            error_code: None,
            reason: "".into(),
        }),
        Data::MessageReceived(MessageReceivedData {
            from: None,
            user_id: user_id.clone(),
            username: Some("ann".into()),
            ..received()
        }),
        Data::ContactOptedIn(OptedInData { phone, user_id: user_id.clone(), contact_id }),
        Data::ContactOptedOut(OptedOutData { phone, user_id, contact_id, reason, source }),
        Data::MessageReceived(received_file()),
        Data::MessageReceived(received_place()),
    ]
}

/// Returns one event of each type that is stored with its fields.
pub(super) fn variants() -> Vec<PublicEvent> {
    let (request_id, phone) = (RequestId::from_parts(AT, UNIQUE), phone());
    let reason = OtpFailure::Channel { error_code: Some(131_026) };
    vec![
        PublicEvent::OtpSent { request_id, phone, expires_at: AT, resend: true },
        PublicEvent::OtpVerified { request_id, phone },
        PublicEvent::OtpExpired { request_id, phone },
        PublicEvent::OtpFailed { request_id, phone, reason },
    ]
}

/// Returns events with notes.
pub(super) fn noted() -> Vec<PublicEvent> {
    let notes = OtpNotes {
        test: true,
        reference: Some("order 7".into()),
        metadata: [("flow".to_owned(), "sign-in".to_owned())].into(),
        number_id: Some(NumberId::from_parts(AT, UNIQUE)),
        contact_id: None,
        own: None,
    };
    let contact_id = Some(ContactId::from_parts(AT, UNIQUE));
    let sender = OtpNotes { contact_id, ..OtpNotes::default() }.to_json().unwrap();
    let (request_id, phone) = (RequestId::from_parts(AT, UNIQUE), phone());
    let verified = Box::new(PublicEvent::OtpVerified { request_id, phone });
    let sent_by_its_person = PublicEvent::Noted { event: verified, notes: sender };
    let notes = notes.to_json().unwrap();
    let note = |event| PublicEvent::Noted { event: Box::new(event), notes: notes.clone() };
    let delivered = OtpData { channel: Some("sms"), ..OtpData::of(request_id, phone) };
    let others = [
        EventData::OtpDelivered(delivered),
        EventData::OtpTryStarted(try_started()),
        EventData::OtpTryEnded(try_ended()),
    ];
    let noted = variants().into_iter().chain(others.map(PublicEvent::from)).map(note);
    noted.chain([sent_by_its_person]).collect()
}

pub(super) fn events() -> Vec<PublicEvent> {
    variants().into_iter().chain(payloads().into_iter().map(PublicEvent::from)).collect()
}
