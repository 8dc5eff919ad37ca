//! Flink's scalar expressions over Arrow columns, as DataFusion physical expressions.
//!
//! A function is native only where it was proven equal to Flink's. Every other expression becomes a [`host::HostCall`].
#![forbid(unsafe_code)]

pub mod error;
pub mod host;
