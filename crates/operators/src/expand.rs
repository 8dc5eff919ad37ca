//! Each row several times, once per projection.
//!
//! GROUPING SETS and split DISTINCT aggregates need it. The copies of a row lie side by side, in the order of the projections
//! and with the row's kind, so that nothing overtakes anything.
//!
//! Follows: StreamExecExpand (ExpandCodeGenerator), Flink 2.2. Differences: none.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, NullArray, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, UInt8Type};
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::{compile, evaluate, host_calls};
use streamfusion_plan::Reason;
use streamfusion_plan::node;
use streamfusion_plan::rex::Rex;
use streamfusion_row::Batch;

use crate::calc::{like, record_batch, slice};
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, Operator, OperatorError};

/// Whether the projections run natively: those that Flink's planner makes are columns and literals.
pub fn supports(spec: &node::Expand) -> Result<(), Reason> {
    for rex in spec.projects.iter().flatten() {
        if let Some(call) = host_calls(rex, "")?.into_iter().next() {
            return Err(Reason::new(format!("one of its expressions is not native: {}", call.reason)));
        }
    }
    Ok(())
}

/// See the [module](self).
#[derive(Debug)]
pub struct Expand {
    columns: Vec<Column>,
    /// Copies of each row.
    copies: usize,
    rest: Option<Batch>,
}

/// A column of the output.
#[derive(Debug)]
enum Column {
    /// The same column of the input in each copy.
    Repeated(usize),
    /// One expression per copy.
    Expressions(Vec<Arc<dyn PhysicalExpr>>),
}

impl Expand {
    /// Compiles the projections. Errors if one of them is not native.
    pub fn try_new(spec: &node::Expand) -> Result<Self, OperatorError> {
        let ragged = || OperatorError::Internal("projections of different widths".into());
        let width = spec.projects.first().map_or(0, Vec::len);
        let column = |position: usize| {
            let copies = spec.projects.iter().map(|project| project.get(position).ok_or_else(ragged));
            let copies = copies.collect::<Result<Vec<&Rex>, _>>()?;
            if let Some(Rex::InputRef { index, .. }) = copies.first()
                && copies.iter().all(|rex| matches!(rex, Rex::InputRef { index: other, .. } if other == index))
            {
                return Ok(Column::Repeated(*index));
            }
            let compiled = copies.iter().map(|rex| compile(rex, "", &|_| None));
            Ok(Column::Expressions(compiled.collect::<Result<_, _>>()?))
        };
        let columns = (0..width).map(column).collect::<Result<_, OperatorError>>()?;
        Ok(Self { columns, copies: spec.projects.len(), rest: None })
    }

    fn expand(&self, batch: &Batch) -> Result<Batch, OperatorError> {
        let (rows, copies) = (batch.num_rows(), self.copies);
        let repeated: UInt32Array = (0..).take(rows).flat_map(|row| std::iter::repeat_n(row, copies)).collect();
        let alternating: Vec<(usize, usize)> =
            (0..rows).flat_map(|row| (0..copies).map(move |copy| (copy, row))).collect();
        let input = record_batch(batch.columns(), rows)?;
        let column = |column: &Column| match column {
            Column::Repeated(index) => {
                let column = batch.columns().get(*index).ok_or_else(|| {
                    OperatorError::Input(format!("column {index} of {} columns", batch.columns().len()))
                })?;
                match column.data_type() {
                    DataType::Null => Ok(Arc::new(NullArray::new(rows * copies)) as ArrayRef),
                    _ => Ok(take(column, &repeated, None)?),
                }
            }
            Column::Expressions(expressions) => {
                let parts = expressions.iter().map(|expression| Ok(evaluate(expression, &input)?));
                let parts = parts.collect::<Result<Vec<ArrayRef>, OperatorError>>()?;
                // a column that nobody reads has no values in some of the copies
                if parts.iter().any(|part| *part.data_type() == DataType::Null) {
                    return Ok(Arc::new(NullArray::new(rows * copies)) as ArrayRef);
                }
                let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
                Ok(interleave(&parts, &alternating)?)
            }
        };
        let columns = self.columns.iter().map(column).collect::<Result<Vec<_>, OperatorError>>()?;
        let kinds = batch.kinds().map(|kinds| take(kinds, &repeated, None)).transpose()?;
        let kinds = kinds.and_then(|kinds| kinds.as_primitive_opt::<UInt8Type>().cloned());
        Ok(like(batch, Batch::try_new(columns, rows * copies, kinds)?))
    }

    /// How many rows are taken at once, so that what becomes of them is a batch of the usual size; at least one.
    fn piece_rows(&self, batch: &Batch) -> usize {
        let copies = self.copies.max(1);
        let by_bytes = OUTPUT_BATCH_BYTES * batch.num_rows() / (batch.bytes() * copies).max(1);
        by_bytes.min(OUTPUT_BATCH_ROWS / copies).clamp(1, batch.num_rows().max(1))
    }
}

impl Operator for Expand {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.rest = Some(batch);
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let Some(batch) = self.rest.take().filter(|batch| batch.num_rows() > 0) else { return Ok(None) };
        let rows = self.piece_rows(&batch);
        let expanded = self.expand(&slice(&batch, 0, rows)?)?;
        self.rest = Some(slice(&batch, rows, batch.num_rows() - rows)?);
        Ok(Some(expanded))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray, UInt8Array};
    use arrow::datatypes::Int64Type;
    use streamfusion_plan::rex::Literal;
    use streamfusion_plan::types::{LogicalType, TypeKind};

    use super::*;

    fn column(index: usize, kind: TypeKind) -> Rex {
        Rex::InputRef { index, ty: LogicalType { kind, nullable: true } }
    }

    fn null() -> Rex {
        Rex::Literal { value: Literal::Null, ty: LogicalType { kind: TypeKind::BigInt, nullable: true } }
    }

    /// The text and the number, then the text and NULL.
    fn expand() -> Result<Expand, OperatorError> {
        let text = || column(1, TypeKind::VarChar(10));
        let projects = vec![vec![text(), column(0, TypeKind::BigInt)], vec![text(), null()]];
        Expand::try_new(&node::Expand { projects })
    }

    fn drain(expand: &mut Expand, batch: Batch) -> Result<Vec<Batch>, OperatorError> {
        expand.push(batch)?;
        std::iter::from_fn(|| expand.pull().transpose()).collect()
    }

    #[test]
    fn copies_of_a_row_lie_side_by_side_with_its_kind() -> Result<(), OperatorError> {
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(StringArray::from(vec![Some("a"), None]))];
        let batch = Batch::try_new(columns, 2, Some(UInt8Array::from(vec![0, 3])))?;
        let out = drain(&mut expand()?, batch)?;
        assert_eq!(out.len(), 1);
        let texts: Vec<_> = out[0].columns()[0].as_string::<i32>().iter().collect();
        let numbers: Vec<_> = out[0].columns()[1].as_primitive::<Int64Type>().iter().collect();
        assert_eq!(texts, [Some("a"), Some("a"), None, None]);
        assert_eq!(numbers, [Some(1), None, Some(2), None]);
        assert_eq!(out[0].kinds().map(|kinds| kinds.values().to_vec()), Some(vec![0, 0, 3, 3]));
        Ok(())
    }

    #[test]
    fn a_large_batch_leaves_in_pieces_that_lose_nothing() -> Result<(), OperatorError> {
        let rows = 3 * OUTPUT_BATCH_ROWS;
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from_iter_values((0..).take(rows))), Arc::new(NullArray::new(rows))];
        let out = drain(&mut expand()?, Batch::try_new(columns, rows, None)?)?;
        assert!(out.len() > 1 && out.iter().all(|batch| batch.num_rows() <= OUTPUT_BATCH_ROWS));
        let numbers = out.iter().flat_map(|batch| batch.columns()[1].as_primitive::<Int64Type>().iter());
        let expected = (0..).take(rows).flat_map(|number| [Some(number), None]);
        assert!(numbers.eq(expected));
        Ok(())
    }
}
