//! CASE, IF, AND and OR: which rows see which operand.
//!
//! Flink's generated code evaluates a branch only for a row whose condition holds, and the right side of an AND only for a
//! row whose left side is not FALSE. An operand that cannot fail and does not leave this engine (*eager*) gives the same
//! result when it is evaluated for all rows, which is cheaper; every other one sees exactly the rows that need it.
//!
//! Follows: ScalarOperatorGens.generateIfElse, generateAnd, generateOr and IfCallGen, Flink 2.2.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, NullArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{and, and_kleene, and_not, filter, not, or_kleene, take};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::DataFusionError;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_plan::Reason;
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::{LogicalType, TypeKind};

use crate::call::write_call;
use crate::error::ExprError;
use crate::functions::convert::Primitive;
use crate::literal;
use crate::names::type_name;
use crate::registry::{self, Kernel};
use crate::values::{holds, mismatch, typed};

type DfResult<T> = Result<T, DataFusionError>;

/// The conditional forms.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// CASE or IF: conditions and results alternate, the default comes last. The cast of each result to the type of the whole.
    Case(Vec<Option<Kernel>>),
    /// AND
    And,
    /// OR
    Or,
}

impl Form {
    /// The conditional form of a call; `None` for every other function.
    pub(crate) fn of(name: &str, operands: &[Rex], ty: &LogicalType) -> Option<Result<Self, Reason>> {
        match name {
            "CASE" => Some(case(operands, ty)),
            "IF" if operands.len() == 3 => Some(check_if(operands, ty).and_then(|()| case(operands, ty))),
            "AND" => Some(booleans(operands, "AND").map(|()| Self::And)),
            "OR" => Some(booleans(operands, "OR").map(|()| Self::Or)),
            _ => None,
        }
    }
}

/// Flink's IF forgets that the cast of a result may be NULL or fail. So each result needs no cast, or one that does neither.
fn check_if(operands: &[Rex], ty: &LogicalType) -> Result<(), Reason> {
    let is_text = |kind: &TypeKind| matches!(kind, TypeKind::Char(_) | TypeKind::VarChar(_));
    for result in operands.iter().skip(1) {
        let Some(found) = result.ty() else { continue };
        let same = found.kind == ty.kind || found.kind == TypeKind::Null;
        let total = (Primitive::of(&found.kind).is_some() && Primitive::of(&ty.kind).is_some())
            || (is_text(&found.kind) && is_text(&ty.kind));
        if !same && !total {
            return Err(Reason::new(format!(
                "IF with a result of {} among {} is not supported natively",
                type_name(&found.kind),
                type_name(&ty.kind)
            )));
        }
    }
    Ok(())
}

fn booleans(operands: &[Rex], name: &str) -> Result<(), Reason> {
    if operands.len() >= 2 && operands.iter().all(is_boolean) {
        return Ok(());
    }
    Err(Reason::new(format!("{name} of operands other than BOOLEAN is not supported natively")))
}

fn is_boolean(rex: &Rex) -> bool {
    rex.ty().is_some_and(|ty| ty.kind == TypeKind::Boolean)
}

fn case(operands: &[Rex], ty: &LogicalType) -> Result<Form, Reason> {
    if operands.len().is_multiple_of(2) {
        return Err(Reason::new("CASE without a default is not supported natively"));
    }
    let (default, branches) =
        operands.split_last().ok_or_else(|| Reason::new("CASE without operands is not supported natively"))?;
    let mut casts = Vec::with_capacity(branches.len() / 2 + 1);
    for pair in branches.chunks(2) {
        let [condition, result] = pair else { continue };
        if !is_boolean(condition) {
            return Err(Reason::new("a CASE condition that is not BOOLEAN is not supported natively"));
        }
        casts.push(result_cast(result, ty)?);
    }
    casts.push(result_cast(default, ty)?);
    Ok(Form::Case(casts))
}

/// The cast of a result to the type of the whole: as TRY_CAST, `None` where the types agree.
fn result_cast(result: &Rex, ty: &LogicalType) -> Result<Option<Kernel>, Reason> {
    match result {
        Rex::Literal { value, ty } if literal::is_untyped(value, ty) => Ok(None),
        _ if result.ty().is_some_and(|found| found.kind == ty.kind) => Ok(None),
        _ => registry::lookup("TRY_CAST", 1, std::slice::from_ref(result), ty).map(Some),
    }
}

/// An operand with what decides whether it may see rows that do not need it.
#[derive(Debug, Clone)]
pub(crate) struct Operand {
    /// The expression.
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    /// Whether it can be evaluated for every row.
    pub(crate) eager: bool,
    /// The columns that it reads, ascending.
    pub(crate) inputs: Vec<usize>,
}

// Derived, it would move the expression out of its `Arc`.
impl PartialEq for Operand {
    fn eq(&self, other: &Self) -> bool {
        self.expr.eq(&other.expr) && self.eager == other.eager && self.inputs == other.inputs
    }
}

impl Eq for Operand {}

impl Hash for Operand {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
    }
}

impl Operand {
    /// Values for the rows of `rows` (all of them where it is `None`); the others are NULL or arbitrary.
    fn evaluate_for(&self, batch: &RecordBatch, rows: Option<&BooleanArray>) -> DfResult<ColumnarValue> {
        let rows = match rows {
            Some(rows) if !self.eager && rows.true_count() < rows.len() => rows,
            _ => return self.expr.evaluate(batch),
        };
        let selected = self.select(batch, rows)?;
        match self.expr.evaluate(&selected)? {
            ColumnarValue::Array(values) => Ok(ColumnarValue::Array(scatter(&values, rows)?)),
            scalar => Ok(scalar),
        }
    }

    /// The rows of `rows`. Columns that the operand does not read keep their place but have no values.
    fn select(&self, batch: &RecordBatch, rows: &BooleanArray) -> Result<RecordBatch, ExprError> {
        let count = rows.true_count();
        let unread: ArrayRef = Arc::new(NullArray::new(count));
        let mut columns = Vec::with_capacity(batch.num_columns());
        let mut fields = Vec::with_capacity(batch.num_columns());
        for (index, column) in batch.columns().iter().enumerate() {
            let column =
                if self.inputs.binary_search(&index).is_ok() { filter(column, rows)? } else { Arc::clone(&unread) };
            fields.push(Field::new(batch.schema_ref().field(index).name(), column.data_type().clone(), true));
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
    }
}

/// Puts `values` at the rows that are true, in order; the other rows are NULL.
fn scatter(values: &ArrayRef, rows: &BooleanArray) -> Result<ArrayRef, ExprError> {
    let mut next = 0_u32;
    let positions: UInt32Array = rows
        .values()
        .iter()
        .map(|needed| {
            needed.then(|| {
                let position = next;
                next += 1;
                position
            })
        })
        .collect();
    Ok(take(values, &positions, None)?)
}

/// AND or OR of two or more operands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Junction {
    /// Whether this is AND.
    pub(crate) kind: JunctionKind,
    /// The operands, in order.
    pub(crate) operands: Vec<Operand>,
}

/// Which junction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum JunctionKind {
    /// AND
    And,
    /// OR
    Or,
}

impl Junction {
    /// Rows whose result is not yet decided by `left`.
    fn open(&self, left: &BooleanArray) -> Result<BooleanArray, ExprError> {
        let decided = match self.kind {
            JunctionKind::And => not(left)?,
            JunctionKind::Or => left.clone(),
        };
        let decided: ArrayRef = Arc::new(decided);
        Ok(not(&holds(&decided)?)?)
    }
}

impl fmt::Display for Junction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            JunctionKind::And => "AND",
            JunctionKind::Or => "OR",
        };
        write_call(f, name, &self.operands.iter().map(|operand| Arc::clone(&operand.expr)).collect::<Vec<_>>())
    }
}

impl PhysicalExpr for Junction {
    fn data_type(&self, _input_schema: &Schema) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _input_schema: &Schema) -> DfResult<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        let rows = batch.num_rows();
        let mut result: Option<BooleanArray> = None;
        for operand in &self.operands {
            let value = match &result {
                Some(left) if !operand.eager => {
                    let open = self.open(left)?;
                    if !open.has_true() {
                        break;
                    }
                    operand.evaluate_for(batch, Some(&open))?
                }
                _ => operand.evaluate_for(batch, None)?,
            };
            let value = value.into_array_of_size(rows)?;
            let value = typed::<BooleanArray>(&value)?;
            result = Some(match (result, self.kind) {
                (None, _) => value.clone(),
                (Some(left), JunctionKind::And) => and_kleene(&left, value)?,
                (Some(left), JunctionKind::Or) => or_kleene(&left, value)?,
            });
        }
        let result = result.ok_or_else(|| mismatch("a junction has operands"))?;
        Ok(ColumnarValue::Array(Arc::new(result)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.operands.iter().map(|operand| &operand.expr).collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        let operands = with_exprs(&self.operands, children)?;
        Ok(Arc::new(Self { kind: self.kind, operands }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn with_exprs(operands: &[Operand], exprs: Vec<Arc<dyn PhysicalExpr>>) -> Result<Vec<Operand>, ExprError> {
    if operands.len() != exprs.len() {
        return Err(mismatch("the number of operands changed"));
    }
    Ok(operands.iter().zip(exprs).map(|(operand, expr)| Operand { expr, ..operand.clone() }).collect())
}

/// CASE and IF.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Conditions and results in turn, the default last.
    pub(crate) operands: Vec<Operand>,
    /// Type of the result.
    pub(crate) output: DataType,
}

impl PartialEq for Case {
    fn eq(&self, other: &Self) -> bool {
        self.operands == other.operands
    }
}

impl Eq for Case {}

impl Hash for Case {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.operands.hash(state);
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "CASE", &self.operands.iter().map(|operand| Arc::clone(&operand.expr)).collect::<Vec<_>>())
    }
}

impl PhysicalExpr for Case {
    fn data_type(&self, _input_schema: &Schema) -> DfResult<DataType> {
        Ok(self.output.clone())
    }

    fn nullable(&self, _input_schema: &Schema) -> DfResult<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        let rows = batch.num_rows();
        // Rows that no condition has taken yet; `None` is all of them.
        let mut open: Option<BooleanArray> = None;
        let mut taken: Vec<(BooleanArray, ColumnarValue)> = Vec::with_capacity(self.operands.len() / 2);
        let Some((default, branches)) = self.operands.split_last() else {
            return Err(mismatch("CASE has operands").into());
        };
        for pair in branches.chunks(2) {
            let [condition, result] = pair else { return Err(mismatch("CASE lacks a result").into()) };
            if open.as_ref().is_some_and(|open| !open.has_true()) {
                break;
            }
            let condition = condition.evaluate_for(batch, open.as_ref())?.into_array_of_size(rows)?;
            let mut chosen = holds(&condition)?;
            if let Some(open) = &open {
                chosen = and(&chosen, open)?;
            }
            if !chosen.has_true() {
                continue;
            }
            let value = result.evaluate_for(batch, Some(&chosen))?;
            open = Some(match open {
                None => not(&chosen)?,
                Some(open) => and_not(&open, &chosen)?,
            });
            taken.push((chosen, value));
        }
        let mut result = match &open {
            Some(open) if !open.has_true() => match taken.pop() {
                Some((_, value)) => value,
                None => default.expr.evaluate(batch)?,
            },
            _ => default.evaluate_for(batch, open.as_ref())?,
        };
        for (chosen, value) in taken.into_iter().rev() {
            result = ColumnarValue::Array(choose(&chosen, &value, &result)?);
        }
        Ok(result)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.operands.iter().map(|operand| &operand.expr).collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        let operands = with_exprs(&self.operands, children)?;
        Ok(Arc::new(Self { operands, output: self.output.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `yes` where `chosen`, else `no`.
fn choose(chosen: &BooleanArray, yes: &ColumnarValue, no: &ColumnarValue) -> Result<ArrayRef, ExprError> {
    Ok(match (yes, no) {
        (ColumnarValue::Array(yes), ColumnarValue::Array(no)) => zip(chosen, yes, no)?,
        (ColumnarValue::Scalar(yes), ColumnarValue::Array(no)) => zip(chosen, &yes.to_scalar()?, no)?,
        (ColumnarValue::Array(yes), ColumnarValue::Scalar(no)) => zip(chosen, yes, &no.to_scalar()?)?,
        (ColumnarValue::Scalar(yes), ColumnarValue::Scalar(no)) => zip(chosen, &yes.to_scalar()?, &no.to_scalar()?)?,
    })
}
