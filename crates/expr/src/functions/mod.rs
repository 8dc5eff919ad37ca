//! The native functions, one module per family.
//!
//! A module's `lookup` (see [`crate::registry::Lookup`]) is the only way in.

pub mod arithmetic;
pub mod cast;
pub mod collection;
pub mod compare;
pub mod convert;
pub mod decimal;
pub mod logic;
pub mod math;
pub mod search;
