//! Finds the kernel of a CAST that involves text or time.

use streamfusion_plan::Reason;
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::{OnFailure, from_text, temporal, to_text};
use crate::registry::Kernel;

/// See [`crate::registry::Lookup`].
pub fn lookup(name: &str, operands: &[Rex], ty: &LogicalType) -> Option<Result<Kernel, Reason>> {
    let on_failure = match name {
        "CAST" => OnFailure::Throw,
        "TRY_CAST" => OnFailure::Null,
        _ => return None,
    };
    let [operand] = operands else { return None };
    kernel(&operand.ty()?.kind, &ty.kind, on_failure)
}

/// The kernel of a cast between two types; `None` if neither is text or time.
pub fn kernel(from: &TypeKind, to: &TypeKind, on_failure: OnFailure) -> Option<Result<Kernel, Reason>> {
    if *from == TypeKind::Null {
        return None;
    }
    if let Some(found) = to_text::kernel(from, to) {
        return Some(found);
    }
    if matches!(from, TypeKind::Char(_) | TypeKind::VarChar(_)) {
        return Some(from_text::kernel(to, on_failure));
    }
    temporal::kernel(from, to)
}
