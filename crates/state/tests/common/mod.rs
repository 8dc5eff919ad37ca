//! What tests of several files share.

pub mod rocksdb;
