//! What Flink writes for a NULL whose type is NOT NULL: FALSE, -1, -1.0, the empty text.
//!
//! Follows: CodeGenUtils.rowSetField, primitiveDefaultValue, Flink 2.2.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use crate::error::ExprError;
use crate::values::mismatch;

type DfResult<T> = Result<T, DataFusionError>;

/// A value, or the default of its type where it is NULL.
#[derive(Debug, Clone)]
pub(crate) struct OrDefault {
    value: Arc<dyn PhysicalExpr>,
    default: ScalarValue,
}

impl OrDefault {
    pub(crate) fn try_new(value: Arc<dyn PhysicalExpr>, ty: &DataType) -> Result<Self, ExprError> {
        let default = match ty {
            DataType::Boolean => ScalarValue::Boolean(Some(false)),
            DataType::Int8 => ScalarValue::Int8(Some(-1)),
            DataType::Int16 => ScalarValue::Int16(Some(-1)),
            DataType::Int32 => ScalarValue::Int32(Some(-1)),
            DataType::Int64 => ScalarValue::Int64(Some(-1)),
            DataType::Float32 => ScalarValue::Float32(Some(-1.0)),
            DataType::Float64 => ScalarValue::Float64(Some(-1.0)),
            DataType::Date32 => ScalarValue::Date32(Some(-1)),
            DataType::Time32(_) => ScalarValue::Time32Millisecond(Some(-1)),
            DataType::Utf8 => ScalarValue::Utf8(Some(String::new())),
            _ => return Err(mismatch(format!("{ty} has no default"))),
        };
        Ok(Self { value, default })
    }
}

// Derived, it would move the child out of its `Arc`.
impl PartialEq for OrDefault {
    fn eq(&self, other: &Self) -> bool {
        self.value.eq(&other.value)
    }
}

impl Eq for OrDefault {}

impl Hash for OrDefault {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl fmt::Display for OrDefault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.value, f)
    }
}

impl PhysicalExpr for OrDefault {
    fn data_type(&self, _input_schema: &Schema) -> DfResult<DataType> {
        Ok(self.default.data_type())
    }

    fn nullable(&self, _input_schema: &Schema) -> DfResult<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        Ok(match self.value.evaluate(batch)? {
            ColumnarValue::Array(values) => match values.nulls() {
                Some(nulls) if nulls.null_count() > 0 => {
                    let valid = BooleanArray::new(nulls.inner().clone(), None);
                    ColumnarValue::Array(zip(&valid, &values, &self.default.to_scalar()?)?)
                }
                _ => ColumnarValue::Array(values),
            },
            ColumnarValue::Scalar(value) if value.is_null() => ColumnarValue::Scalar(self.default.clone()),
            scalar @ ColumnarValue::Scalar(_) => scalar,
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.value]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        let value = children.pop().ok_or_else(|| mismatch("a value or its default has one child"))?;
        Ok(Arc::new(Self { value, default: self.default.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
