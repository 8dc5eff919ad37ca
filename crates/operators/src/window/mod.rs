//! What all operators over windows share: local time and windows.
//!
//! A window begins and ends in *local time*: milliseconds since the epoch as if the clock of the [zone](zone::WindowZone) were UTC.
//! Watermarks and timers are instants, milliseconds since the epoch. [`zone`] leads from one to the other, [`assigner`]
//! says which windows and slices there are; it knows no zone.

pub mod assigner;
pub(crate) mod input;
pub(crate) mod open;
#[cfg(test)]
pub(crate) mod testing;
pub mod zone;

pub use assigner::{SliceAssigner, TimeWindow, WindowAssigner};
pub use zone::WindowZone;
