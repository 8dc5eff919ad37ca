//! Keyed state: tables partitioned by key group.
