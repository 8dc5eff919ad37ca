//! Native twins of Flink's streaming operators, one module per operator family.
//!
//! An operator takes batches and hands out batches. It knows neither the JVM nor its neighbours: wiring, watermarks and
//! checkpoints are the engine's. Whether a plan node can run natively is answered by the `supports` function of its
//! module, with a reason if not.
#![forbid(unsafe_code)]

pub mod bundle;
pub mod calc;
pub mod changelog;
pub mod changelog_normalize;
pub mod deduplicate;
mod definition;
pub mod drop_update_before;
pub mod error;
pub mod group_agg;
mod keys;
mod row_per_key;

pub use calc::Calc;
pub use changelog_normalize::ChangelogNormalize;
pub use deduplicate::Deduplicate;
pub use drop_update_before::DropUpdateBefore;
pub use error::OperatorError;
pub use group_agg::GroupAgg;

use streamfusion_row::Batch;
use streamfusion_state::KeyedState;

/// Rows per batch that [`Operator::pull`] hands out at most, where the operator itself decides on the size.
pub const OUTPUT_BATCH_ROWS: usize = 8192;

/// Bytes of text and binary values in such a batch, unless one row alone has more.
pub const OUTPUT_BATCH_BYTES: usize = 4 << 20;

/// An operator with one input.
///
/// The driver pushes a batch and then pulls until nothing is left, before it pushes the next one.
pub trait Operator: Send {
    /// Takes one batch. Output becomes visible through [`Operator::pull`].
    ///
    /// After an error the operator must not be used again.
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError>;

    /// The next output batch with at least one row, or `None` when the pushed batch has been answered completely.
    fn pull(&mut self) -> Result<Option<Batch>, OperatorError>;

    /// The keyed state of this operator, if it keeps some. Asked for between batches only.
    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        None
    }
}
