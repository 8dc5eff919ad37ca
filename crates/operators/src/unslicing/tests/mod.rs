//! Session windows against a model that follows Flink's classes row by row.
#![allow(clippy::unwrap_used)]

mod aggregates;
mod function;
mod sessions;
