//! Pure: the prices of messages, in credits.

use crate::event::chain::OtpChannel;
use crate::template::TemplateCategory;

/// Largest balance in credits that can be set or added up to. Every program that reads JSON keeps
/// whole numbers up to here exactly.
pub const CREDITS_MAX: u64 = (1 << 53) - 1;

/// The price of each kind of message, in credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prices {
    /// One one-time password.
    pub otp: u64,
    /// One by SMS.
    pub otp_sms: u64,
    /// One by mail.
    pub otp_email: u64,
    /// One message of free text.
    pub text: u64,
    /// One message of a utility template.
    pub template_utility: u64,
    /// One message of a marketing template.
    pub template_marketing: u64,
    /// One message of an authentication template.
    pub template_authentication: u64,
}

/// What the price of a message depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceClass {
    /// Content that the sender wrote: text, and whatever else is no template.
    FreeForm,
    /// A template of this category.
    Template(TemplateCategory),
}

impl Prices {
    /// The price of one try to bring a code over this channel.
    #[must_use]
    pub const fn of_channel(&self, channel: OtpChannel) -> u64 {
        match channel {
            OtpChannel::Messaging => self.otp,
            OtpChannel::Sms => self.otp_sms,
            OtpChannel::Email => self.otp_email,
        }
    }

    /// The price of one message of this class.
    #[must_use]
    pub const fn of(&self, class: PriceClass) -> u64 {
        match class {
            PriceClass::FreeForm => self.text,
            PriceClass::Template(category) => self.template(category),
        }
    }

    /// The price of one message of a template of this category.
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
