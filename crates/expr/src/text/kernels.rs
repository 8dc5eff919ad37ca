//! Kernels over columns, from functions over values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, StringArray};
use arrow::buffer::BooleanBuffer;

use super::builder::{SHORT, TextBuilder, all_valid, text_bytes, text_rows};
use super::java::{PadSide, pad, repeat, replace};
use super::like::LikePattern;
use super::scalar::{
    TrimEnd, ascii, char_length, left, position, reverse, right, split_index, split_index_by_char, substring, trim,
};
use crate::error::ExprError;
use crate::registry::Kernel;
use crate::values::{mismatch, over_arrays, typed};

fn column(arrays: &[ArrayRef], index: usize) -> Result<&ArrayRef, ExprError> {
    arrays.get(index).ok_or_else(|| mismatch(format!("operand {index} is missing")))
}

fn texts(arrays: &[ArrayRef], index: usize) -> Result<&StringArray, ExprError> {
    typed(column(arrays, index)?)
}

fn ints(arrays: &[ArrayRef], index: usize) -> Result<&Int32Array, ExprError> {
    typed(column(arrays, index)?)
}

/// A kernel to a column of text that cannot fail but for its size.
fn to_text<F>(run: F) -> Kernel
where
    F: Fn(&[ArrayRef], usize) -> Result<ArrayRef, ExprError> + Send + Sync + 'static,
{
    Kernel::infallible(move |operands, rows| over_arrays(operands, rows, |arrays, rows| run(arrays, rows)))
}

/// A kernel to INT: NULL where an operand is, otherwise what `value` computes.
fn to_int<F>(value: F) -> Kernel
where
    F: Fn(&[ArrayRef], usize) -> Result<i32, ExprError> + Send + Sync + 'static,
{
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, rows| int_rows(arrays, rows, |row| value(arrays, row)))
    })
}

fn int_rows<F>(arrays: &[ArrayRef], rows: usize, value: F) -> Result<ArrayRef, ExprError>
where
    F: Fn(usize) -> Result<i32, ExprError>,
{
    let valid = all_valid(arrays);
    let values = (0..rows).map(|row| match &valid {
        Some(valid) if valid.is_null(row) => Ok(None),
        _ => value(row).map(Some),
    });
    Ok(Arc::new(values.collect::<Result<Int32Array, ExprError>>()?))
}

fn push_option(out: &mut TextBuilder, text: Option<&str>) -> Result<(), ExprError> {
    match text {
        Some(text) => out.push(text),
        None => {
            out.push_null();
            Ok(())
        }
    }
}

pub(super) fn like_kernel(pattern: LikePattern) -> Kernel {
    Kernel::infallible(move |operands, rows| {
        // The pattern and the escape are constants.
        over_arrays(operands.get(..1).unwrap_or_default(), rows, |arrays, rows| {
            let texts = texts(arrays, 0)?;
            let matches = BooleanBuffer::collect_bool(rows, |row| pattern.matches(texts.value(row)));
            Ok(Arc::new(BooleanArray::new(matches, texts.nulls().cloned())))
        })
    })
}

/// TRIM of the text at operand `text`.
pub(super) fn trim_kernel(text: usize, characters: String, end: TrimEnd) -> Kernel {
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands.get(text..=text).unwrap_or_default(), rows, |arrays, rows| {
            let texts = texts(arrays, 0)?;
            text_rows(arrays, rows, text_bytes(texts), |row, out| out.push(trim(texts.value(row), &characters, end)))
        })
    })
}

pub(super) fn substring_kernel() -> Kernel {
    to_text(|arrays, rows| {
        let (texts, positions) = (texts(arrays, 0)?, ints(arrays, 1)?);
        let lengths = if arrays.len() > 2 { Some(ints(arrays, 2)?) } else { None };
        text_rows(arrays, rows, text_bytes(texts), |row, out| {
            let length = lengths.map_or(i32::MAX, |lengths| lengths.value(row));
            push_option(out, substring(texts.value(row), positions.value(row), length))
        })
    })
}

pub(super) fn left_kernel() -> Kernel {
    end_kernel(left)
}

pub(super) fn right_kernel() -> Kernel {
    end_kernel(right)
}

fn end_kernel(end: fn(&str, i32) -> &str) -> Kernel {
    to_text(move |arrays, rows| {
        let (texts, lengths) = (texts(arrays, 0)?, ints(arrays, 1)?);
        text_rows(arrays, rows, text_bytes(texts), |row, out| out.push(end(texts.value(row), lengths.value(row))))
    })
}

pub(super) fn reverse_kernel() -> Kernel {
    to_text(|arrays, rows| {
        let texts = texts(arrays, 0)?;
        text_rows(arrays, rows, text_bytes(texts), |row, out| {
            for c in reverse(texts.value(row)) {
                out.piece(c.encode_utf8(&mut [0; 4]))?;
            }
            out.end();
            Ok(())
        })
    })
}

pub(super) fn char_length_kernel() -> Kernel {
    to_int(|arrays, row| Ok(char_length(texts(arrays, 0)?.value(row))))
}

pub(super) fn ascii_kernel() -> Kernel {
    to_int(|arrays, row| Ok(ascii(texts(arrays, 0)?.value(row))))
}

/// POSITION and LOCATE: what is sought comes first.
pub(super) fn position_kernel() -> Kernel {
    to_int(|arrays, row| {
        let from = if arrays.len() > 2 { ints(arrays, 2)?.value(row) } else { 1 };
        Ok(position(texts(arrays, 0)?.value(row), texts(arrays, 1)?.value(row), from))
    })
}

/// INSTR of two operands: what is sought comes last.
pub(super) fn instr_kernel() -> Kernel {
    to_int(|arrays, row| Ok(position(texts(arrays, 1)?.value(row), texts(arrays, 0)?.value(row), 1)))
}

/// CONCAT and `||`.
pub(super) fn concat_kernel() -> Kernel {
    to_text(|arrays, rows| {
        let columns = (0..arrays.len()).map(|i| texts(arrays, i)).collect::<Result<Vec<_>, _>>()?;
        let bytes = columns.iter().copied().map(text_bytes).sum();
        text_rows(arrays, rows, bytes, |row, out| {
            for column in &columns {
                out.piece(column.value(row))?;
            }
            out.end();
            Ok(())
        })
    })
}

/// CONCAT_WS: NULL for a NULL separator, which comes first; other NULLs are left out.
pub(super) fn concat_ws_kernel() -> Kernel {
    to_text(|arrays, rows| {
        let separators = texts(arrays, 0)?;
        let columns = (1..arrays.len()).map(|i| texts(arrays, i)).collect::<Result<Vec<_>, _>>()?;
        let separator = arrays.get(..1).unwrap_or_default();
        text_rows(separator, rows, 0, |row, out| {
            let mut first = true;
            for column in columns.iter().filter(|column| column.is_valid(row)) {
                if !first {
                    out.piece(separators.value(row))?;
                }
                first = false;
                out.piece(column.value(row))?;
            }
            out.end();
            Ok(())
        })
    })
}

pub(super) fn replace_kernel() -> Kernel {
    to_text(|arrays, rows| {
        let (texts_, olds, news) = (texts(arrays, 0)?, texts(arrays, 1)?, texts(arrays, 2)?);
        text_rows(arrays, rows, text_bytes(texts_), |row, out| {
            replace(out, texts_.value(row), olds.value(row), news.value(row))
        })
    })
}

/// LPAD and RPAD. Fallible, because a length that a guard excludes may be one that no column holds; but not where
/// `limit`, the length if it is a constant, is small.
pub(super) fn pad_kernel(side: PadSide, limit: Option<i64>) -> Kernel {
    let run = move |arrays: &[ArrayRef], rows: usize| {
        let (texts_, lengths, fillers) = (texts(arrays, 0)?, ints(arrays, 1)?, texts(arrays, 2)?);
        text_rows(arrays, rows, text_bytes(texts_), |row, out| {
            pad(out, texts_.value(row), lengths.value(row), fillers.value(row), side)
        })
    };
    let kernel = to_text(run);
    Kernel { fallible: limit.is_none_or(|limit| limit > i64::from(SHORT)), ..kernel }
}

pub(super) fn repeat_kernel() -> Kernel {
    // Fallible: the result can be too long.
    Kernel::fallible(|operands, rows| {
        over_arrays(operands, rows, |arrays, rows| {
            let (texts, times) = (texts(arrays, 0)?, ints(arrays, 1)?);
            text_rows(arrays, rows, text_bytes(texts), |row, out| repeat(out, texts.value(row), times.value(row)))
        })
    })
}

/// SPLIT_INDEX with the separator as text.
pub(super) fn split_index_kernel() -> Kernel {
    to_text(|arrays, rows| {
        let (texts_, separators, indexes) = (texts(arrays, 0)?, texts(arrays, 1)?, ints(arrays, 2)?);
        text_rows(arrays, rows, text_bytes(texts_), |row, out| {
            push_option(out, split_index(texts_.value(row), separators.value(row), indexes.value(row)))
        })
    })
}

/// SPLIT_INDEX with the separator as a number.
pub(super) fn split_index_by_char_kernel() -> Kernel {
    to_text(|arrays, rows| {
        let (texts, separators, indexes) = (texts(arrays, 0)?, ints(arrays, 1)?, ints(arrays, 2)?);
        text_rows(arrays, rows, text_bytes(texts), |row, out| {
            push_option(out, split_index_by_char(texts.value(row), separators.value(row), indexes.value(row)))
        })
    })
}
