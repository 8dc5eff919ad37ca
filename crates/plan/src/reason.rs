//! Why something stays on Flink: a value, not an error, in words that a user of Flink SQL understands.

use std::fmt;

/// One reason, a full sentence without its final stop, for example
/// `the aggregate function LISTAGG is not supported natively`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reason(String);

impl Reason {
    /// A reason from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
