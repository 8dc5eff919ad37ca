//! Functions on dates, times, timestamps and intervals.
//!
//! Flink computes on numbers: days since the epoch, milliseconds of the day, milliseconds since the epoch and nanoseconds of
//! the millisecond, months. So do these functions, in Java's arithmetic: division truncates, sums wrap. What needs the
//! session time zone or a locale stays with the JVM.

pub mod arithmetic;
pub mod calendar;
pub mod extract;
pub mod format;
mod kernels;
mod lookup;
pub mod parse;
pub mod parse_timestamp;
pub mod pattern;
pub mod round;
pub mod values;

pub use lookup::lookup;
