//! Finds the kernel of a function on text.

use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::java::PadSide;
use super::kernels;
use super::like::LikePattern;
use super::scalar::TrimEnd;
use crate::registry::Kernel;

/// What an operand must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arg {
    Text,
    Int,
}

impl Arg {
    fn accepts(self, operand: &Rex) -> bool {
        matches!(
            (self, operand.ty().map(|ty| &ty.kind)),
            (Self::Text, Some(TypeKind::Char(_) | TypeKind::VarChar(_))) | (Self::Int, Some(TypeKind::Integer))
        )
    }
}

/// See [`crate::registry::Lookup`].
pub fn lookup(name: &str, operands: &[Rex], _ty: &LogicalType) -> Option<Result<Kernel, Reason>> {
    use Arg::{Int, Text};
    let args = |signature: &[Arg]| {
        signature.len() == operands.len() && signature.iter().zip(operands).all(|(arg, operand)| arg.accepts(operand))
    };
    let all_text = !operands.is_empty() && operands.iter().all(|operand| Text.accepts(operand));
    let kernel = match name {
        "LIKE" => return Some(like(operands)),
        "TRIM" => return Some(trim(operands)),
        "LTRIM" => return Some(trim_end(name, operands, TrimEnd::Leading)),
        "RTRIM" => return Some(trim_end(name, operands, TrimEnd::Trailing)),
        "UPPER" | "LOWER" | "INITCAP" => {
            return Some(Err(Reason::new(format!("{name} depends on the locale of the JVM"))));
        }
        "REGEXP" | "REGEXP_EXTRACT" | "REGEXP_REPLACE" | "SIMILAR TO" => {
            return Some(Err(Reason::new(format!("{name} takes a Java regular expression"))));
        }
        "SUBSTRING" | "SUBSTR" if args(&[Text, Int]) || args(&[Text, Int, Int]) => kernels::substring_kernel(),
        "LEFT" if args(&[Text, Int]) => kernels::left_kernel(),
        "RIGHT" if args(&[Text, Int]) => kernels::right_kernel(),
        "CHAR_LENGTH" | "CHARACTER_LENGTH" if args(&[Text]) => kernels::char_length_kernel(),
        "ASCII" if args(&[Text]) => kernels::ascii_kernel(),
        "REVERSE" if args(&[Text]) => kernels::reverse_kernel(),
        "POSITION" | "LOCATE" if args(&[Text, Text]) || args(&[Text, Text, Int]) => kernels::position_kernel(),
        "INSTR" if args(&[Text, Text]) => kernels::instr_kernel(),
        "||" if args(&[Text, Text]) => kernels::concat_kernel(),
        "CONCAT" if all_text => kernels::concat_kernel(),
        "CONCAT_WS" if all_text => kernels::concat_ws_kernel(),
        "REPLACE" if args(&[Text, Text, Text]) => kernels::replace_kernel(),
        "LPAD" if args(&[Text, Int, Text]) => kernels::pad_kernel(PadSide::Left, operands.get(1).and_then(integer)),
        "RPAD" if args(&[Text, Int, Text]) => kernels::pad_kernel(PadSide::Right, operands.get(1).and_then(integer)),
        "REPEAT" if args(&[Text, Int]) => kernels::repeat_kernel(),
        "SPLIT_INDEX" if args(&[Text, Text, Int]) => kernels::split_index_kernel(),
        "SPLIT_INDEX" if args(&[Text, Int, Int]) => kernels::split_index_by_char_kernel(),
        "SUBSTRING" | "SUBSTR" | "LEFT" | "RIGHT" | "CHAR_LENGTH" | "CHARACTER_LENGTH" | "ASCII" | "REVERSE"
        | "POSITION" | "LOCATE" | "INSTR" | "||" | "CONCAT" | "CONCAT_WS" | "REPLACE" | "LPAD" | "RPAD" | "REPEAT"
        | "SPLIT_INDEX" => {
            return Some(Err(Reason::new(format!("{name} is not supported natively for these arguments"))));
        }
        _ => return None,
    };
    Some(Ok(kernel))
}

/// The text of a constant that is not NULL.
fn constant(operand: &Rex) -> Option<&str> {
    match operand {
        Rex::Literal { value: Literal::String(text), .. } => Some(text),
        _ => None,
    }
}

/// The value of a whole number that is a constant.
fn integer(operand: &Rex) -> Option<i64> {
    match operand {
        Rex::Literal { value: Literal::Integer(value), .. } => Some(*value),
        _ => None,
    }
}

fn like(operands: &[Rex]) -> Result<Kernel, Reason> {
    let refuse = || Reason::new("LIKE with a pattern that is not a constant becomes a Java regular expression");
    let (text, pattern, escape) = match operands {
        [text, pattern] => (text, pattern, None),
        [text, pattern, escape] => (text, pattern, Some(constant(escape).ok_or_else(refuse)?)),
        _ => return Err(refuse()),
    };
    let pattern = constant(pattern).ok_or_else(refuse)?;
    if !Arg::Text.accepts(text) {
        return Err(Reason::new("LIKE is supported natively for text only"));
    }
    Ok(kernels::like_kernel(LikePattern::compile(pattern, escape)?))
}

fn trim(operands: &[Rex]) -> Result<Kernel, Reason> {
    let refuse = || Reason::new("TRIM is not supported natively for these arguments");
    let [Rex::Literal { value: Literal::Symbol { value, .. }, .. }, characters, text] = operands else {
        return Err(refuse());
    };
    let end = match value.as_str() {
        "BOTH" => TrimEnd::Both,
        "LEADING" => TrimEnd::Leading,
        "TRAILING" => TrimEnd::Trailing,
        _ => return Err(refuse()),
    };
    let characters = trim_characters("TRIM", characters)?;
    if !Arg::Text.accepts(text) {
        return Err(refuse());
    }
    Ok(kernels::trim_kernel(2, characters, end))
}

fn trim_end(name: &str, operands: &[Rex], end: TrimEnd) -> Result<Kernel, Reason> {
    let characters = match operands {
        [text] if Arg::Text.accepts(text) => " ".to_owned(),
        [text, characters] if Arg::Text.accepts(text) => trim_characters(name, characters)?,
        _ => return Err(Reason::new(format!("{name} is not supported natively for these arguments"))),
    };
    Ok(kernels::trim_kernel(0, characters, end))
}

/// Only constants: Flink takes a set of characters that starts with a blank as a single blank, or as it stands, depending on
/// where the value came from. A constant it takes as it stands.
fn trim_characters(name: &str, characters: &Rex) -> Result<String, Reason> {
    constant(characters)
        .map(str::to_owned)
        .ok_or_else(|| Reason::new(format!("{name} is supported natively for constant characters only")))
}
