//! A call that is native for a batch of ASCII, and goes to the JVM with any other.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, StringArray, new_empty_array};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::AsciiKernel;
use crate::call::HostExpr;
use crate::text::builder::text_bytes;

type DfResult<T> = Result<T, DataFusionError>;

/// See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct AsciiExpr {
    kernel: AsciiKernel,
    operands: Vec<Arc<dyn PhysicalExpr>>,
    host: HostExpr,
}

impl AsciiExpr {
    /// `host` evaluates the call, operands included, and has them as its own.
    pub(crate) fn new(kernel: AsciiKernel, operands: Vec<Arc<dyn PhysicalExpr>>, host: HostExpr) -> Self {
        Self { kernel, operands, host }
    }

    /// Whether the JVM would compute what the kernel does.
    fn is_plain(&self, values: &[ColumnarValue]) -> bool {
        (!self.kernel.changes_case || self.host.changes_ascii_case_plainly()) && values.iter().all(is_ascii)
    }
}

/// Whether a value, if it is text, is ASCII in all rows.
fn is_ascii(value: &ColumnarValue) -> bool {
    match value {
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))) => text.is_ascii(),
        ColumnarValue::Scalar(_) => true,
        ColumnarValue::Array(array) => match array.as_any().downcast_ref::<StringArray>() {
            // under NULL may be anything
            Some(texts) => {
                let start = texts.value_offsets().first().and_then(|start| usize::try_from(*start).ok());
                let bytes = start.and_then(|start| texts.value_data().get(start..start + text_bytes(texts)));
                bytes.is_some_and(<[u8]>::is_ascii)
            }
            None => *array.data_type() != DataType::Null,
        },
    }
}

// Derived, it would move the child out of its `Arc`.
impl PartialEq for AsciiExpr {
    fn eq(&self, other: &Self) -> bool {
        self.host == other.host
    }
}

impl Eq for AsciiExpr {}

impl Hash for AsciiExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.host.hash(state);
    }
}

impl fmt::Display for AsciiExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ASCII or {}", self.host)
    }
}

impl PhysicalExpr for AsciiExpr {
    fn data_type(&self, input_schema: &Schema) -> DfResult<DataType> {
        self.host.data_type(input_schema)
    }

    fn nullable(&self, _input_schema: &Schema) -> DfResult<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        if batch.num_rows() == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&self.data_type(&batch.schema())?)));
        }
        let values = self.operands.iter().map(|operand| operand.evaluate(batch)).collect::<DfResult<Vec<_>>>()?;
        if self.is_plain(&values) {
            return Ok((self.kernel.kernel.run)(&values, batch.num_rows())?);
        }
        self.host.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
