//! What is native, and what the JVM evaluates instead.
//!
//! The walk goes from the top down and stops at the first call that is not native: the whole call goes to the JVM,
//! so that Flink's own generated code decides everything below it. A few expressions go there from their root: see
//! [`crate::whole`].

use std::collections::BTreeSet;

use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Function, Rex};
use streamfusion_plan::types::TypeKind;
use streamfusion_row::types::arrow_type;

use crate::ascii::{self, AsciiKernel};
use crate::clock::{self, Clock};
use crate::functions::search;
use crate::host::HostCall;
use crate::literal;
use crate::{conditional, registry, whole};

/// Whether this expression is computed natively, given its operands' values: looks at the function, the types of the
/// operands and which of them are literals, not below.
pub fn supports(rex: &Rex) -> Result<(), Reason> {
    match rex {
        Rex::InputRef { ty, .. } => arrow_type(ty).map(drop),
        Rex::Literal { value, ty } => {
            arrow_type(ty)?;
            literal::scalar(value, ty).map(drop)
        }
        Rex::Call { function, operands, ty } => {
            arrow_type(ty)?;
            match function {
                Function::User(name) => Err(Reason::new(format!("{name} is a user-defined function"))),
                Function::BuiltIn { name, version } => match conditional::Form::of(name, operands, ty) {
                    Some(form) => form.map(drop),
                    None => registry::lookup(name, *version, operands, ty).map(drop),
                },
            }
        }
        Rex::Search { operand, sarg, .. } => search::kernel(operand, sarg).map(drop),
        Rex::FieldAccess { expr, index, ty } => {
            arrow_type(ty)?;
            match expr.ty().map(|row| &row.kind) {
                Some(TypeKind::Row(fields)) if *index < fields.len() => Ok(()),
                _ => Err(Reason::new("access to a field of a type other than ROW is not supported natively")),
            }
        }
        Rex::Unknown { what } => Err(unknown(what)),
    }
}

/// The sub-expressions of `rex` that go to the JVM, in depth-first order; `pointer` is the JSON pointer of `rex` itself.
///
/// A reason instead if some sub-expression can run neither here nor there.
pub fn host_calls(rex: &Rex, pointer: &str) -> Result<Vec<HostCall>, Reason> {
    if let Some(reason) = whole::reason(rex, pointer)? {
        let reason = supports(rex).err().unwrap_or(reason);
        return Ok(vec![host_call(rex, pointer, reason)?]);
    }
    let mut calls = Vec::new();
    walk(rex, pointer, &mut calls)?;
    Ok(calls)
}

fn walk(rex: &Rex, pointer: &str, calls: &mut Vec<HostCall>) -> Result<(), Reason> {
    if let Err(reason) = supports(rex).and_then(|()| supports_literals(rex, pointer)) {
        return match rex {
            Rex::Call { .. } | Rex::Search { .. } | Rex::FieldAccess { .. } => {
                calls.push(host_call(rex, pointer, reason)?);
                Ok(())
            }
            Rex::InputRef { .. } | Rex::Literal { .. } | Rex::Unknown { .. } => Err(reason),
        };
    }
    for (child, child_pointer) in children(rex, pointer) {
        match child {
            Rex::Literal { value, ty } if literal::is_untyped(value, ty) => {}
            // Only the field's column is read, whatever else the row has.
            Rex::InputRef { .. } if matches!(rex, Rex::FieldAccess { .. }) => {}
            Rex::FieldAccess { .. } if is_column_path(child) && matches!(rex, Rex::FieldAccess { .. }) => {}
            _ => walk(child, &child_pointer, calls)?,
        }
    }
    Ok(())
}

/// The kernel of a call of the JVM that is native as long as its operands are ASCII: all of them must be native, and nothing else
/// may be wrong with the call.
pub(crate) fn on_ascii(rex: &Rex, pointer: &str) -> Option<AsciiKernel> {
    let kernel = ascii::kernel(rex)?;
    // under NOT NULL a NULL is written as a default, and by the JVM
    let may_be_null = rex.ty().is_some_and(|ty| ty.nullable);
    let native = |(child, pointer): &(&Rex, String)| host_calls(child, pointer).is_ok_and(|calls| calls.is_empty());
    let own = whole::reason(rex, pointer).is_ok_and(|reason| reason.is_none());
    (may_be_null && own && supports_literals(rex, pointer).is_ok() && children(rex, pointer).iter().all(native))
        .then_some(kernel)
}

/// Whether the literals among the operands have a native form.
fn supports_literals(rex: &Rex, pointer: &str) -> Result<(), Reason> {
    children(rex, pointer).into_iter().try_for_each(|(child, _)| match child {
        Rex::Literal { value, ty } => literal::scalar(value, ty).map(drop),
        _ => Ok(()),
    })
}

/// The operands of an expression with their JSON pointers.
pub(crate) fn children<'a>(rex: &'a Rex, pointer: &str) -> Vec<(&'a Rex, String)> {
    match rex {
        Rex::Call { operands, .. } => {
            operands.iter().enumerate().map(|(i, operand)| (operand, format!("{pointer}/operands/{i}"))).collect()
        }
        Rex::Search { operand, .. } => vec![(operand, format!("{pointer}/operands/0"))],
        Rex::FieldAccess { expr, .. } => vec![(expr, format!("{pointer}/expr"))],
        Rex::InputRef { .. } | Rex::Literal { .. } | Rex::Unknown { .. } => Vec::new(),
    }
}

/// Whether the expression is a column, or a field of a field .. of a column.
fn is_column_path(rex: &Rex) -> bool {
    match rex {
        Rex::InputRef { .. } => true,
        Rex::FieldAccess { expr, .. } => is_column_path(expr),
        _ => false,
    }
}

fn host_call(rex: &Rex, pointer: &str, reason: Reason) -> Result<HostCall, Reason> {
    let Some(output) = rex.ty() else { return Err(reason) };
    if let Some(function) = clock::reader_of(rex, Clock::Operator) {
        return Err(Reason::new(format!("{function} needs the operator's clock, which JVM expressions do not have")));
    }
    arrow_type(output)?;
    check_inputs(rex)?;
    let reason = match on_ascii(rex, pointer) {
        Some(_) => Reason::new(format!("{reason}, for text that is not ASCII")),
        None => reason,
    };
    Ok(HostCall { pointer: pointer.to_owned(), inputs: inputs(rex), output: output.clone(), reason })
}

fn check_inputs(rex: &Rex) -> Result<(), Reason> {
    match rex {
        Rex::InputRef { ty, .. } => arrow_type(ty).map(drop),
        Rex::Unknown { what } => Err(unknown(what)),
        _ => children(rex, "").into_iter().try_for_each(|(child, _)| check_inputs(child)),
    }
}

/// The columns that an expression reads, ascending, without duplicates.
pub(crate) fn inputs(rex: &Rex) -> Vec<usize> {
    fn collect(rex: &Rex, into: &mut BTreeSet<usize>) {
        if let Rex::InputRef { index, .. } = rex {
            into.insert(*index);
        }
        for (child, _) in children(rex, "") {
            collect(child, into);
        }
    }
    let mut found = BTreeSet::new();
    collect(rex, &mut found);
    found.into_iter().collect()
}

fn unknown(what: &str) -> Reason {
    Reason::new(format!("{what} is not supported natively"))
}
