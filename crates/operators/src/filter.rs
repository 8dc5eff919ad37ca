//! Filtering a batch: columns and row kinds alike.

use arrow::array::{BooleanArray, UInt8Array};
use arrow::compute::FilterBuilder;
use streamfusion_row::Batch;

use crate::OperatorError;

/// The rows for which `keep` is TRUE, with their kinds; `None` if there are none.
pub(crate) fn filter_batch(batch: &Batch, keep: &BooleanArray) -> Result<Option<Batch>, OperatorError> {
    let predicate = FilterBuilder::new(keep).optimize().build();
    let rows = predicate.count();
    if rows == 0 {
        return Ok(None);
    }
    let columns = batch.columns().iter().map(|column| predicate.filter(column)).collect::<Result<Vec<_>, _>>()?;
    let kinds = batch.kinds().map(|kinds| filter_kinds(kinds, keep));
    let filtered = Batch::try_new(columns, rows, kinds)?;
    Ok(Some(match batch.key_group() {
        Some(key_group) => filtered.with_key_group(key_group),
        None => filtered,
    }))
}

fn filter_kinds(kinds: &UInt8Array, keep: &BooleanArray) -> UInt8Array {
    let values = kinds.values();
    let kept = keep.iter().zip(values.iter()).filter(|(keep, _)| *keep == Some(true)).map(|(_, kind)| *kind);
    UInt8Array::from_iter_values(kept)
}
