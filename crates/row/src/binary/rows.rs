//! Whole rows of a batch as the bytes of Flink's BinaryRow, for a reader that wants rows.

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;

use super::{KeyEncoder, KeyError, KeyRows};
use crate::batch::Batch;

/// Room for encoded rows that is kept from batch to batch. More is given back.
const KEPT_BYTES: usize = 8 << 20;

/// Writes batches as rows in the form of Flink's row serializer.
///
/// Follows: RowDataSerializer.toBinaryRow, Flink 2.2. Differences: rows with a ROW or a collection have no encoder.
#[derive(Debug, Clone)]
pub struct RowEncoder {
    encoder: KeyEncoder,
    rows: KeyRows,
}

/// Rows, one behind the other, each a multiple of 8 bytes.
#[derive(Debug, Clone, Copy)]
pub struct EncodedRows<'a> {
    /// The bytes of all rows.
    pub bytes: &'a [u8],
    /// Where each row starts in them, and where the last one ends.
    pub offsets: &'a [usize],
}

impl RowEncoder {
    /// An encoder for rows of these fields, or why there is none.
    pub fn try_new(types: &[LogicalType]) -> Result<Self, Reason> {
        Ok(Self { encoder: KeyEncoder::like_serializer(types)?, rows: KeyRows::new() })
    }

    /// The rows of `batch`, kinds included, in the place of those before; `None` if it lacks a column. Errors if it has other
    /// columns.
    pub fn encode(&mut self, batch: &Batch) -> Result<Option<EncodedRows<'_>>, KeyError> {
        if batch.columns().iter().any(|column| *column.data_type() == DataType::Null) {
            return Ok(None);
        }
        if self.rows.capacity() > KEPT_BYTES {
            self.rows = KeyRows::new();
        }
        self.encoder.encode(batch.columns(), batch.num_rows(), &mut self.rows)?;
        if let Some(kinds) = batch.kinds() {
            self.rows.set_kinds(kinds.values().iter().copied());
        }
        let (bytes, offsets) = self.rows.parts();
        Ok(Some(EncodedRows { bytes, offsets }))
    }
}
