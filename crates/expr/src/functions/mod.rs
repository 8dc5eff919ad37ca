//! The native functions, one module per family.
//!
//! A module's `lookup` (see [`crate::registry::Lookup`]) is the only way in.

pub mod logic;
pub mod search;
