//! Functions on text that are native where the text is ASCII, and run in the JVM where it is not.
//!
//! What Java makes of upper and lower case, and which characters its regular expressions take for one, depends on its version of
//! Unicode and on its locale. On ASCII all of that is fixed, but for the case rules of a few locales, which the host says it has
//! none of. So the call is planned as one of the JVM, and a batch whose operands are all ASCII never gets there.
//!
//! Follows: BinaryStringData.toLowerCase and toUpperCase, SqlFunctionUtils.regexpExtract, Flink 2.2. Differences: none.

mod expr;
mod pattern;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use streamfusion_plan::rex::{Function, Literal, Rex};
use streamfusion_plan::types::TypeKind;

pub(crate) use expr::AsciiExpr;
use pattern::Pattern;

use crate::error::ExprError;
use crate::registry::Kernel;
use crate::text::builder::{TextBuilder, text_bytes};
use crate::values::{mismatch, over_arrays, typed};

/// A kernel that is exact where its operands are ASCII.
#[derive(Debug, Clone)]
pub(crate) struct AsciiKernel {
    pub kernel: Kernel,
    /// Whether it changes case as most locales do.
    pub changes_case: bool,
}

/// The kernel of a call on text, if there is one.
pub(crate) fn kernel(rex: &Rex) -> Option<AsciiKernel> {
    let Rex::Call { function: Function::BuiltIn { name, version: 1 }, operands, .. } = rex else { return None };
    if !operands.first().is_some_and(is_text) {
        return None;
    }
    let (kernel, changes_case) = match (name.as_str(), operands.as_slice()) {
        ("LOWER", [_]) => (case(|byte| byte.make_ascii_lowercase()), true),
        ("UPPER", [_]) => (case(|byte| byte.make_ascii_uppercase()), true),
        ("REGEXP_EXTRACT", [_, Rex::Literal { value: Literal::String(pattern), .. }, group @ ..]) => {
            let group = match group {
                [] => 0,
                [Rex::Literal { value: Literal::Integer(group), .. }] => usize::try_from(*group).ok()?,
                _ => return None,
            };
            (extract(Pattern::of(pattern, group)?), false)
        }
        _ => return None,
    };
    Some(AsciiKernel { kernel, changes_case })
}

fn is_text(rex: &Rex) -> bool {
    matches!(rex.ty().map(|ty| &ty.kind), Some(TypeKind::Char(_) | TypeKind::VarChar(_)))
}

fn first(arrays: &[ArrayRef]) -> Result<&StringArray, ExprError> {
    typed(arrays.first().ok_or_else(|| mismatch("operand 0 is missing"))?)
}

/// Changes bytes in one go over all values: none gets longer.
fn case(change: fn(&mut str)) -> Kernel {
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, _| {
            let texts = first(arrays)?;
            let (start, bytes) = (texts.value_offsets().first().copied().unwrap_or(0), text_bytes(texts));
            let from = usize::try_from(start).map_err(|_| mismatch("negative offset"))?;
            let values = texts.values().slice_with_length(from, bytes);
            let mut values =
                String::from_utf8(values.as_slice().to_vec()).map_err(|_| mismatch("text is not UTF-8"))?;
            change(&mut values);
            let offsets = texts.offsets().iter().map(|offset| offset - start).collect();
            let offsets = arrow::buffer::OffsetBuffer::new(offsets);
            Ok(Arc::new(StringArray::try_new(offsets, values.into_bytes().into(), texts.nulls().cloned())?))
        })
    })
}

/// The group of the first match: NULL without one, and for a group that takes no part in it.
fn extract(pattern: Pattern) -> Kernel {
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, _| {
            let texts = first(arrays)?;
            let mut found = pattern.search();
            let mut out = TextBuilder::new(texts.len(), 0);
            for text in texts {
                match text.and_then(|text| found.group(text)) {
                    Some(group) => out.push(group)?,
                    None => out.push_null(),
                }
            }
            Ok(out.finish())
        })
    })
}

#[cfg(test)]
mod tests;
