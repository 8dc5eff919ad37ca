//! One row per key, whole, and what a frame of rows does to it: the state of deduplicate and changelog normalize.
//!
//! Per frame: the keys of its rows are looked up once ([`RowPerKey::load`]), the rows under them come out of the table as one batch
//! beside those that came in, and whoever folds them works with references to both. What is left of the frame is written
//! back once per key ([`RowPerKey::commit`]), and what is to be emitted is gathered as it is pulled.
//!
//! Invariant: between frames a key is in the table exactly if it has a row.

#[cfg(test)]
pub(crate) mod testing;

use arrow::array::ArrayRef;
use arrow::compute::concat;
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::types::arrow_type;
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
    /// Per key of the frame: its row before the frame.
    pub(crate) before: Vec<Option<RowRef>>,
    pub(crate) changes: Changes,
}

/// The keys of rows of the type `input`, and the Arrow types of its columns.
fn resolve(unique_keys: &[usize], input: &LogicalType) -> Result<(Keys, Vec<DataType>), Reason> {
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
            before: Vec::new(),
            changes: Changes::new(),
        })
    }

    /// Begins a frame of these batches: numbers the keys of their rows, one batch after the other, in `touched.groups`, and fetches
    /// the rows under them. Returns the numbers of the batches in the frame.
    pub(crate) fn load(&mut self, batches: &[Batch]) -> Result<Vec<BatchNumber>, OperatorError> {
        self.frame.clear();
        self.load_keys(batches)?;
        let rows = self.table.rows(self.rows)?;
        let present: Vec<u32> = self.touched.slots.iter().copied().filter(|slot| rows.has(*slot)).collect();
        self.before.clear();
        if present.is_empty() {
            self.before.resize(self.touched.slots.len(), None);
        } else {
            let loaded = Batch::try_new(rows.gather(&present)?, present.len(), None)?;
            let number = self.frame.add(&loaded)?;
            let mut next = 0;
            self.before.extend(self.touched.slots.iter().map(|slot| {
                rows.has(*slot).then(|| {
                    next += 1;
                    RowRef::new(number, next - 1)
                })
            }));
        }
        batches.iter().map(|batch| self.frame.add(batch)).collect()
    }

    fn load_keys(&mut self, batches: &[Batch]) -> Result<(), OperatorError> {
        let num_rows = batches.iter().map(Batch::num_rows).sum::<usize>();
        for batch in batches {
            let types = batch.columns().iter().map(|column| column.data_type());
            if !types.eq(&self.types) {
                let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
                return Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))));
            }
        }
        let columns = match batches {
            [batch] => self.keys.columns(batch)?,
            _ => {
                let parts = batches.iter().map(|batch| self.keys.columns(batch)).collect::<Result<Vec<_>, _>>()?;
                let count = parts.first().map_or(0, Vec::len);
                let column = |position: usize| -> Result<ArrayRef, OperatorError> {
                    let arrays: Vec<_> =
                        parts.iter().filter_map(|part| part.get(position)).map(AsRef::as_ref).collect();
                    Ok(concat(&arrays)?)
                };
                (0..count).map(column).collect::<Result<Vec<_>, _>>()?
            }
        };
        self.keys.load(&columns, num_rows, &mut self.table, &mut self.touched)
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

    /// The next rows of output. With the last ones the frame ends.
    pub(crate) fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let batch = self.changes.pull(&self.frame)?;
        if batch.is_none() {
            self.frame.clear();
        }
        Ok(batch)
    }
}
