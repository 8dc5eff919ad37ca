//! Which kernel computes which call.
//!
//! A module of [`crate::functions`] contributes a [`Lookup`]: given a built-in's name, its operands (types, and whether they
//! are literals) and the type of the result, it answers with a kernel, with the reason why this form is not native, or that
//! the name is not its own. The planner and the compiler ask the same lookup, so that they cannot disagree.
//!
//! CASE, IF, AND and OR have no kernel, because they decide which operands are evaluated: see [`crate::conditional`].

use std::fmt;
use std::sync::Arc;

use datafusion_expr::ColumnarValue;
use streamfusion_plan::Reason;
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::LogicalType;

use crate::error::ExprError;
use crate::names::type_name;
use crate::{cast, functions, text, time};

/// Computes the result of a call for a number of rows from its operands' values.
///
/// An array operand has exactly that many values; a scalar stands for as many equal ones. The result is an array of that
/// length or a scalar, in the Arrow type of the call's result.
pub type KernelFn = dyn Fn(&[ColumnarValue], usize) -> Result<ColumnarValue, ExprError> + Send + Sync;

/// A native implementation of one form of a function.
#[derive(Clone)]
pub struct Kernel {
    /// The computation.
    pub run: Arc<KernelFn>,
    /// Whether [`Kernel::run`] can fail on some values. A kernel that cannot is evaluated for all rows, also those that a
    /// CASE or an AND excludes.
    pub fallible: bool,
}

impl Kernel {
    /// A kernel that succeeds on all values.
    pub fn infallible<F>(run: F) -> Self
    where
        F: Fn(&[ColumnarValue], usize) -> Result<ColumnarValue, ExprError> + Send + Sync + 'static,
    {
        Self { run: Arc::new(run), fallible: false }
    }

    /// A kernel that fails on some values, as Flink does.
    pub fn fallible<F>(run: F) -> Self
    where
        F: Fn(&[ColumnarValue], usize) -> Result<ColumnarValue, ExprError> + Send + Sync + 'static,
    {
        Self { run: Arc::new(run), fallible: true }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("fallible", &self.fallible).finish_non_exhaustive()
    }
}

/// Finds the kernel of a call: `None` where the name belongs to another module.
///
/// Several modules may share a name (`CAST`, `+`, `FLOOR`): each answers `None` for the operand types that are not its own.
///
/// A symbol operand (a time unit) is a [`Rex::Literal`] whose value the lookup reads; the kernel gets a NULL in its place.
pub type Lookup = fn(name: &str, operands: &[Rex], ty: &LogicalType) -> Option<Result<Kernel, Reason>>;

/// All function modules.
const LOOKUPS: &[Lookup] = &[
    functions::logic::lookup,
    functions::compare::lookup,
    functions::arithmetic::lookup,
    functions::math::lookup,
    functions::cast::lookup,
    functions::collection::lookup,
    cast::lookup,
    text::lookup,
    time::lookup,
];

/// The kernel of a built-in, or why there is none.
pub fn lookup(name: &str, version: u32, operands: &[Rex], ty: &LogicalType) -> Result<Kernel, Reason> {
    if version != 1 {
        return Err(Reason::new(format!("version {version} of the function {name} is not supported natively")));
    }
    LOOKUPS.iter().find_map(|lookup| lookup(name, operands, ty)).unwrap_or_else(|| Err(unclaimed(name, operands, ty)))
}

/// Why no module claims a call.
fn unclaimed(name: &str, operands: &[Rex], ty: &LogicalType) -> Reason {
    match (name, operands.first().and_then(Rex::ty)) {
        ("CAST" | "TRY_CAST", Some(from)) => Reason::new(format!(
            "a cast from {} to {} is not supported natively",
            type_name(&from.kind),
            type_name(&ty.kind)
        )),
        _ => Reason::new(format!("the function {name} is not supported natively for these operands")),
    }
}
