//! Functions on text.
//!
//! Flink counts code points where it works on its own UTF-8 strings ([`scalar`]) and UTF-16 units where it works on Java's
//! ([`java`]). UPPER and LOWER depend on the locale of the JVM, functions with regular expressions on Java's engine:
//! those stay there, but for what [`crate::ascii`] says.

pub mod builder;
mod java;
mod kernels;
mod like;
mod lookup;
mod scalar;

pub use lookup::lookup;
