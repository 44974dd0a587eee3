//! The one place that draws random numbers, from a cryptographically secure generator.
//!
//! Each thread has its own generator, which the operating system seeds.

use rand::Rng;

use postrider_domain::Timestamp;

/// Draws unguessable bytes, for keys and tokens.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}

/// Draws 80 bits that make an identifier unique.
#[must_use]
pub fn unique() -> u128 {
    let mut generator = rand::rng();
    u128::from(generator.next_u64()) << 16 | u128::from(generator.next_u32() & 0xffff)
}

/// Draws a fraction from 0 up to, not including, 1: for jitter.
#[must_use]
pub fn fraction() -> f64 {
    // The upper 53 bits: as many as an f64 holds exactly.
    (rand::rng().next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

macro_rules! new_ids {
    ($($function:ident -> $id:ident),*) => {$(
        #[doc = concat!("A new `", stringify!($id), "` of the moment `at`.")]
        #[must_use]
        pub fn $function(at: Timestamp) -> postrider_domain::$id {
            postrider_domain::$id::from_parts(at, unique())
        }
    )*};
}

new_ids!(
    request_id -> RequestId, key_id -> KeyId, number_id -> NumberId, webhook_id -> WebhookId,
    broadcast_id -> BroadcastId, admin_token_id -> AdminTokenId, audit_id -> AuditId,
    person_id -> PersonId, session_id -> SessionId, invite_id -> InviteId
);
