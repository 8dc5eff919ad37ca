//! What windows of keys keep of their rows: accumulators here, the rows themselves in [`kept`](super::kept).

use std::sync::Arc;

use arrow::array::{ArrayRef, TimestampMillisecondArray, new_null_array};
use arrow::datatypes::{DataType, TimeUnit};
use streamfusion_plan::node::WindowProperty;
use streamfusion_row::Batch;
use streamfusion_state::{KeyedTable, Touched};

use super::open::{Due, Merge};
use crate::group_agg::SlotAggregates;
use crate::keys::Keys;
use crate::window::{TimeWindow, WindowZone};
use crate::{OUTPUT_BATCH_ROWS, OperatorError};

/// See the [module](self).
pub(super) trait Contents: std::fmt::Debug + Send {
    /// Takes rows into their windows: `windows` has the number of the window of each, and the slots of windows by number. It is as it was
    /// afterwards.
    fn add(&mut self, table: &mut KeyedTable, rows: &Batch, windows: &mut Touched) -> Result<(), OperatorError>;

    /// Gives a window what another one has, whose slot is removed then.
    fn merge(&mut self, table: &mut KeyedTable, merge: Merge) -> Result<(), OperatorError>;

    /// What goes out next of windows that have fired, at least one. Windows of which all has gone are named no more.
    fn pull(
        &mut self,
        keys: &Keys,
        table: &mut KeyedTable,
        zone: &WindowZone,
        fired: &[Due],
    ) -> Result<Pulled, OperatorError>;

    /// Takes over what was restored.
    fn restore(&mut self, _table: &mut KeyedTable) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Bytes of scratch.
    fn bytes(&self) -> usize;
}

/// What went out of windows.
#[derive(Debug)]
pub(super) struct Pulled {
    /// Its rows, if there are any.
    pub(super) batch: Option<Batch>,
    /// So many windows are done with, the first ones.
    pub(super) windows: usize,
}

/// Accumulators. Output columns: the key, the results of the calls, the properties of the window.
#[derive(Debug)]
pub(super) struct Accumulators {
    pub(super) calls: SlotAggregates,
    pub(super) properties: Vec<WindowProperty>,
}

impl Contents for Accumulators {
    fn add(&mut self, table: &mut KeyedTable, rows: &Batch, windows: &mut Touched) -> Result<(), OperatorError> {
        std::mem::swap(self.calls.touched(), windows);
        self.calls.fold(table, rows)?;
        std::mem::swap(self.calls.touched(), windows);
        Ok(())
    }

    fn merge(&mut self, table: &mut KeyedTable, merge: Merge) -> Result<(), OperatorError> {
        self.calls.merge(table, &[merge.from], &[merge.into])
    }

    fn pull(
        &mut self,
        keys: &Keys,
        table: &mut KeyedTable,
        zone: &WindowZone,
        fired: &[Due],
    ) -> Result<Pulled, OperatorError> {
        let windows = fired.len().min(OUTPUT_BATCH_ROWS);
        let fired = fired.get(..windows).unwrap_or_default();
        let batch = results(keys, &mut self.calls, table, &self.properties, zone, fired)?;
        Ok(Pulled { batch, windows })
    }

    fn bytes(&self) -> usize {
        self.calls.bytes()
    }
}

/// A row per window, but for windows whose rows were all taken back.
fn results(
    keys: &Keys,
    calls: &mut SlotAggregates,
    table: &mut KeyedTable,
    properties: &[WindowProperty],
    zone: &WindowZone,
    fired: &[Due],
) -> Result<Option<Batch>, OperatorError> {
    let mut slots: Vec<u32> = fired.iter().map(|due| due.slot).collect();
    let mut windows: Vec<TimeWindow> = fired.iter().map(|due| due.window).collect();
    if let Some(counts) = calls.counts(table, &slots)? {
        keep(&mut slots, &counts);
        keep(&mut windows, &counts);
    }
    if slots.is_empty() {
        return Ok(None);
    }
    let mut columns = keys.of_slots(table, &slots)?;
    columns.extend(calls.values(table, &slots)?);
    columns.extend(properties.iter().map(|of| property(*of, &windows, zone)));
    Ok(Some(Batch::try_new(columns, slots.len(), None)?))
}

/// Leaves the items whose count is not 0.
pub(crate) fn keep<T>(items: &mut Vec<T>, counts: &[i64]) {
    let mut counts = counts.iter();
    items.retain(|_| counts.next().is_none_or(|count| *count != 0));
}

/// What is known of windows.
///
/// Follows: AggsHandlerCodeGenerator.getWindowExpressions, Flink 2.2.
pub(crate) fn property(of: WindowProperty, windows: &[TimeWindow], zone: &WindowZone) -> ArrayRef {
    let millis = |of: &dyn Fn(&TimeWindow) -> i64| {
        Arc::new(TimestampMillisecondArray::from_iter_values(windows.iter().map(of))) as ArrayRef
    };
    match of {
        WindowProperty::Start => millis(&|window| window.start),
        WindowProperty::End => millis(&|window| window.end),
        WindowProperty::Rowtime => millis(&|window| zone.to_epoch_millis(window.max_timestamp())),
        WindowProperty::Proctime => new_null_array(&DataType::Timestamp(TimeUnit::Millisecond, None), windows.len()),
    }
}
