//! Native twins of Flink's streaming operators, one module per operator family.
//!
//! An operator takes batches and hands out batches. It knows neither the JVM nor its neighbours: wiring, watermarks and
//! checkpoints are the engine's. Whether a plan node can run natively is answered by the `supports` function of its
//! module, with a reason if not.
#![forbid(unsafe_code)]

pub mod bundle;
mod by_key;
pub mod calc;
pub mod changelog;
pub mod changelog_normalize;
pub mod correlate;
pub mod deduplicate;
mod definition;
pub mod drop_update_before;
mod dropped;
pub mod error;
pub mod expand;
pub mod group_agg;
pub mod group_window;
pub mod interval_join;
pub mod join;
mod keys;
pub mod lookup_join;
mod mark;
mod millis;
mod mini_batch_assigner;
pub mod multi_join;
pub mod over;
pub mod rank;
mod row_per_key;
#[cfg(test)]
mod stored_testing;
pub mod temporal_join;
pub mod temporal_sort;
mod time_index;
mod timed_input;
mod timed_rows;
#[cfg(test)]
mod timed_testing;
pub mod unslicing;
pub mod watermark_assigner;
pub mod window;
pub mod window_agg;
pub mod window_deduplicate;
pub mod window_join;
pub mod window_rank;
pub mod window_table_function;

pub use calc::Calc;
pub use changelog_normalize::ChangelogNormalize;
pub use correlate::Correlate;
pub use deduplicate::Deduplicate;
pub use drop_update_before::DropUpdateBefore;
pub use dropped::DroppedRows;
pub use error::OperatorError;
pub use expand::Expand;
pub use group_agg::{GlobalGroupAgg, GroupAgg, IncrementalGroupAgg, LocalGroupAgg};
pub use join::Join;
pub use lookup_join::LookupJoin;
pub use mark::{Mark, WatermarkStatus};
pub use mini_batch_assigner::MiniBatchAssigner;
pub use over::OverAggregate;
pub use watermark_assigner::WatermarkAssigner;
pub use window_agg::{LocalWindowAgg, WindowAgg};
pub use window_deduplicate::WindowDeduplicate;
pub use window_join::WindowJoin;
pub use window_table_function::WindowTableFunction;

use streamfusion_row::Batch;
use streamfusion_state::KeyedState;

use crate::bundle::{BundleMetrics, FlushReason};

/// Rows per batch that [`Operator::pull`] hands out at most, where the operator itself decides on the size.
pub const OUTPUT_BATCH_ROWS: usize = 8192;

/// Bytes of text and binary values in such a batch, unless one row alone has more.
pub const OUTPUT_BATCH_BYTES: usize = 4 << 20;

/// Where keyed state may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residence {
    /// In memory alone: it is in no database.
    Memory,
    /// In a database, and all of it in memory too, because the operator finds keys by itself, such as those of a window that is due.
    Resident,
    /// In a database: between batches any key may leave memory, but for those that the last batch or the open bundle has touched.
    Cached,
}

/// The state backend that Flink's own operator would have: it shows in some changelogs, since the heap gives the very objects back that state
/// was given, and RocksDB what it has written of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateBackend {
    /// HashMapStateBackend.
    #[default]
    Hashmap,
    /// EmbeddedRocksDBStateBackend.
    RocksDb,
}

/// An operator with one input, or with two.
///
/// The driver gives it a batch, or an event that stands between batches, and then pulls until nothing is left, before it gives the next one.
pub trait Operator: Send {
    /// Takes one batch. Output becomes visible through [`Operator::pull`].
    ///
    /// After an error the operator must not be used again.
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError>;

    /// Takes one batch of the second input, where there is one.
    fn push_second(&mut self, batch: Batch) -> Result<(), OperatorError> {
        drop(batch);
        Err(OperatorError::Internal("it has one input".into()))
    }

    /// The next output batch with at least one row, or `None` when the pushed batch has been answered completely.
    fn pull(&mut self) -> Result<Option<Batch>, OperatorError>;

    /// What goes on behind the batches that were pulled and in front of those that are pulled next. Asked for whenever there is nothing
    /// left to pull; behind a mark there may be again.
    fn mark(&mut self) -> Option<Mark> {
        None
    }

    /// Ends the open bundle, if there is one; what comes of it is pulled next. Called in front of a watermark of either input, of a
    /// checkpoint barrier, and at the end of the input.
    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        let _ = reason;
        Ok(())
    }

    /// Takes a watermark, behind the rows that came before it and behind [`Operator::flush`], and says which one goes on, behind the rows
    /// that are pulled next.
    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        Ok(Some(watermark_ms))
    }

    /// Whether watermarks of the second input count for nothing, as if its last one had come: only those of the first go on.
    fn ignores_second_watermarks(&self) -> bool {
        false
    }

    /// Takes the status of the watermarks that come in and says which one goes on. Unlike a watermark it ends no bundle.
    fn status(&mut self, status: WatermarkStatus) -> Result<Option<WatermarkStatus>, OperatorError> {
        Ok(Some(status))
    }

    /// When, in processing time, [`Operator::processing_time`] is to be called. Asked for after each call.
    ///
    /// An operator that has none before its first batch is never told the time. One that wants to be told it, but waits for
    /// nothing, says `i64::MAX`. Rows may be told the time of the first one of their batch, but no timer lies between them: an operator for
    /// which a moment makes a difference to rows has a timer there.
    fn timer(&self) -> Option<i64> {
        None
    }

    /// Tells how long its task has worked or waited for input, in milliseconds from any moment on: a clock that stands still under back
    /// pressure. Told before [`Operator::processing_time`].
    fn input_activity_time(&mut self, relative_ms: i64) {
        let _ = relative_ms;
    }

    /// Tells the job's `pipeline.auto-watermark-interval`, before the first batch.
    fn auto_watermark_interval(&mut self, interval_ms: i64) {
        let _ = interval_ms;
    }

    /// Tells the processing time: before a batch is pushed, and when a [timer](Operator::timer) is due. A watermark that is
    /// returned goes on at once; rows and marks are pulled next.
    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        let _ = now_ms;
        Ok(None)
    }

    /// The input is over; behind [`Operator::flush`]. A watermark that is returned goes on, behind the rows that are pulled next.
    fn finish(&mut self) -> Result<Option<i64>, OperatorError> {
        Ok(None)
    }

    /// How far event time had come for this operator, where a checkpoint has to keep that: a row is late after a restore if it was
    /// before. Asked for between batches only; an operator that has some has it from the beginning, when it is `i64::MIN`.
    fn progress(&self) -> Option<i64> {
        None
    }

    /// Takes the progress out of a checkpoint, before the first batch: the least one of all subtasks that had some.
    fn restore_progress(&mut self, watermark_ms: i64) {
        let _ = watermark_ms;
    }

    /// Rows that were dropped because they came too late, so far, if this operator drops such rows.
    fn late_rows(&self) -> Option<u64> {
        None
    }

    /// What it dropped so far, per reason.
    fn dropped_rows(&self) -> DroppedRows {
        DroppedRows { late: self.late_rows(), ..DroppedRows::default() }
    }

    /// The keyed state of this operator, if it keeps some. Asked for between batches only.
    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        None
    }

    /// Where its keyed state may be if the job keeps state in a database.
    fn residence(&self) -> Residence {
        Residence::Memory
    }

    /// What its bundles came to, if it makes any.
    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        None
    }

    /// Bytes that the open bundle takes, beside what the keyed state says.
    fn bundle_bytes(&self) -> usize {
        0
    }
}
