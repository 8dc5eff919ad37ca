//! The rows of a bundle, by reference.

use std::num::{NonZeroU32, NonZeroU64};

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::DataType;
use streamfusion_row::Batch;
use streamfusion_row::gather::GatherError;

use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError};

/// Rows that may be held for nothing before [`BundleRows::wants_compaction`].
const COMPACTION_ROWS: usize = 1 << 16;

/// A batch of [`BundleRows`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchNumber(NonZeroU32);

/// A row of [`BundleRows`]: the number of the batch in the upper half, of the row in the lower one. An `Option` of it is not larger. Two fields would be
/// put together in memory where many are written one by one, for which the processor waits at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowRef(NonZeroU64);

impl RowRef {
    /// A row of a batch.
    #[inline]
    pub fn new(batch: BatchNumber, row: u32) -> Self {
        let batch = NonZeroU64::from(batch.0);
        // the batch is above the row, and stays what it is
        Self(NonZeroU64::new(batch.get() << 32 | u64::from(row)).unwrap_or(batch))
    }

    /// The row as a number, which is 2^32 or more.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// The row whose number this is, or a smaller number itself.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Result<Self, u32> {
        // a number below 2^32 is its own lower half
        NonZeroU64::new(bits).filter(|bits| bits.get() > u64::from(u32::MAX)).map(Self).ok_or(bits as u32)
    }

    /// Position of the batch.
    #[inline]
    pub(crate) fn batch(self) -> usize {
        (self.0.get() >> 32) as usize - 1
    }

    /// Number of the row in the batch.
    #[inline]
    pub(crate) fn number(self) -> u32 {
        // the lower half
        self.0.get() as u32
    }

    /// The same as a position.
    #[inline]
    pub(crate) fn row(self) -> usize {
        self.number() as usize
    }

    /// The row so many rows behind this one, if that is one of its batch.
    fn behind(self, rows: usize) -> Option<Self> {
        let row = u32::try_from(self.row().checked_add(rows)?).ok()?;
        Some(Self(NonZeroU64::new(self.0.get() >> 32 << 32 | u64::from(row))?))
    }
}

/// The batches of a bundle: those that came in and those loaded from state, all of one type. Their row kinds are not kept.
///
/// A batch is shared, not copied. If it is a view, all of the batch behind it stays in memory for as long.
#[derive(Debug, Default)]
pub struct BundleRows {
    batches: Vec<Batch>,
    /// Rows of each batch.
    lengths: Vec<u32>,
    rows: usize,
    /// Bytes of text and binary values.
    value_bytes: usize,
    /// How many batches `bytes` comprises.
    measured: usize,
    bytes: usize,
}

impl BundleRows {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps a batch. Its number is valid until [`BundleRows::clear`] or [`BundleRows::compact`].
    pub fn add(&mut self, batch: &Batch) -> Result<BatchNumber, OperatorError> {
        let number = u32::try_from(self.batches.len() + 1).ok().and_then(NonZeroU32::new);
        let (Some(number), Ok(length)) = (number, u32::try_from(batch.num_rows())) else {
            return Err(OperatorError::Internal(format!("a bundle of {} batches", self.batches.len())));
        };
        self.rows += batch.num_rows();
        self.value_bytes += batch.columns().iter().map(value_bytes).sum::<usize>();
        self.batches.push(batch.clone().with_kinds(None)?);
        self.lengths.push(length);
        Ok(BatchNumber(number))
    }

    /// Forgets all batches.
    pub fn clear(&mut self) {
        self.batches.clear();
        self.lengths.clear();
        (self.rows, self.value_bytes, self.measured, self.bytes) = (0, 0, 0, 0);
    }

    /// Rows of all batches, referred to or not.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// The number of columns; 0 without batches.
    pub fn num_columns(&self) -> usize {
        self.batches.first().map_or(0, |batch| batch.columns().len())
    }

    /// Bytes of these rows. What lies around a view in its buffers is not counted.
    pub fn bytes(&mut self) -> usize {
        self.bytes += self.batches[self.measured..].iter().map(Batch::bytes).sum::<usize>();
        self.measured = self.batches.len();
        self.bytes + self.batches.len() * size_of::<Batch>()
    }

    /// [`BundleRows::bytes`], measured anew.
    pub(crate) fn held_bytes(&self) -> usize {
        let unmeasured = self.batches[self.measured..].iter().map(Batch::bytes).sum::<usize>();
        self.bytes + unmeasured + self.batches.len() * size_of::<Batch>()
    }

    /// Column `column` of every batch.
    pub(crate) fn column(&self, column: usize) -> Result<Vec<&dyn Array>, OperatorError> {
        self.batches
            .iter()
            .map(|batch| {
                let columns = batch.columns();
                columns.get(column).map(AsRef::as_ref).ok_or_else(|| {
                    OperatorError::Internal(format!("column {column} of a row of {} columns", columns.len()))
                })
            })
            .collect()
    }

    /// Errors unless there is such a row.
    #[inline]
    pub(super) fn check(&self, row: RowRef) -> Result<(), OperatorError> {
        match self.lengths.get(row.batch()) {
            Some(length) if row.number() < *length => Ok(()),
            Some(length) => Err(GatherError::Row { row: row.row(), rows: *length as usize }.into()),
            None => Err(GatherError::Batch { batch: row.batch(), batches: self.lengths.len() }.into()),
        }
    }

    /// These rows as a batch without row kinds, in this order. Errors for a row of another bundle, and if text outgrows a
    /// column: see [`BundleRows::fitting`].
    pub fn gather(&self, rows: &[RowRef]) -> Result<Batch, OperatorError> {
        if let [batch] = self.batches.as_slice() {
            if let Some(row) = rows.iter().find(|row| row.batch() != 0) {
                return Err(GatherError::Batch { batch: row.batch(), batches: 1 }.into());
            }
            return Ok(batch.take(&UInt32Array::from_iter_values(rows.iter().map(|row| row.number())))?);
        }
        let indices: Vec<(usize, usize)> = rows.iter().map(|row| (row.batch(), row.row())).collect();
        Ok(Batch::interleave(&self.batches, &indices)?)
    }

    /// [`BundleRows::gather`], but rows that stand side by side in a batch are a view of it.
    pub(crate) fn gather_or_slice(&self, rows: &[RowRef]) -> Result<Batch, OperatorError> {
        if let Some(first) = rows.first()
            && rows.iter().enumerate().all(|(behind, row)| first.behind(behind) == Some(*row))
        {
            return Ok(self.batch(*first)?.slice(first.row(), rows.len())?);
        }
        self.gather(rows)
    }

    /// The batch of a row.
    pub(crate) fn batch(&self, row: RowRef) -> Result<&Batch, OperatorError> {
        let batches = self.batches.len();
        Ok(self.batches.get(row.batch()).ok_or(GatherError::Batch { batch: row.batch(), batches })?)
    }

    /// Whether any [`OUTPUT_BATCH_ROWS`] of its rows may be gathered into one output batch.
    pub(crate) fn fits(&self) -> bool {
        // a row is emitted twice at most: as +U and as -U
        2 * self.value_bytes <= OUTPUT_BATCH_BYTES
    }

    /// How many of these rows, from the first one, may be gathered into one output batch: at most [`OUTPUT_BATCH_ROWS`], and
    /// with at most [`OUTPUT_BATCH_BYTES`] of text and binary values unless it is a single row. A row may come twice.
    pub fn fitting(&self, rows: &[RowRef]) -> Result<usize, OperatorError> {
        let candidates = &rows[..rows.len().min(OUTPUT_BATCH_ROWS)];
        if self.fits() {
            return Ok(candidates.len());
        }
        candidates.iter().try_for_each(|row| self.check(*row))?;
        let mut sums = vec![0; candidates.len()];
        for column in 0..self.num_columns() {
            add_value_bytes(&self.column(column)?, candidates, &mut sums);
        }
        let mut total = 0_usize;
        let fitting = sums.iter().take_while(|bytes| {
            total = total.saturating_add(**bytes);
            total <= OUTPUT_BATCH_BYTES
        });
        Ok(fitting.count().max(1).min(candidates.len()))
    }

    /// Whether most rows are held for nothing, if `live` of them are referred to.
    pub fn wants_compaction(&self, live: usize) -> bool {
        self.rows > COMPACTION_ROWS.max(4 * live)
    }

    /// Drops all rows but `live`, which refer to their new places afterwards. All other references become invalid, and
    /// after an error these as well.
    pub fn compact<'a>(&mut self, live: impl IntoIterator<Item = &'a mut RowRef>) -> Result<(), OperatorError> {
        let live: Vec<&mut RowRef> = live.into_iter().collect();
        let rows: Vec<RowRef> = live.iter().map(|row| **row).collect();
        let mut kept = Self::new();
        let mut places = live.into_iter();
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(self.fitting(rest)?);
            let batch = kept.add(&self.gather(piece)?)?;
            for (row, place) in (0..).zip(places.by_ref().take(piece.len())) {
                *place = RowRef::new(batch, row);
            }
            rest = behind;
        }
        *self = kept;
        Ok(())
    }
}

/// Per row of a batch: bytes of its text and binary values; `None` if there are none.
pub(crate) fn value_bytes_of_rows(batch: &Batch) -> Option<Vec<usize>> {
    if batch.columns().iter().map(value_bytes).sum::<usize>() == 0 {
        return None;
    }
    let number = BatchNumber(NonZeroU32::MIN);
    let rows: Vec<RowRef> = (0..).take(batch.num_rows()).map(|row| RowRef::new(number, row)).collect();
    let mut sums = vec![0; rows.len()];
    for column in batch.columns() {
        add_value_bytes(&[column.as_ref()], &rows, &mut sums);
    }
    Some(sums)
}

/// Bytes of the text and binary values in a column.
fn value_bytes(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8 => span(column.as_string::<i32>().value_offsets()),
        DataType::Binary => span(column.as_binary::<i32>().value_offsets()),
        DataType::Struct(_) => column.as_struct().columns().iter().map(value_bytes).sum(),
        _ => 0,
    }
}

/// Adds to `sums` the bytes of the text and binary values of these rows. `arrays` is a column, batch by batch.
fn add_value_bytes(arrays: &[&dyn Array], rows: &[RowRef], sums: &mut [usize]) {
    let add = |offsets: Vec<&[i32]>, sums: &mut [usize]| {
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum += span(&offsets[row.batch()][row.row()..=row.row() + 1]);
        }
    };
    match arrays.first().map(|array| array.data_type()) {
        Some(DataType::Utf8) => {
            add(arrays.iter().map(|array| array.as_string::<i32>().value_offsets()).collect(), sums);
        }
        Some(DataType::Binary) => {
            add(arrays.iter().map(|array| array.as_binary::<i32>().value_offsets()).collect(), sums);
        }
        Some(DataType::Struct(fields)) => {
            for field in 0..fields.len() {
                let children: Vec<&dyn Array> =
                    arrays.iter().map(|array| array.as_struct().column(field).as_ref()).collect();
                add_value_bytes(&children, rows, sums);
            }
        }
        _ => {}
    }
}

/// Bytes between the first and the last offset.
fn span(offsets: &[i32]) -> usize {
    match offsets {
        // offsets ascend
        [first, .., last] => usize::try_from(last - first).unwrap_or_default(),
        _ => 0,
    }
}
