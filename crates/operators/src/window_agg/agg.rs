//! The aggregate in one phase, and the global one of two.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{GlobalWindowAggregate, WindowAggregate, WindowProperty, WindowSpec};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::canonical::Sections;
use streamfusion_state::codec::{Mapped, Required};
use streamfusion_state::{
    ColumnId, KeyedState, KeyedTable, RestoreError, StateContext, StateError, StateSnapshot, Store, Touched,
};

use super::Plan;
use super::output::{Properties, Ready};
use super::slice_ends::SliceEnds;
use crate::group_agg::{Merging, SlotAggregates, SlotCalls, take_rows};
use crate::keys::Keys;
use crate::window::open::OpenWindows;
use crate::window::{SliceAssigner, WindowZone};
use crate::{Operator, OperatorError, Residence};

/// Name of the table, and of its main section.
const TABLE: &str = "window-aggs";

/// The window that ends with the slice of the slot is still to fire.
pub(super) const WAITS: i8 = 1;
/// The slice has got rows.
const FILLED: i8 = 2;

/// Whether [`WindowAgg`] computes this aggregate over rows of `input` exactly as Flink does.
pub fn supports(spec: &WindowAggregate, input: &LogicalType) -> Result<(), Reason> {
    if let WindowSpec::Session { .. } = spec.windowing.window {
        return Err(Reason::new("an aggregate over session windows has no slices"));
    }
    resolve(&one_phase(spec, input)).map(drop)
}

/// Whether [`WindowAgg`] merges the rows of `input`, which a local phase made, exactly as Flink does.
pub fn supports_global(spec: &GlobalWindowAggregate, input: &LogicalType) -> Result<(), Reason> {
    let plan = two_phases(spec, input);
    let (_, _, calls) = resolve(&plan)?;
    // the end of the slice comes last
    SlotAggregates::supports_accumulators(&calls, input, spec.grouping.len(), 1)
}

fn one_phase<'a>(spec: &'a WindowAggregate, input: &'a LogicalType) -> Plan<'a> {
    Plan {
        grouping: &spec.grouping,
        calls: &spec.calls,
        windowing: &spec.windowing,
        need_retraction: spec.need_retraction,
        input,
        call_input: input,
    }
}

fn two_phases<'a>(spec: &'a GlobalWindowAggregate, input: &'a LogicalType) -> Plan<'a> {
    Plan {
        grouping: &spec.grouping,
        calls: &spec.calls,
        windowing: &spec.windowing,
        need_retraction: spec.need_retraction,
        input,
        call_input: &spec.local_input,
    }
}

fn resolve<'a>(plan: &Plan<'a>) -> Result<(Keys, (SliceAssigner, SliceEnds), SlotCalls<'a>), Reason> {
    let (slices, ends) = plan.slices()?;
    let calls = plan.slot_calls(if slices.is_shared() { Merging::Slots } else { Merging::Never });
    SlotAggregates::supports(&calls)?;
    Ok((plan.keys()?, (slices, ends), calls))
}

/// The aggregate over windows. Output: per window and key one +I when the window is due, its keys in the order in which they got their first
/// row; the grouping columns, the results, the properties of the window.
#[derive(Debug)]
pub struct WindowAgg {
    pub(super) keys: Keys,
    pub(super) slices: SliceAssigner,
    ends: SliceEnds,
    pub(super) table: KeyedTable,
    pub(super) aggregates: SlotAggregates,
    /// [`WAITS`] and [`FILLED`] of each slot.
    pub(super) flags: ColumnId<i8>,
    pub(super) windows: OpenWindows,
    pub(super) properties: Properties,
    pub(super) ready: Ready,
    /// Whether accumulators come in, behind the grouping columns.
    merges: Option<usize>,
    watermark: i64,
    now: Option<i64>,
    late_rows: u64,
    /// Scratch.
    pub(super) due: Vec<u32>,
    pub(super) touched: Touched,
}

impl WindowAgg {
    /// An aggregate in one phase with empty state. Errors if [`supports`] refuses it.
    pub fn try_new(spec: &WindowAggregate, input: &LogicalType, context: &StateContext) -> Result<Self, OperatorError> {
        Self::open(&one_phase(spec, input), &spec.properties, None, context)
    }

    /// A global aggregate with empty state. Errors if [`supports_global`] refuses it.
    pub fn try_new_global(
        spec: &GlobalWindowAggregate,
        input: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        Self::open(&two_phases(spec, input), &spec.properties, Some(spec.grouping.len()), context)
    }

    fn open(
        plan: &Plan<'_>,
        properties: &[WindowProperty],
        merges: Option<usize>,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let internal = |reason: Reason| OperatorError::Internal(reason.to_string());
        let (keys, (slices, ends), calls) = resolve(plan).map_err(internal)?;
        let mut table = KeyedTable::namespaced(TABLE, keys.layout(), None, context);
        let codec = Mapped::new(
            Required::<i8>::new("", DataType::Int8),
            |flags: &i8| *flags,
            |flags| if flags & !(WAITS | FILLED) == 0 { Ok(flags) } else { Err("flags that mean nothing") },
        );
        let flags = table.add_column("flags", None, codec, 0);
        let zone = WindowZone::new(&plan.windowing.zone);
        Ok(Self {
            keys,
            slices,
            ends,
            aggregates: SlotAggregates::try_new(&calls, &mut table)?,
            table,
            flags,
            windows: OpenWindows::new(zone.clone()),
            properties: Properties { properties: properties.to_vec(), slices, zone },
            ready: Ready::default(),
            merges,
            watermark: i64::MIN,
            now: None,
            late_rows: 0,
            due: Vec::new(),
            touched: Touched::default(),
        })
    }

    fn is_processing_time(&self) -> bool {
        self.ends.is_processing_time()
    }

    /// Whether the slice of a slot has got rows.
    pub(super) fn is_filled(flags: i8) -> bool {
        flags & FILLED != 0
    }

    /// Takes rows of slices that are known.
    fn fold(&mut self, batch: &Batch, key_columns: &[ArrayRef]) -> Result<(), OperatorError> {
        let ends = &self.ends.ends;
        self.keys.load_in(key_columns, ends, &mut self.table, self.aggregates.touched())?;
        match self.merges {
            None => self.aggregates.fold(&mut self.table, batch)?,
            Some(first) => self.aggregates.fold_accumulators(&mut self.table, batch, first)?,
        }
        let slots = std::mem::take(&mut self.aggregates.touched().slots);
        self.table.commit(&slots);
        self.wait(&slots, FILLED)?;
        self.aggregates.touched().slots = slots;
        Ok(())
    }

    /// Lets the windows that end with the slices of these slots fire, unless they are due already. Sets other flags besides.
    pub(super) fn wait(&mut self, slots: &[u32], others: i8) -> Result<(), OperatorError> {
        let processing_time = self.is_processing_time();
        let expected = others | WAITS;
        let flags = self.table.column(self.flags)?;
        let new: Vec<u32> = slots.iter().copied().filter(|slot| flags.get(*slot) & expected != expected).collect();
        for slot in new {
            let end = self.table.namespace(slot);
            let flags = self.table.column(self.flags)?;
            let mut set = flags.get(slot) | others;
            if set & WAITS == 0 && (processing_time || !self.windows.is_fired(end)) {
                set |= WAITS;
                self.windows.open(end, slot);
            }
            flags.set(slot, set);
            self.table.mark(slot);
        }
        Ok(())
    }

    /// Looks at rows whose slice has fired. Those of which no window is left are dropped: what stays of the batch is returned. The others go
    /// where later windows find them, and the first of these is to fire.
    fn take_late(&mut self, batch: Batch) -> Result<Batch, OperatorError> {
        let mut kept: Vec<u32> = Vec::with_capacity(batch.num_rows());
        let mut ends = Vec::with_capacity(batch.num_rows());
        let (mut next_rows, mut next_ends) = (Vec::new(), Vec::new());
        for (row, end) in (0..).zip(&self.ends.ends) {
            let mut target = *end;
            if self.windows.is_fired(*end) {
                if self.windows.is_fired(self.slices.last_window_end(*end)) {
                    self.late_rows += 1;
                    continue;
                }
                target = self.slices.late_target(*end);
                let mut next = *end;
                while self.windows.is_fired(next) {
                    next = next.wrapping_add(self.slices.slice_end_interval());
                }
                next_rows.push(row);
                next_ends.push(next);
            }
            kept.push(row);
            ends.push(target);
        }
        if !next_rows.is_empty() {
            let columns = take_rows(&self.keys.columns(&batch)?, &next_rows)?;
            self.keys.load_in(&columns, &next_ends, &mut self.table, &mut self.touched)?;
            let slots = std::mem::take(&mut self.touched.slots);
            self.wait(&slots, 0)?;
            self.touched.slots = slots;
        }
        let batch = if kept.len() == batch.num_rows() { batch } else { batch.take(&UInt32Array::from(kept))? };
        self.ends.ends = ends;
        Ok(batch)
    }
}

impl Operator for WindowAgg {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let now = match self.now {
            None if self.is_processing_time() => {
                return Err(OperatorError::Internal("nobody told the processing time".to_owned()));
            }
            now => now.unwrap_or_default(),
        };
        self.ends.read(&batch, now)?;
        let mut batch = batch;
        if !self.is_processing_time() {
            let Self { ends, windows, .. } = self;
            let is_late = |row: &u32| ends.ends.get(*row as usize).is_some_and(|end| windows.is_fired(*end));
            if ends.runs.iter().any(is_late) {
                batch = self.take_late(batch)?;
                if batch.num_rows() == 0 {
                    return Ok(());
                }
            }
        }
        let key_columns = self.keys.columns(&batch)?;
        self.fold(&batch, &key_columns)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            if let Some(batch) = self.ready.pull() {
                return Ok(Some(batch));
            }
            if !self.fire_next()? {
                return Ok(None);
            }
        }
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        self.watermark = self.watermark.max(watermark_ms);
        if !self.is_processing_time() {
            self.windows.advance(self.watermark);
        }
        Ok(Some(self.watermark))
    }

    fn timer(&self) -> Option<i64> {
        if !self.is_processing_time() {
            return None;
        }
        // rows of one batch are all of one slice
        let boundary = self.now.map_or(i64::MAX, |now| {
            self.properties.zone.to_epoch_millis(self.ends.current_end(now)).max(now.saturating_add(1))
        });
        Some(self.windows.first_timer().map_or(boundary, |first| first.saturating_add(1).min(boundary)))
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        if self.is_processing_time() {
            self.now = Some(now_ms);
            // Flink's clock fires a timer when its millisecond is over, so that a row in the last one of a window still counts
            self.windows.advance(now_ms.saturating_sub(1));
        }
        Ok(None)
    }

    fn progress(&self) -> Option<i64> {
        Some(self.watermark)
    }

    fn restore_progress(&mut self, watermark_ms: i64) {
        if watermark_ms != i64::MAX {
            self.watermark = watermark_ms;
            if !self.is_processing_time() {
                self.windows.restore_progress(watermark_ms);
            }
        }
    }

    fn late_rows(&self) -> Option<u64> {
        Some(self.late_rows)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }

    fn residence(&self) -> Residence {
        Residence::Resident
    }

    fn bundle_bytes(&self) -> usize {
        self.ready.bytes() + self.windows.bytes() + self.ends.bytes() + self.aggregates.bytes()
    }
}

impl KeyedState for WindowAgg {
    fn table(&self) -> &'static str {
        TABLE
    }

    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        self.table.snapshot()
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        self.table.restore(sections)?;
        self.reopen();
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        let attached = KeyedState::attach(&mut self.table, store)?;
        self.reopen();
        Ok(attached)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.table.write_back()
    }
}
