//! Flink's scalar expressions over Arrow columns, as DataFusion physical expressions.
//!
//! A function is native only where it was proven equal to Flink's. Every other expression becomes a [`host::HostCall`].
//!
//! [`supports`] and [`host_calls`] answer the planner, [`compile`] and [`evaluate`] run. Functions live in [`functions`], one
//! module per family; each contributes a lookup to the [`registry`] and is, for the rest, a pure function from columns to a
//! column. What Flink evaluates only for some rows (CASE, IF, AND, OR) is in [`conditional`].
#![forbid(unsafe_code)]

mod ascii;
mod call;
pub mod cast;
pub mod clock;
pub mod compile;
mod conditional;
mod default;
pub mod error;
pub mod functions;
pub mod host;
mod literal;
mod names;
pub mod native;
pub mod registry;
pub mod text;
pub mod time;
pub mod values;
mod whole;

pub use compile::{compile, evaluate};
pub use error::ExprError;
pub use host::{Found, HostCall, HostFunction};
pub use native::{host_calls, supports};
