//! CAST and TRY_CAST that involve text or time.
//!
//! The rule for a pair of types is Flink's, found by the same precedence. A value that cannot be cast fails the job under CAST,
//! with Flink's exception, and is NULL under TRY_CAST.
//!
//! Follows: `org.apache.flink.table.planner.functions.casting.CastRuleProvider`, Flink 2.2, without
//! `table.exec.legacy-cast-behaviour`.

mod decimal;
mod from_text;
mod integer;
mod lookup;
mod temporal;
mod to_text;

pub use lookup::lookup;

use crate::error::ExprError;

/// A value that cannot be cast: the exception that Flink throws.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CastFailure {
    /// Class of the exception.
    pub class: &'static str,
    /// Its message.
    pub message: String,
}

impl CastFailure {
    /// A failure with this exception.
    pub fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }
    }
}

impl From<CastFailure> for ExprError {
    fn from(failure: CastFailure) -> Self {
        ExprError::Java { class: failure.class, message: failure.message }
    }
}

/// What becomes of a value that cannot be cast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// CAST: an exception.
    Throw,
    /// TRY_CAST: NULL.
    Null,
}

impl OnFailure {
    /// The value, NULL, or the exception.
    pub fn settle<T>(self, result: Result<T, CastFailure>) -> Result<Option<T>, ExprError> {
        match (result, self) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(_), Self::Null) => Ok(None),
            (Err(failure), Self::Throw) => Err(failure.into()),
        }
    }
}
