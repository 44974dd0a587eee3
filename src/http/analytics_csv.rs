//! The results of broadcasts, advertisements and codes as CSV.

use postrider_actors::domain::Day;
use postrider_actors::{AdDay, CampaignCounts, CampaignRow, OtpCounts, OtpDays};

use super::pipeline::Reply;
use super::streamed::csv;

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn day(day: Option<Day>) -> String {
    day.map(|day| day.to_string()).unwrap_or_default()
}

pub(super) fn campaigns(rows: Vec<CampaignRow>) -> Reply {
    let names = ["date", "broadcast_id", "name", "sent", "delivered", "read", "failed", "replied"];
    let lines = rows.into_iter().map(|row| {
        let CampaignCounts { sent, delivered, read, failed, replied } = row.counts;
        let (id, name) = row.broadcast.unzip();
        let mut cells = vec![
            day(row.day),
            id.map(|id| id.to_string()).unwrap_or_default(),
            name.map(String::from).unwrap_or_default(),
        ];
        cells.extend([sent, delivered, read, failed, replied].map(|count| count.to_string()));
        cells
    });
    csv([head(&names)].into_iter().chain(lines))
}

pub(super) fn ads(rows: Vec<AdDay>) -> Reply {
    let names = ["date", "source_type", "source_id", "headline", "conversations", "messages"];
    let lines = rows.into_iter().map(|row| {
        vec![
            row.day.to_string(),
            row.source_type.into_string(),
            row.source_id.into_string(),
            row.headline.map(String::from).unwrap_or_default(),
            row.conversations.to_string(),
            row.messages.to_string(),
        ]
    });
    csv([head(&names)].into_iter().chain(lines))
}

pub(super) fn otp(found: OtpDays, by_country: bool) -> Reply {
    let first = if by_country { "country" } else { "day" };
    let names = [first, "sent", "delivered", "verified", "wrong", "expired", "failed", "refused"];
    let cells = |first: String, counts: OtpCounts| {
        let OtpCounts { sent, delivered, verified, wrong, expired, failed, refused } = counts;
        let counts = [sent, delivered, verified, wrong, expired, failed, refused];
        let mut cells = vec![first];
        cells.extend(counts.map(|count| count.to_string()));
        cells
    };
    let lines: Vec<_> = match by_country {
        true => found.countries.into_iter().map(|(code, it)| cells(code.to_string(), it)).collect(),
        false => found.days.into_iter().map(|(day, it)| cells(day.to_string(), it)).collect(),
    };
    csv([head(&names)].into_iter().chain(lines))
}
