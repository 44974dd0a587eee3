//! The Postrider engine: one-time passwords, limits and durable dispatch of business messages, as
//! a system of actors to embed behind any front end.

mod access;
mod admin;
pub mod channel;
pub mod clock;
pub mod domain;
mod engine;
mod keys;
mod metrics;
mod number;
pub mod random;
mod snapshots;
pub mod store;
mod supervise;
mod workspace;

pub use access::{Access, Admission, BucketState, Caller, CreatedKey, KeyInfo, NewKey, Secret};
pub use admin::{Admin, AdminError, CreateWorkspaceError, WorkspaceInfo, WorkspaceState};
pub use channel::sandbox::{Sandbox, SandboxMessage, ScriptedOutcome};
pub use clock::Clock;
pub use engine::{
    AdmissionOptions, CustomStore, Durability, Engine, EngineOptions, Health, Prices,
    SandboxOptions, SharedRecorder, ShutdownError, StartError,
};
pub use keys::MasterKeys;
pub use workspace::messages::{
    ChangeError, Delivery, OtpSent, OtpState, OtpStatus, ReadOtpError, ResendOtpError, SendOtp,
    SendOtpError, Unavailable, UnavailableReason, Verification, VerifyOtpError,
};
pub use workspace::{EventEntry, EventsPage, NumberInfo, NumberKind, Workspace};
