//! The local aggregate of two phases.
//!
//! The accumulators of slices are kept in a table that is no state: it is handed on whole when one of its slices is due, in front of a
//! checkpoint, and when it gets large.

use arrow::array::{ArrayRef, Int64Array};
use streamfusion_plan::Reason;
use streamfusion_plan::node::{LocalWindowAggregate, WindowSpec};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, KeyedTable, StateClock, StateContext};

use super::Plan;
use super::output::Ready;
use super::slice_ends::SliceEnds;
use crate::bundle::FlushReason;
use crate::group_agg::{Merging, SlotAggregates, SlotCalls};
use crate::keys::Keys;
use crate::window::open::OpenWindows;
use crate::window::{SliceAssigner, WindowZone};
use crate::{OUTPUT_BATCH_ROWS, Operator, OperatorError};

/// Keys and slices after which what was collected is handed on, due or not. Flink does so when its share of managed memory is full.
const MOST_SLOTS: usize = 1 << 20;

/// Bytes after which it is, if there are so many of them. The table does not give back what it takes.
const MOST_BYTES: usize = 128 << 20;
const MANY_SLOTS: usize = 1 << 16;

/// Whether [`LocalWindowAgg`] makes of rows of `input` the rows of `output` exactly as Flink does.
pub fn supports_local(spec: &LocalWindowAggregate, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    if let WindowSpec::Session { .. } = spec.windowing.window {
        return Err(Reason::new("an aggregate over session windows has no slices"));
    }
    let (_, (_, ends), calls) = resolve(spec, input)?;
    if ends.is_processing_time() {
        return Err(Reason::new("Flink has no local aggregate over windows of processing time"));
    }
    // the end of the slice comes last
    SlotAggregates::supports_accumulators(&calls, output, spec.grouping.len(), 1)
}

fn resolve<'a>(
    spec: &'a LocalWindowAggregate,
    input: &'a LogicalType,
) -> Result<(Keys, (SliceAssigner, SliceEnds), SlotCalls<'a>), Reason> {
    let plan = Plan {
        grouping: &spec.grouping,
        calls: &spec.calls,
        windowing: &spec.windowing,
        need_retraction: spec.need_retraction,
        input,
        call_input: input,
    };
    let calls = plan.slot_calls(Merging::Never);
    SlotAggregates::supports(&calls)?;
    Ok((plan.keys()?, plan.slices()?, calls))
}

/// The local aggregate. Output: per slice and key one +I, in first-touch order; the grouping columns, the accumulators, the end of the slice. No
/// row is too late for it.
///
/// Follows: LocalSlicingWindowAggOperator, LocalAggCombiner, Flink 2.2. Differences: those of the [module](super).
#[derive(Debug)]
pub struct LocalWindowAgg {
    keys: Keys,
    ends: SliceEnds,
    table: KeyedTable,
    aggregates: SlotAggregates,
    windows: OpenWindows,
    /// The slots in first-touch order, and which slots those are.
    slots: Vec<u32>,
    is_used: Vec<bool>,
    /// Those that were handed on already.
    handed_on: usize,
    /// Whether the others are being handed on.
    flushing: bool,
    ready: Ready,
    watermark: i64,
    /// The end of the slice that is due first.
    first_end: i64,
}

impl LocalWindowAgg {
    /// An aggregate without rows. Errors if [`supports_local`] refuses it.
    pub fn try_new(spec: &LocalWindowAggregate, input: &LogicalType) -> Result<Self, OperatorError> {
        let (keys, (_, ends), calls) =
            resolve(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let context = StateContext { key_groups: KeyGroups::all(1), clock: StateClock::fixed(0) };
        let mut table = KeyedTable::namespaced("local-window-aggs", keys.layout(), None, &context);
        Ok(Self {
            keys,
            ends,
            aggregates: SlotAggregates::try_new(&calls, &mut table)?,
            table,
            windows: OpenWindows::new(WindowZone::new(&spec.windowing.zone)),
            slots: Vec::new(),
            is_used: Vec::new(),
            handed_on: 0,
            flushing: false,
            ready: Ready::default(),
            // as in Flink: event time before 1970 does not move it
            watermark: 0,
            first_end: i64::MAX,
        })
    }

    /// Notes the slots that are new.
    fn note(&mut self) {
        for slot in &self.aggregates.touched().slots {
            let place = *slot as usize;
            if place >= self.is_used.len() {
                self.is_used.resize(place + 1, false);
            }
            if let Some(used) = self.is_used.get_mut(place).filter(|used| !**used) {
                *used = true;
                self.slots.push(*slot);
                self.first_end = self.first_end.min(self.table.namespace(*slot));
            }
        }
    }

    /// Hands on what was collected next; false if that is all.
    fn flush_next(&mut self) -> Result<bool, OperatorError> {
        let rest = self.slots.get(self.handed_on..).unwrap_or_default();
        if !self.flushing || rest.is_empty() {
            self.slots.clear();
            (self.handed_on, self.flushing) = (0, false);
            return Ok(false);
        }
        let slots: Vec<u32> = rest.iter().take(OUTPUT_BATCH_ROWS).copied().collect();
        self.handed_on += slots.len();
        let mut columns = self.keys.of_slots(&self.table, &slots)?;
        columns.extend(self.aggregates.accumulators(&mut self.table, &slots)?);
        let ends = Int64Array::from_iter_values(slots.iter().map(|slot| self.table.namespace(*slot)));
        columns.push(std::sync::Arc::new(ends) as ArrayRef);
        for slot in &slots {
            self.table.remove(*slot)?;
            if let Some(used) = self.is_used.get_mut(*slot as usize) {
                *used = false;
            }
        }
        self.ready.push(columns, slots.len())?;
        Ok(true)
    }

    fn begin_flush(&mut self) {
        self.flushing = !self.slots.is_empty();
        self.first_end = i64::MAX;
    }
}

impl Operator for LocalWindowAgg {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.ends.read(&batch, 0)?;
        let columns = self.keys.columns(&batch)?;
        self.keys.load_in(&columns, &self.ends.ends, &mut self.table, self.aggregates.touched())?;
        self.note();
        self.aggregates.fold(&mut self.table, &batch)?;
        let slots = self.slots.len();
        if slots > MOST_SLOTS || slots > MANY_SLOTS && self.table.bytes() > MOST_BYTES {
            self.begin_flush();
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            if let Some(batch) = self.ready.pull() {
                return Ok(Some(batch));
            }
            if !self.flushing || !self.flush_next()? {
                return Ok(None);
            }
        }
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        if reason == FlushReason::Checkpoint {
            self.begin_flush();
        }
        Ok(())
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        if watermark_ms > self.watermark {
            self.watermark = watermark_ms;
            self.windows.advance(watermark_ms);
            if self.windows.is_fired(self.first_end) {
                self.begin_flush();
            }
        }
        Ok(Some(watermark_ms))
    }

    fn bundle_bytes(&self) -> usize {
        self.table.bytes()
            + self.slots.capacity() * size_of::<u32>()
            + self.is_used.capacity()
            + self.ready.bytes()
            + self.ends.bytes()
            + self.aggregates.bytes()
    }
}
