//! From typed plan expressions to physical expressions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column, Literal as LiteralExpr};
use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Function, Rex};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::types::arrow_type;

use crate::ascii::AsciiExpr;
use crate::call::{FieldOfRow, HostExpr, ScalarCall};
use crate::conditional::{Case, Form, Junction, JunctionKind, Operand};
use crate::default::OrDefault;
use crate::error::ExprError;
use crate::functions::search;
use crate::host::HostFunction;
use crate::registry::Kernel;
use crate::{literal, native, registry, whole};

/// Compiles `rex`, whose JSON pointer is `pointer`. `hosts` finds the function of each host call that
/// [`crate::host_calls`] listed, by its pointer.
///
/// Errors if an expression is neither native nor among `hosts`.
pub fn compile(
    rex: &Rex,
    pointer: &str,
    hosts: &dyn Fn(&str) -> Option<Arc<dyn HostFunction>>,
) -> Result<Arc<dyn PhysicalExpr>, ExprError> {
    let expr = Compiler { hosts }.operand(rex, pointer)?.expr;
    match rex.ty() {
        // Of an operand that is NULL although its type is NOT NULL; a JVM expression does it by itself.
        Some(ty) if whole::writes_default(rex) && hosts(pointer).is_none() => {
            let output = arrow_type(ty).map_err(|reason| refused(&reason, pointer))?;
            Ok(Arc::new(OrDefault::try_new(expr, &output)?))
        }
        _ => Ok(expr),
    }
}

/// The values of `expr` for the rows of `batch`: exactly `batch.num_rows()` of them.
pub fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef, ExprError> {
    let array = expr.evaluate(batch)?.into_array_of_size(batch.num_rows())?;
    if array.len() != batch.num_rows() {
        return Err(ExprError::Internal {
            expression: expr.to_string(),
            message: format!("{} values for {} rows", array.len(), batch.num_rows()),
        });
    }
    Ok(array)
}

struct Compiler<'a> {
    hosts: &'a dyn Fn(&str) -> Option<Arc<dyn HostFunction>>,
}

impl Compiler<'_> {
    fn operand(&self, rex: &Rex, pointer: &str) -> Result<Operand, ExprError> {
        let inputs = native::inputs(rex);
        if let Some(function) = (self.hosts)(pointer) {
            let output = self.output(rex, pointer)?;
            let host = HostExpr::new(pointer, function, output);
            if let Some(kernel) = native::on_ascii(rex, pointer) {
                let operands = self.operands(rex, pointer)?;
                let eager = operands.iter().all(|operand| operand.eager);
                let operands = operands.into_iter().map(|operand| operand.expr).collect();
                return Ok(Operand { expr: Arc::new(AsciiExpr::new(kernel, operands, host)), eager, inputs });
            }
            return Ok(Operand { expr: Arc::new(host), eager: false, inputs });
        }
        let (expr, eager): (Arc<dyn PhysicalExpr>, bool) = match rex {
            Rex::InputRef { index, .. } => (Arc::new(Column::new(&format!("${index}"), *index)), true),
            Rex::Literal { value, ty } => {
                let scalar = literal::scalar(value, ty).map_err(|reason| refused(&reason, pointer))?;
                (Arc::new(LiteralExpr::new(scalar)), true)
            }
            Rex::Call { function: Function::BuiltIn { name, version }, operands, ty } => {
                let operand_values = self.operands(rex, pointer)?;
                match Form::of(name, operands, ty) {
                    Some(form) => {
                        let form = form.map_err(|reason| refused(&reason, pointer))?;
                        conditional(form, operand_values, self.output(rex, pointer)?)?
                    }
                    None => {
                        let kernel = registry::lookup(name, *version, operands, ty)
                            .map_err(|reason| refused(&reason, pointer))?;
                        call(name, kernel, operand_values, self.output(rex, pointer)?)
                    }
                }
            }
            Rex::Call { function: Function::User(name), .. } => {
                return Err(refused(&Reason::new(format!("{name} is a user-defined function")), pointer));
            }
            Rex::Search { operand, sarg, .. } => {
                let kernel = search::kernel(operand, sarg).map_err(|reason| refused(&reason, pointer))?;
                call("SEARCH", kernel, self.operands(rex, pointer)?, DataType::Boolean)
            }
            Rex::FieldAccess { expr, index, .. } => {
                let row = self.operand(expr, &format!("{pointer}/expr"))?;
                let output = self.output(rex, pointer)?;
                (Arc::new(FieldOfRow::new(row.expr, *index, output)), row.eager)
            }
            Rex::Unknown { what } => return Err(refused(&Reason::new(what), pointer)),
        };
        Ok(Operand { expr, eager, inputs })
    }

    fn operands(&self, rex: &Rex, pointer: &str) -> Result<Vec<Operand>, ExprError> {
        native::children(rex, pointer).iter().map(|(child, pointer)| self.operand(child, pointer)).collect()
    }

    fn output(&self, rex: &Rex, pointer: &str) -> Result<DataType, ExprError> {
        let ty: Option<&LogicalType> = rex.ty();
        let ty = ty.ok_or_else(|| refused(&Reason::new("an expression without a type"), pointer))?;
        arrow_type(ty).map_err(|reason| refused(&reason, pointer))
    }
}

fn call(name: &str, kernel: Kernel, operands: Vec<Operand>, output: DataType) -> (Arc<dyn PhysicalExpr>, bool) {
    let eager = !kernel.fallible && operands.iter().all(|operand| operand.eager);
    let operands = operands.into_iter().map(|operand| operand.expr).collect();
    (Arc::new(ScalarCall::new(name, kernel, operands, output)), eager)
}

fn conditional(
    form: Form,
    mut operands: Vec<Operand>,
    output: DataType,
) -> Result<(Arc<dyn PhysicalExpr>, bool), ExprError> {
    let kind = match form {
        Form::And => JunctionKind::And,
        Form::Or => JunctionKind::Or,
        Form::Case(casts) => {
            // Conditions and results alternate; the default ends the list.
            let last = operands.len().saturating_sub(1);
            let results = operands.iter_mut().enumerate().filter(|(i, _)| i % 2 == 1 || *i == last);
            for ((_, operand), cast) in results.zip(casts) {
                *operand = result(operand.clone(), cast, &output)?;
            }
            let eager = operands.iter().all(|operand| operand.eager);
            return Ok((Arc::new(Case { operands, output }), eager));
        }
    };
    let eager = operands.iter().all(|operand| operand.eager);
    Ok((Arc::new(Junction { kind, operands }), eager))
}

/// A result of a CASE, cast to the type of the whole; an untyped NULL gets that type.
fn result(operand: Operand, cast: Option<Kernel>, output: &DataType) -> Result<Operand, ExprError> {
    if let Some(literal) = operand.expr.downcast_ref::<LiteralExpr>()
        && *literal.value() == ScalarValue::Null
    {
        let null = ScalarValue::try_from(output)?;
        return Ok(Operand { expr: Arc::new(LiteralExpr::new(null)), ..operand });
    }
    match cast {
        None => Ok(operand),
        Some(kernel) => {
            let inputs = operand.inputs.clone();
            let (expr, eager) = call("TRY_CAST", kernel, vec![operand], output.clone());
            Ok(Operand { expr, eager, inputs })
        }
    }
}

fn refused(reason: &Reason, pointer: &str) -> ExprError {
    ExprError::Internal { expression: pointer.to_owned(), message: reason.to_string() }
}
