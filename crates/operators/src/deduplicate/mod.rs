//! The first or last row per key of an insert-only stream.
//!
//! | order | keep | state per key | what goes out |
//! | --- | --- | --- | --- |
//! | processing time | first | that there was one | the first row ([`KeepFirst`]) |
//! | processing time | last | the last row | its changes ([`KeepLast`]); every row as +U, without state, if neither -U nor +I is asked for |
//! | row time | first, last | the earliest or latest row | its changes ([`ByRowTime`]) |
//! | row time | first, insert-only | the earliest row, until it is due | the first row ([`FirstByTime`]) |
//!
//! Follows: StreamExecDeduplicate, Flink 2.2. Differences: none in the changelog, but for the order of keys that
//! [`FirstByTime`] has.

mod first_by_time;
mod keep_first;
mod keep_last;
mod row_time;
#[cfg(test)]
mod tests;

use arrow::array::UInt8Array;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, KeepRow};
use streamfusion_plan::types::{LogicalType, TimeDomain};
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyedState, StateContext};

use self::first_by_time::FirstByTime;
use self::keep_first::KeepFirst;
use self::keep_last::{KeepLast, Reads};
use self::row_time::ByRowTime;
use crate::bundle::{BundleMetrics, FlushReason, FrameFold, Frames};
use crate::changelog::{Emission, Unseen, UpdateBefore};
use crate::{Operator, OperatorError, Residence, StateBackend, row_per_key};

/// Name of the table, and of its section.
const TABLE: &str = "deduplicate";

/// Whether [`Deduplicate`] does over rows of `input` exactly what Flink does.
pub fn supports(spec: &node::Deduplicate, input: &LogicalType) -> Result<(), Reason> {
    if spec.time == TimeDomain::Rowtime && spec.rowtime_column(input).is_none() {
        return Err(Reason::new("its input has no row-time attribute"));
    }
    row_per_key::supports(&spec.unique_keys, input)
}

/// Whether a deduplication keeps anything, if only a table to number the keys of a bundle.
pub fn is_stateful(spec: &node::Deduplicate) -> bool {
    spec.time == TimeDomain::Rowtime
        || spec.keep == KeepRow::First
        || asks_for_kinds(spec)
        || spec.mini_batch_size.is_some()
}

/// Whether -U or +I are told from +U downstream.
fn asks_for_kinds(spec: &node::Deduplicate) -> bool {
    spec.generate_update_before || spec.generate_insert
}

/// The operator, immediate or in bundles. The output has the columns of the input.
#[derive(Debug)]
pub struct Deduplicate {
    frames: Frames,
    mode: Mode,
}

#[derive(Debug)]
enum Mode {
    /// Every row goes out as +U.
    Stateless(Option<Batch>),
    KeepFirst(KeepFirst),
    KeepLast(KeepLast),
    ByRowTime(ByRowTime),
    FirstByTime(Box<FirstByTime>),
}

impl Deduplicate {
    /// The operator for what is not [stateful](is_stateful): every row goes out as +U.
    pub fn stateless() -> Self {
        Self { frames: Frames::new(None), mode: Mode::Stateless(None) }
    }

    /// An operator without state for rows of the type `input`. `backend` is what Flink's would keep its in.
    ///
    /// Errors if [`supports`] refuses it.
    pub fn try_new(
        spec: &node::Deduplicate,
        input: &LogicalType,
        backend: StateBackend,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        supports(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let emission = Emission {
            update_before: if spec.generate_update_before { UpdateBefore::Emit } else { UpdateBefore::Omit },
            unseen: if asks_for_kinds(spec) { Unseen::Insert } else { Unseen::UpdateAfter },
        };
        if !is_stateful(spec) {
            return Ok(Self::stateless());
        }
        let mode = match (spec.rowtime_column(input), spec.keep) {
            (Some(column), KeepRow::First) if spec.output_insert_only => {
                let keep = FirstByTime::try_new(spec, input, column, context)?;
                return Ok(Self { frames: Frames::new(None), mode: Mode::FirstByTime(Box::new(keep)) });
            }
            (Some(column), _) => Mode::ByRowTime(ByRowTime::try_new(spec, input, column, emission, context)?),
            (None, KeepRow::First) => Mode::KeepFirst(KeepFirst::try_new(spec, input, context)?),
            (None, KeepRow::Last) => {
                let reads = if asks_for_kinds(spec) { Reads::Rows } else { Reads::Nothing };
                Mode::KeepLast(KeepLast::try_new(spec, input, emission, reads, backend, context)?)
            }
        };
        let waits = !matches!(mode, Mode::KeepFirst(_)) || spec.ttl_ms > 0;
        Ok(Self { frames: Frames::new(spec.mini_batch_size.filter(|_| waits)), mode })
    }
}

impl Operator for Deduplicate {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if batch.kinds().is_some_and(|kinds| kinds.values().iter().any(|kind| *kind != RowKind::Insert as u8)) {
            return Err(OperatorError::UnexpectedRetraction);
        }
        let batch = batch.with_kinds(None)?;
        match &mut self.mode {
            Mode::Stateless(passed) => {
                let kinds = UInt8Array::from_value(RowKind::UpdateAfter as u8, batch.num_rows());
                *passed = Some(batch.with_kinds(Some(kinds))?);
            }
            Mode::FirstByTime(keep) => keep.push(&batch)?,
            _ => self.frames.push(batch),
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        match &mut self.mode {
            Mode::Stateless(passed) => Ok(passed.take()),
            Mode::KeepFirst(keep) => self.frames.pull(keep),
            Mode::KeepLast(keep) => self.frames.pull(keep),
            Mode::ByRowTime(keep) => self.frames.pull(keep),
            Mode::FirstByTime(keep) => keep.pull(),
        }
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        match &mut self.mode {
            Mode::Stateless(_) | Mode::FirstByTime(_) => Ok(()),
            Mode::KeepFirst(keep) => self.frames.flush(reason, keep),
            Mode::KeepLast(keep) => self.frames.flush(reason, keep),
            Mode::ByRowTime(keep) => self.frames.flush(reason, keep),
        }
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        match &mut self.mode {
            Mode::Stateless(_) => None,
            Mode::KeepFirst(keep) => Some(&mut keep.table),
            Mode::KeepLast(keep) => Some(&mut keep.state.table),
            Mode::ByRowTime(keep) => Some(&mut keep.state.table),
            Mode::FirstByTime(keep) => Some(&mut keep.tables),
        }
    }

    fn residence(&self) -> Residence {
        match self.mode {
            Mode::Stateless(_) => Residence::Memory,
            // of the first rows by row time those that wait stay in memory
            Mode::KeepFirst(_) | Mode::KeepLast(_) | Mode::ByRowTime(_) | Mode::FirstByTime(_) => Residence::Cached,
        }
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        if let Mode::FirstByTime(keep) = &mut self.mode {
            keep.watermark(watermark_ms)?;
        }
        Ok(Some(watermark_ms))
    }

    fn late_rows(&self) -> Option<u64> {
        match &self.mode {
            Mode::FirstByTime(keep) => Some(keep.late_rows),
            _ => None,
        }
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        self.frames.metrics()
    }

    fn bundle_bytes(&self) -> usize {
        let frame = match &self.mode {
            Mode::Stateless(_) => 0,
            Mode::KeepFirst(keep) => keep.bytes(),
            Mode::KeepLast(keep) => keep.bytes(),
            Mode::ByRowTime(keep) => keep.bytes(),
            Mode::FirstByTime(keep) => keep.bytes(),
        };
        self.frames.bytes() + frame
    }
}
