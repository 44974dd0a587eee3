//! Single messages: sending them, the 24-hour window, and the templates that open it.

mod kinds;
mod list;
mod media;
mod send;
mod service_window;
mod shown;
mod templates;

pub use send::{send_waiting, text, write};
