//! Builds the options of the engine from the settings.

use std::path::Path;
use std::time::Duration;

use postrider_actors::clock::{Clock, ClockOptions};
use postrider_actors::domain::OptOutWords;
use postrider_actors::{
    AdaptiveOptions, AddressRules, AdmissionOptions, AuditOptions, BroadcastOptions,
    CloudApiOptions, DeliveriesKept, DirectorySpace, EngineOptions, EventOptions, GuardOptions,
    MailOptions, MediaOptions, MessageOptions, OtpOptions, PeopleOptions, Prices, SandboxOptions,
    WebhookOptions,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::boot::{self, BootError, DataDir};
use crate::metrics::Metrics;
use crate::settings::{Guard, Settings};

/// Returns the number of free bytes below which nothing more is created.
///
/// If it is not set, a tenth of a small disk is enough.
pub(crate) fn free_bytes_min(settings: &Settings, directory: &DataDir) -> u64 {
    const AUTO: u64 = 1 << 30;
    settings.storage.free_bytes_min.unwrap_or_else(|| {
        let space = DirectorySpace(directory.path().to_owned());
        // If the file system does not report its size, the engine logs that when it measures.
        space.total_bytes().map_or(AUTO, |total| AUTO.min(total / 10))
    })
}

/// Returns the log bytes between two checkpoints, if checkpoints are enabled.
fn checkpoint_log_bytes(settings: &Settings) -> Option<u64> {
    settings.storage.checkpoints.then_some(settings.storage.checkpoint_log_bytes)
}

fn broadcast_options(settings: &Settings) -> BroadcastOptions {
    BroadcastOptions {
        recipients_max: settings.broadcasts.max_recipients,
        max_lateness: Duration::from_secs(settings.broadcasts.max_lateness_seconds),
        kept_for: settings.broadcasts.kept_days,
        pause_failure_percent: settings.broadcasts.pause_failure_percent,
        pause_failure_min: settings.broadcasts.pause_failure_min,
    }
}

pub(crate) fn engine_options(
    settings: &Settings,
    directory: &DataDir,
    metrics: &Metrics,
) -> Result<EngineOptions, BootError> {
    let master_keys = boot::master_keys(directory, &settings.secrets)?;
    let defaults = EngineOptions::on_disk(directory.path(), master_keys);
    Ok(EngineOptions {
        limits: settings.limits,
        clock: Clock::with_options(ClockOptions {
            step: settings.clock.step_seconds,
            ahead_max: settings.clock.ahead_max_seconds,
            rest: settings.clock.rest_seconds,
        }),
        allow_moved_clock: settings.sandbox.enabled,
        number_messages_per_second: settings.rates.number_messages_per_second,
        prices: prices(settings),
        opt_out: OptOutWords::new(&settings.opt_out.stop_words, &settings.opt_out.start_words),
        messages: message_options(settings),
        broadcasts: broadcast_options(settings),
        guard: guard_options(&settings.guard),
        otp: otp_options(settings),
        admission: AdmissionOptions {
            in_flight_per_workspace: settings.admission.in_flight_per_workspace,
            in_flight_total: settings.admission.in_flight_total,
        },
        otps_per_workspace_max: settings.admission.otps_per_workspace_max,
        queued_bytes_max: settings.storage.queued_bytes_max,
        snapshot_journal_bytes: settings.storage.snapshot_journal_bytes,
        segment_bytes: settings.storage.segment_bytes,
        checkpoint_log_bytes: checkpoint_log_bytes(settings),
        free_bytes_min: free_bytes_min(settings, directory),
        sandbox: SandboxOptions { messages_kept: settings.sandbox.messages_kept },
        events: event_options(settings),
        audit: AuditOptions { kept_for: settings.audit.kept_days },
        webhooks: webhook_options(settings),
        cloud_api: CloudApiOptions {
            base_url: settings.cloud_api.base_url.clone(),
            version: settings.cloud_api.version.clone(),
            extra_roots: certificates(settings.cloud_api.ca_file.as_deref())?,
            media_hosts: settings.cloud_api.media_hosts.clone(),
            connect_timeout: settings.cloud_api.connect_timeout_seconds,
            timeout: settings.cloud_api.timeout_seconds,
        },
        media: MediaOptions {
            kept_for: settings.media.kept_days,
            bytes_max: settings.media.kept_bytes_max,
            fetch: settings.media.fetch,
        },
        mail: mail_options(settings)?,
        people: people_options(settings),
        recorder: Some(metrics.recorder()),
        ..defaults
    })
}

/// Returns the outgoing mail server, if one is configured.
fn mail_options(settings: &Settings) -> Result<Option<MailOptions>, BootError> {
    let email = &settings.email;
    let Some(from) = email.from.clone().filter(|_| !email.host.is_empty()) else {
        return Ok(None);
    };
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    Ok(Some(MailOptions {
        host: email.host.clone(),
        port: email.port,
        tls: email.tls,
        extra_roots: certificates(email.ca_file.as_deref())?,
        login: given(&email.user).map(|user| (user, email.password.clone())),
        from,
        from_name: given(&email.from_name),
        timeout: email.timeout_seconds,
    }))
}

fn people_options(settings: &Settings) -> PeopleOptions {
    PeopleOptions {
        session_idle: settings.dashboard.session_idle_seconds,
        session_max: settings.dashboard.session_max_seconds,
        session_requests_per_minute: settings.rates.session_requests_per_minute,
        password_sign_in: settings.dashboard.password_sign_in,
        name: None,
        admin_token: None,
    }
}

fn event_options(settings: &Settings) -> EventOptions {
    EventOptions {
        kept_for: settings.events.kept_days,
        kept_max: settings.events.kept_events_max,
        kept_bytes_max: settings.events.kept_bytes_max,
    }
}

pub(crate) fn webhook_options(settings: &Settings) -> WebhookOptions {
    WebhookOptions {
        addresses: AddressRules {
            allow_http: settings.webhooks.allow_http,
            allowed_subnets: settings.webhook_subnets(),
        },
        requests_max: settings.webhooks.requests_max,
        timeout: settings.webhooks.timeout_seconds,
        deliveries: DeliveriesKept {
            kept_max: settings.webhooks.deliveries_kept_max,
            kept_for: settings.webhooks.deliveries_kept_days,
        },
    }
}

const fn prices(settings: &Settings) -> Prices {
    let prices = &settings.prices;
    Prices {
        otp: prices.otp,
        otp_sms: prices.otp_sms,
        otp_email: prices.otp_email,
        text: prices.text,
        template_utility: prices.template_utility,
        template_marketing: prices.template_marketing,
        template_authentication: prices.template_authentication,
    }
}

fn message_options(settings: &Settings) -> MessageOptions {
    MessageOptions {
        give_up: settings.messages.give_up_seconds,
        unknown_after: settings.messages.unknown_after_seconds,
        unsent_max: settings.messages.unsent_per_workspace_max,
        kept_for: settings.messages.kept_days,
        written_kept_for: settings.conversations.kept_days,
        reassign_after: settings.pool.reassign_after_seconds,
    }
}

fn guard_options(guard: &Guard) -> GuardOptions {
    GuardOptions {
        unverified_per_prefix_hour: guard.unverified_per_prefix_hour,
        mode: guard.mode,
        adaptive: AdaptiveOptions {
            mode: guard.adaptive,
            window_seconds: guard.adaptive_window_seconds,
            min_sends: guard.adaptive_min_sends,
            conversion_percent: guard.adaptive_conversion_percent,
            hold_seconds: guard.adaptive_hold_seconds,
            probe_percent: guard.adaptive_probe_percent,
        },
    }
}

const fn otp_options(settings: &Settings) -> OtpOptions {
    OtpOptions {
        step_timeout_seconds: settings.otp.step_timeout_seconds,
        kept_for: settings.otp.kept_days,
    }
}

/// Reads the certificates that are trusted in addition to those of the system.
///
/// Without a file there are none.
///
/// # Errors
/// [`BootError`] when the file cannot be read or contains no certificate.
fn certificates(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, BootError> {
    let Some(path) = file else { return Ok(Vec::new()) };
    let pem =
        std::fs::read(path).map_err(|source| BootError::File { path: path.to_owned(), source })?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(BootError::Content {
            path: path.to_owned(),
            expected: "certificates in PEM (`cloud_api.ca_file`, `email.ca_file`)",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let read = || certificates(Some(&path));
        assert!(matches!(read(), Err(BootError::File { .. })));
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(read(), Err(BootError::Content { .. })), "{text}");
        }
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n")
            .unwrap();
        assert_eq!(read().unwrap()[0].as_ref(), [0, 1, 2]);
        assert!(certificates(None).unwrap().is_empty());
    }
}
