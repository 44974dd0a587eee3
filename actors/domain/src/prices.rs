//! Pure: the prices of messages, in credits.

use crate::event::chain::OtpChannel;
use crate::template::TemplateCategory;

/// The largest balance in credits that can be set or reached. Every program that reads JSON reads
/// whole numbers up to this one exactly.
pub const CREDITS_MAX: u64 = (1 << 53) - 1;

/// The price of each kind of message, in credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prices {
    /// The price of a one-time password.
    pub otp: u64,
    /// The price of one by SMS.
    pub otp_sms: u64,
    /// The price of one by mail.
    pub otp_email: u64,
    /// The price of a message of free text.
    pub text: u64,
    /// The price of a message of a utility template.
    pub template_utility: u64,
    /// The price of a message of a marketing template.
    pub template_marketing: u64,
    /// The price of a message of an authentication template.
    pub template_authentication: u64,
}

/// The class that decides the price of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceClass {
    /// Content that the sender wrote: text, and everything else that is not a template.
    FreeForm,
    /// A template of this category.
    Template(TemplateCategory),
}

impl Prices {
    /// Returns the price of one try to deliver a code over this channel.
    #[must_use]
    pub const fn of_channel(&self, channel: OtpChannel) -> u64 {
        match channel {
            OtpChannel::Messaging => self.otp,
            OtpChannel::Sms => self.otp_sms,
            OtpChannel::Email => self.otp_email,
        }
    }

    /// Returns the price of one message of this class.
    #[must_use]
    pub const fn of(&self, class: PriceClass) -> u64 {
        match class {
            PriceClass::FreeForm => self.text,
            PriceClass::Template(category) => self.template(category),
        }
    }

    /// Returns the price of one message of a template of this category.
    #[must_use]
    pub const fn template(&self, category: TemplateCategory) -> u64 {
        match category {
            TemplateCategory::Utility => self.template_utility,
            TemplateCategory::Marketing => self.template_marketing,
            TemplateCategory::Authentication => self.template_authentication,
        }
    }
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            otp: 1,
            otp_sms: 1,
            otp_email: 1,
            text: 1,
            template_utility: 1,
            template_marketing: 1,
            template_authentication: 1,
        }
    }
}
