//! OVER aggregates in the order of a column that is no time: a row that comes or goes updates those behind it.
//!
//! The rows of a partition are kept in sort order ([`list`]). Per row of a batch: its place, the rows behind it whose values may change, and
//! the steps that give their values before and behind the change. Steps of many rows are taken at once, with the functions of the other OVER
//! aggregates; then it shows how far values do change, and the output is put together from rows and values.
//!
//! On the heap Flink finds the accumulators of a row equal to those that it wrote before: then the row does not go out, nor do those behind it.
//! What it reads from RocksDB is equal to nothing, so that all rows behind a change go out, whatever their values.
//!
//! State is the rows. A list is an index of them, made when its partition comes and is not known, and dropped when that leaves memory.
//!
//! Follows: NonTimeRangeUnboundedPrecedingFunction, NonTimeRowsUnboundedPrecedingFunction, AbstractNonTimeUnboundedPrecedingOver, Flink 2.2.
//! Differences: after a restore on the heap Flink finds no accumulators equal that it wrote before, and updates rows whose values stay. Where a
//! row is taken back that is there several times, Flink's RANGE leaves out all of them until the next row of their sort key, and where values stay behind a row that is taken back, its ROWS goes on with the wrong accumulators; here the results are
//! right.

mod list;
mod output;
mod support;
#[cfg(test)]
mod tests;

use arrow::array::{ArrayRef, NullArray};
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, OverFrame};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::canonical::Sections;
use streamfusion_state::{
    BatchKeys, Identity, KeyGroups, KeyLayout, KeyedState, KeyedTable, PackedRows, RestoreError, RowEntries,
    RowEntriesId, RowLayout, StateClock, StateContext, StateError, StateSnapshot, Store, Touched,
};

use self::list::{Change, Fold, Folding, List, NONE, Node, Place, Tail};
use self::output::Resolved;
use super::chunk::Chunk;
use super::evaluate::Evaluation;
use crate::definition::describe;
use crate::group_agg::is_accumulate;
use crate::keys::Keys;
use crate::rank::sort_key::{BytesKeys, FixedKeys, SortKeys};
use crate::{Operator, OperatorError, Residence, StateBackend};

pub(super) use self::support::supports;

/// Name of the table, of its rows, and of the accumulators, which are no state. Names never change.
const TABLE: &str = "sorted_over";
const ROWS: &str = "sorted_rows";
const ACCUMULATORS: &str = "accumulators";

/// Steps, or rows of the output, after which what was found is handed out before more rows of the batch are taken.
const MOST_STEPS: usize = 1 << 16;

/// An aggregate with empty state for rows of the type `input`. Errors if [`supports`] refuses it.
pub(super) fn open(
    spec: &node::OverAggregate,
    input: &LogicalType,
    backend: StateBackend,
    context: &StateContext,
) -> Result<Box<dyn Operator>, OperatorError> {
    let refused = |reason: Reason| OperatorError::Internal(reason.to_string());
    let order_by = [support::sort_field(spec)];
    match FixedKeys::try_new(&order_by, input) {
        Some(keys) => Ok(Box::new(SortedOver::try_new(spec, input, keys, backend, context)?)),
        None => {
            let keys = BytesKeys::try_new(&order_by, input).map_err(refused)?;
            Ok(Box::new(SortedOver::try_new(spec, input, keys, backend, context)?))
        }
    }
}

/// See the [module](self). Output columns: those of the input, then one per call. With all row kinds.
#[derive(Debug)]
struct SortedOver<S: SortKeys> {
    keys: Keys,
    types: Vec<DataType>,
    table: KeyedTable,
    rows: RowEntriesId<()>,
    sort: S,
    /// Whether rows with equal sort keys share a value.
    shares: bool,
    backend: StateBackend,
    /// By slot; none where the rows of the slot were not asked for yet.
    lists: Vec<Option<List<S::Key>>>,
    /// Bytes that the nodes of the lists take.
    list_bytes: usize,
    evaluation: Evaluation,
    /// The columns that calls read.
    read: Vec<usize>,
    /// How many calls the plan has; those behind them say whether accumulators changed.
    calls: usize,
    accumulators: Accumulators,
    fold: Fold,
    changes: Vec<Change>,
    taken: Option<Taken<S::Encoded>>,
    touched: Touched,
    packed: PackedRows,
    resolved: Option<Resolved>,
}

/// The batch whose rows are being taken.
#[derive(Debug)]
struct Taken<E> {
    batch: Batch,
    encoded: E,
    /// The row that is next.
    row: usize,
}

/// Slots with accumulators of lists.
#[derive(Debug)]
struct Accumulators {
    table: KeyedTable,
    next: u64,
    loaded: Touched,
    freed: Vec<u32>,
}

impl Accumulators {
    fn new() -> Self {
        let context = StateContext { key_groups: KeyGroups::all(1), clock: StateClock::fixed(0) };
        let layout = KeyLayout::Fixed(DataType::Int64, "BIGINT".to_owned());
        let table = KeyedTable::new(ACCUMULATORS, layout, None, &context);
        Self { table, next: 0, loaded: Touched::default(), freed: Vec::new() }
    }
}

/// A slot without accumulators.
fn new_slot(table: &mut KeyedTable, next: &mut u64, loaded: &mut Touched) -> Result<u32, OperatorError> {
    table.load(BatchKeys::Fixed(&[*next], None), loaded)?;
    *next = next.wrapping_add(1);
    loaded.slots.first().copied().ok_or_else(|| OperatorError::Internal("a key without a slot".to_owned()))
}

impl<S: SortKeys> SortedOver<S> {
    fn try_new(
        spec: &node::OverAggregate,
        input: &LogicalType,
        sort: S,
        backend: StateBackend,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let resolved = support::resolve(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let mut table = KeyedTable::new(TABLE, resolved.keys.layout(), None, context);
        let definitions = input.fields().iter().map(|field| describe(&field.ty)).collect();
        let layout = RowLayout::try_new(&resolved.types)?;
        let rows = table.add_row_entries(ROWS, definitions, layout, Identity::None, (), ())?;
        let mut accumulators = Accumulators::new();
        let evaluation =
            Evaluation::try_new(spec, &resolved.calls, spec.frame, input, &resolved.types, &mut accumulators.table)?;
        Ok(Self {
            keys: resolved.keys,
            types: resolved.types,
            table,
            rows,
            sort,
            shares: spec.frame == OverFrame::UnboundedRange,
            backend,
            lists: Vec::new(),
            list_bytes: 0,
            read: evaluation.columns(),
            evaluation,
            calls: spec.calls.len(),
            accumulators,
            fold: Fold::default(),
            changes: Vec::new(),
            taken: None,
            touched: Touched::default(),
            packed: PackedRows::default(),
            resolved: None,
        })
    }

    fn begin(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if !batch.columns().iter().map(|column| column.data_type()).eq(&self.types) {
            let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
            return Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))));
        }
        let num_rows = u32::try_from(batch.num_rows()).map_err(|_| OperatorError::TooLarge)?;
        let columns = self.keys.columns(&batch)?;
        self.keys.load(&columns, batch.num_rows(), &mut self.table, &mut self.touched)?;
        self.load_lists()?;
        let (rows, _) = self.table.row_entries(self.rows)?;
        rows.pack(batch.columns(), &(0..num_rows).collect::<Vec<_>>(), &mut self.packed)?;
        let encoded = self.sort.encode(batch.columns(), batch.num_rows())?;
        self.taken = Some(Taken { batch, encoded, row: 0 });
        Ok(())
    }

    /// Makes the lists of the partitions of the batch that have none yet, or whose rows left memory.
    fn load_lists(&mut self) -> Result<(), OperatorError> {
        let most = self.touched.slots.iter().max().map_or(0, |slot| *slot as usize + 1);
        if self.lists.len() < most {
            self.lists.resize_with(most, || None);
        }
        let (rows, _) = self.table.row_entries(self.rows)?;
        let (mut positions, mut of_slot) = (Vec::new(), Vec::new());
        for slot in &self.touched.slots {
            let Some(list) = self.lists.get_mut(*slot as usize) else { continue };
            let clearings = rows.clearings(*slot);
            if list.as_ref().is_some_and(|list| list.clearings == clearings) {
                continue;
            }
            drop_list(list, &mut self.list_bytes, &mut self.accumulators.table)?;
            *list = Some(List::new(clearings));
            positions.extend(rows.walk(*slot));
            of_slot.resize(positions.len(), *slot);
        }
        if positions.is_empty() {
            return Ok(());
        }
        let encoded = self.sort.encode(&rows.gather(&positions)?, positions.len())?;
        for (row, (position, slot)) in positions.iter().zip(&of_slot).enumerate() {
            if let Some(Some(list)) = self.lists.get_mut(*slot as usize) {
                let key = S::key(&encoded, row);
                list.nodes.push(Node { key, place: Place::State(*position), value: NONE });
            }
        }
        Ok(())
    }

    /// Takes rows of the batch, as many as are handed out together. False if there are none left.
    fn take_rows(&mut self) -> Result<bool, OperatorError> {
        let Some(taken) = &mut self.taken else { return Ok(false) };
        let Accumulators { table: accumulators, next, loaded, freed } = &mut self.accumulators;
        let (rows, _) = self.table.row_entries(self.rows)?;
        let kinds = taken.batch.kinds().map(|kinds| kinds.values().clone());
        let first = taken.row;
        while taken.row < taken.batch.num_rows() && self.fold.len() < MOST_STEPS && self.changes.len() < MOST_STEPS {
            let row = taken.row;
            taken.row += 1;
            let slot = self.touched.groups.get(row).and_then(|group| self.touched.slots.get(*group as usize));
            let list = slot.and_then(|slot| self.lists.get_mut(*slot as usize)?.as_mut());
            let list = list.ok_or_else(|| OperatorError::Internal("a row without a partition".to_owned()))?;
            let mut folding = Folding {
                fold: &mut self.fold,
                changes: &mut self.changes,
                slots: &mut || new_slot(accumulators, next, loaded),
                freed,
                shares: self.shares,
            };
            let kind = kinds.as_ref().and_then(|kinds| kinds.get(row)).copied().unwrap_or_default();
            let key = S::key(&taken.encoded, row);
            // a batch has no more rows than 32 bits count
            let number = row as u32;
            if is_accumulate(kind) {
                list.insert(key, number, kind, &mut folding)?;
                continue;
            }
            let bytes = self.packed.row(row);
            let is_row =
                |at: &usize| list.nodes.get(*at).is_some_and(|node| packed(rows, &self.packed, node.place) == bytes);
            let mut equal = list.equal(&key);
            let found = if self.shares { equal.rev().find(is_row) } else { equal.find(is_row) };
            // of a row that was never seen Flink takes nothing back
            if let Some(at) = found {
                list.remove(at, number, &mut folding)?;
            }
        }
        Ok(taken.row > first)
    }

    /// Runs the steps, and finds out what goes out.
    fn run(&mut self) -> Result<(), OperatorError> {
        let Some(taken) = &self.taken else { return Ok(()) };
        let (rows, _) = self.table.row_entries(self.rows)?;
        let values = if self.fold.len() == 0 {
            Vec::new()
        } else {
            let steps = self.evaluation.steps();
            steps.clear();
            self.fold.slots.iter().for_each(|slot| {
                steps.add_group(*slot);
            });
            let arguments = output::rows_at(rows, &taken.batch, &self.fold.places, &self.read)?;
            let mut arguments = arguments.into_iter();
            let nothing = || std::sync::Arc::new(NullArray::new(self.fold.len())) as ArrayRef;
            let column = |column| if self.read.contains(&column) { arguments.next() } else { Some(nothing()) };
            let columns = (0..self.types.len()).map(column).collect::<Option<Vec<_>>>();
            let columns = columns.ok_or_else(|| OperatorError::Internal("an argument is missing".to_owned()))?;
            let batch = Batch::try_new(columns, self.fold.len(), None)?;
            let chunk = Chunk { groups: &self.fold.groups, times: &self.fold.runs };
            let result = self.evaluation.evaluate(&mut self.accumulators.table, &batch, &chunk)?;
            result.columns().get(self.types.len()..).unwrap_or_default().to_vec()
        };
        self.resolved = Some(Resolved::new(&self.changes, values, self.calls, self.backend)?);
        self.changes.clear();
        self.fold.clear();
        for slot in &self.touched.slots {
            if let Some(Some(list)) = self.lists.get_mut(*slot as usize) {
                list.forget_values();
            }
        }
        let Accumulators { table, freed, .. } = &mut self.accumulators;
        freed.drain(..).try_for_each(|slot| table.remove(slot))?;
        Ok(())
    }

    /// Writes what became of the partitions of the batch, all of whose output has gone.
    fn end(&mut self) -> Result<(), OperatorError> {
        let Some(_) = self.taken.take() else { return Ok(()) };
        let (rows, of_table) = self.table.row_entries(self.rows)?;
        let mut empty = Vec::new();
        for slot in &self.touched.slots {
            let Some(of_slot) = self.lists.get_mut(*slot as usize) else { continue };
            let Some(list) = of_slot else { continue };
            for position in list.removed.drain(..) {
                rows.remove(position);
            }
            if list.nodes.is_empty() {
                empty.push(*slot);
                drop_list(of_slot, &mut self.list_bytes, &mut self.accumulators.table)?;
                continue;
            }
            let bytes = list.bytes();
            self.list_bytes = self.list_bytes + bytes - std::mem::replace(&mut list.measured, bytes);
            if !std::mem::take(&mut list.changed) {
                continue;
            }
            let mut before = None;
            for node in list.nodes.iter_mut().rev() {
                let position = match node.place {
                    Place::State(position) => position,
                    Place::Batch(row) => rows.insert(of_table, *slot, before, &self.packed, row as usize, ())?,
                };
                node.place = Place::State(position);
                before = Some(position);
            }
        }
        self.table.commit(&self.touched.slots);
        empty.into_iter().try_for_each(|slot| self.table.remove(slot))?;
        Ok(())
    }
}

/// Forgets a list and its accumulators. The rows are state's.
fn drop_list<K>(
    list: &mut Option<List<K>>,
    list_bytes: &mut usize,
    accumulators: &mut KeyedTable,
) -> Result<(), StateError> {
    let Some(list) = list.take() else { return Ok(()) };
    *list_bytes = list_bytes.saturating_sub(list.measured);
    list.tail.map_or(Ok(()), |Tail { slot, .. }| accumulators.remove(slot))
}

/// The packed row at a place.
fn packed<'a>(rows: &'a RowEntries<()>, batch: &'a PackedRows, place: Place) -> &'a [u8] {
    match place {
        Place::State(position) => rows.row(position),
        Place::Batch(row) => batch.row(row as usize),
    }
}

impl<S: SortKeys> KeyedState for SortedOver<S> {
    fn table(&self) -> &'static str {
        TABLE
    }

    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        self.table.snapshot()
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        self.table.restore(sections)
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        KeyedState::attach(&mut self.table, store)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.table.write_back()
    }

    /// With the rows that leave go the lists of their partitions.
    fn evict(&mut self) -> Result<(), StateError> {
        self.table.evict()?;
        let (rows, _) = self.table.row_entries(self.rows)?;
        for (slot, list) in (0_u32..).zip(&mut self.lists) {
            if list.as_ref().is_some_and(|list| list.clearings != rows.clearings(slot)) {
                drop_list(list, &mut self.list_bytes, &mut self.accumulators.table)?;
            }
        }
        Ok(())
    }
}

impl<S: SortKeys> Operator for SortedOver<S> {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.begin(batch)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            if let (Some(resolved), Some(taken)) = (&mut self.resolved, &self.taken) {
                let (rows, _) = self.table.row_entries(self.rows)?;
                if let Some(batch) = resolved.pull(rows, &taken.batch)? {
                    return Ok(Some(batch));
                }
                self.resolved = None;
            }
            if !self.take_rows()? {
                self.end()?;
                return Ok(None);
            }
            self.run()?;
        }
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }

    fn residence(&self) -> Residence {
        Residence::Cached
    }

    fn bundle_bytes(&self) -> usize {
        self.list_bytes
            + self.lists.capacity() * size_of::<Option<List<S::Key>>>()
            + self.accumulators.table.bytes()
            + self.evaluation.bytes()
            + self.fold.bytes()
            + self.changes.capacity() * size_of::<Change>()
            + self.packed.bytes()
            + self.resolved.as_ref().map_or(0, Resolved::bytes)
    }
}
