//! Session windows against a model that follows Flink's classes row by row.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_possible_truncation)]

mod aggregates;
mod model;
mod sessions;
