//! The rules of the repository that no lint knows, checked over every member of the workspace.
//!
//! The packages are found from the root manifest, each file is parsed once, and each rule is a test
//! of its own that names file and line. The event types and routes that are declared once are
//! checked by the server's own tests, beside their tables.

mod bill_of_materials;
mod boundaries;
mod circles;
mod conditions;
mod dependencies;
mod documents;
mod edges;
mod facts;
mod layers;
mod packages;
mod purity;
mod ratchet;
mod repository;
mod resolve;
mod rooms;
mod schemas;
mod sizes;
mod tokens;
mod unique;
