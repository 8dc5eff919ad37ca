//! One row per key, whole, and what a frame of rows does to it: the state of deduplicate and changelog normalize.
//!
//! Per frame: the keys of its rows are looked up once ([`RowPerKey::load`]), the rows under them come out of the table as one batch
//! beside those that came in, and whoever folds them works with references to both. What is left of the frame is written
//! back once per key ([`RowPerKey::commit`]), and what is to be emitted is gathered as it is pulled.
//!
//! Invariant: between frames a key is in the table exactly if it has a row.

#[cfg(test)]
pub(crate) mod testing;

use std::ops::Range;

use arrow::array::UInt8Array;
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::types::arrow_type;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyedTable, RowLayout, RowsId, StateContext, StateTtl, Touched};

use crate::OperatorError;
use crate::changelog::{BatchNumber, BundleRows, Changes, RowRef, Transitions};
use crate::definition::describe;
use crate::keys::Keys;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct RowPerKey {
    keys: Keys,
    pub(crate) table: KeyedTable,
    rows: RowsId,
    types: Vec<DataType>,
    pub(crate) touched: Touched,
    /// The rows of the frame: those that were there before it, if there were any, and those that came in.
    pub(crate) frame: BundleRows,
    inputs: Vec<Input>,
    /// Per key of the frame: its row before the frame.
    pub(crate) before: Vec<Option<RowRef>>,
    pub(crate) changes: Changes,
}

/// A batch of the frame that came in.
#[derive(Debug)]
struct Input {
    number: BatchNumber,
    /// Its rows, numbered through all batches of the frame.
    rows: Range<usize>,
    kinds: Option<ScalarBuffer<u8>>,
}

/// Rows of the frame that came in one behind the other in one batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) batch: BatchNumber,
    /// The first row in the batch.
    pub(crate) first_row: u32,
    /// Per row the number of its key.
    pub(crate) keys: &'a [u32],
    /// Per row its kind; absent if all are +I.
    pub(crate) kinds: Option<&'a [u8]>,
}

/// The keys of rows of the type `input`, and the Arrow types of its columns.
pub(crate) fn resolve(unique_keys: &[usize], input: &LogicalType) -> Result<(Keys, Vec<DataType>), Reason> {
    let types = input.fields().iter().map(|field| arrow_type(&field.ty)).collect::<Result<Vec<_>, _>>()?;
    let key_types: Option<(Vec<_>, Vec<_>)> =
        unique_keys.iter().map(|key| Some((input.fields().get(*key)?.ty.clone(), types.get(*key)?.clone()))).collect();
    let (logical, arrow) = key_types.ok_or_else(|| Reason::new("a key column does not exist"))?;
    Ok((Keys::try_new(unique_keys, &logical, &arrow)?, types))
}

/// Whether rows of the type `input` can be kept under these keys.
pub(crate) fn supports(unique_keys: &[usize], input: &LogicalType) -> Result<(), Reason> {
    let (_, types) = resolve(unique_keys, input)?;
    RowLayout::try_new(&types).map(drop).map_err(|error| Reason::new(error.to_string()))
}

impl RowPerKey {
    /// No rows. `name` is that of the table; it never changes.
    pub(crate) fn try_new(
        name: &'static str,
        unique_keys: &[usize],
        input: &LogicalType,
        ttl_ms: i64,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let (keys, types) =
            resolve(unique_keys, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let mut table = KeyedTable::new(name, keys.layout(), StateTtl::of_millis(ttl_ms), context);
        let definitions = input.fields().iter().map(|field| describe(&field.ty)).collect();
        let rows = table.add_rows("row", definitions, RowLayout::try_new(&types)?);
        Ok(Self {
            keys,
            table,
            rows,
            types,
            touched: Touched::default(),
            frame: BundleRows::new(),
            inputs: Vec::new(),
            before: Vec::new(),
            changes: Changes::new(),
        })
    }

    /// Begins a frame of these batches: numbers the keys of their rows, one batch after the other, in `touched.groups`, and fetches
    /// the rows under them.
    pub(crate) fn load(&mut self, batches: &[Batch]) -> Result<(), OperatorError> {
        self.load_keys(batches)?;
        let rows = self.table.rows(self.rows)?;
        let present: Vec<u32> = self.touched.slots.iter().copied().filter(|slot| rows.has(*slot)).collect();
        if present.is_empty() {
            return Ok(());
        }
        let loaded = Batch::try_new(rows.gather(&present)?, present.len(), None)?;
        let number = self.frame.add(&loaded)?;
        let mut next = 0;
        for (before, slot) in self.before.iter_mut().zip(&self.touched.slots) {
            if rows.has(*slot) {
                *before = Some(RowRef::new(number, next));
                next += 1;
            }
        }
        Ok(())
    }

    /// The same, as if there were no rows under the keys.
    pub(crate) fn load_keys(&mut self, batches: &[Batch]) -> Result<(), OperatorError> {
        self.frame.clear();
        self.inputs.clear();
        let mut first = 0;
        for batch in batches {
            let types = batch.columns().iter().map(|column| column.data_type());
            if !types.eq(&self.types) {
                let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
                return Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))));
            }
            let rows = first..first + batch.num_rows();
            first = rows.end;
            let kinds = batch.kinds().map(|kinds| kinds.values().clone());
            self.inputs.push(Input { number: self.frame.add(batch)?, rows, kinds });
        }
        self.keys.load_batches(batches, &mut self.table, &mut self.touched)?;
        self.before.clear();
        self.before.resize(self.touched.slots.len(), None);
        Ok(())
    }

    /// The rows of the frame, whose number they have through all batches, batch by batch.
    pub(crate) fn runs(&self, rows: Range<usize>) -> impl Iterator<Item = Run<'_>> {
        let first = self.inputs.partition_point(|input| input.rows.end <= rows.start);
        self.inputs.iter().skip(first).take_while(move |input| input.rows.start < rows.end).filter_map(move |input| {
            let run = rows.start.max(input.rows.start)..rows.end.min(input.rows.end);
            let within = run.start - input.rows.start..run.end - input.rows.start;
            let kinds = match &input.kinds {
                None => None,
                Some(kinds) => Some(kinds.get(within.clone())?),
            };
            let first_row = u32::try_from(within.start).ok()?;
            Some(Run { batch: input.number, first_row, keys: self.touched.groups.get(run)?, kinds })
        })
    }

    /// All rows of the frame.
    pub(crate) fn all_rows(&self) -> Range<usize> {
        0..self.touched.groups.len()
    }

    /// These rows of the frame, by their numbers through all batches, with their row kinds.
    pub(crate) fn gather(&self, rows: &[usize]) -> Result<Vec<Batch>, OperatorError> {
        let run = |row: &usize| {
            let run = self.runs(*row..*row + 1).next();
            run.ok_or_else(|| OperatorError::Internal(format!("row {row} is not in the frame")))
        };
        let refs = rows.iter().map(|row| run(row).map(|run| RowRef::new(run.batch, run.first_row)));
        let refs: Vec<RowRef> = refs.collect::<Result<_, _>>()?;
        let kinds = rows.iter().map(|row| {
            run(row).map(|run| run.kinds.and_then(|kinds| kinds.first().copied()).unwrap_or(RowKind::Insert as u8))
        });
        let kinds: Vec<u8> = kinds.collect::<Result<_, _>>()?;
        let mut batches = Vec::new();
        let mut done = 0;
        while done < refs.len() {
            let piece = done..done + self.frame.fitting(&refs[done..])?;
            let batch = self.frame.gather(&refs[piece.clone()])?;
            done = piece.end;
            batches.push(batch.with_kinds(Some(UInt8Array::from(kinds[piece].to_vec())))?);
        }
        Ok(batches)
    }

    /// The last row of each key in the frame, in first-touch order of the keys.
    pub(crate) fn last_rows(&self) -> Result<Vec<Batch>, OperatorError> {
        let mut last = vec![0; self.touched.slots.len()];
        for (row, key) in self.touched.groups.iter().enumerate() {
            if let Some(last) = last.get_mut(*key as usize) {
                *last = row;
            }
        }
        self.gather(&last)
    }

    /// Writes what the transitions of the frame come to, and forgets keys that have no row. The written keys live from now on.
    pub(crate) fn commit(&mut self, transitions: &Transitions) -> Result<(), OperatorError> {
        let composed = transitions.composed();
        let (mut stored, mut slots) = (Vec::new(), Vec::new());
        let mut gone: Vec<bool> = self.before.iter().map(Option::is_none).collect();
        for transition in composed.as_slice() {
            let key = transition.key as usize;
            let (Some(slot), Some(gone)) = (self.touched.slots.get(key), gone.get_mut(key)) else {
                return Err(OperatorError::Internal(format!("key number {key} is not known")));
            };
            *gone = transition.after.is_none();
            if let Some(after) = transition.after {
                stored.push(after);
                slots.push(*slot);
            }
        }
        let kept = self.frame.gather(&stored)?;
        let numbers: Vec<u32> = (0..).take(slots.len()).collect();
        self.table.rows(self.rows)?.store(kept.columns(), &numbers, &slots)?;
        self.table.commit(&slots);
        for (slot, gone) in self.touched.slots.iter().zip(gone) {
            if gone {
                self.table.remove(*slot)?;
            }
        }
        Ok(())
    }

    /// All keys of the frame live from now on. Comes behind [`RowPerKey::commit`], and none of them may be gone.
    pub(crate) fn refresh(&mut self) {
        self.table.commit(&self.touched.slots);
    }

    /// Forgets all keys of the frame.
    pub(crate) fn remove_keys(&mut self) -> Result<(), OperatorError> {
        self.touched.slots.iter().try_for_each(|slot| Ok(self.table.remove(*slot)?))
    }

    /// Bytes of the frame, without its rows.
    pub(crate) fn bytes(&self) -> usize {
        self.changes.bytes()
            + self.before.capacity() * size_of::<Option<RowRef>>()
            + (self.touched.groups.capacity() + self.touched.slots.capacity()) * size_of::<u32>()
    }

    /// The next rows of output. With the last ones the frame ends.
    pub(crate) fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let batch = self.changes.pull(&self.frame)?;
        if batch.is_none() {
            self.frame.clear();
            self.inputs.clear();
        }
        Ok(batch)
    }
}
