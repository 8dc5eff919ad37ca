//! Functions that Flink computes on Java strings, in UTF-16 units.
//!
//! A code point outside of the Basic Multilingual Plane counts as two. Where such a pair is cut in half, the half is written
//! as `?`, as Flink does when it writes the string to bytes.
//!
//! Follows: `SqlFunctionUtils.lpad`, `rpad`, `repeat`, `replace`, Flink 2.2.

use super::builder::TextBuilder;
use crate::error::ExprError;

/// Which side LPAD and RPAD fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PadSide {
    /// LPAD
    Left,
    /// RPAD
    Right,
}

/// The length in UTF-16 units.
fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// Writes the first `limit` units of `text`, all of it if it is shorter.
fn write_units(out: &mut TextBuilder, text: &str, limit: usize) -> Result<(), ExprError> {
    let mut left = limit;
    for (start, c) in text.char_indices() {
        let width = c.len_utf16();
        if width > left {
            out.piece(text.get(..start).unwrap_or(text))?;
            return if left == 0 { Ok(()) } else { out.piece("?") };
        }
        left -= width;
    }
    out.piece(text)
}

/// Appends LPAD or RPAD to `out`: NULL for a negative length or an empty pad.
pub fn pad(out: &mut TextBuilder, text: &str, length: i32, filler: &str, side: PadSide) -> Result<(), ExprError> {
    let Some(length) = usize::try_from(length).ok().filter(|_| !filler.is_empty()) else {
        out.push_null();
        return Ok(());
    };
    let missing = length.saturating_sub(units(text));
    let filler_units = units(filler);
    let fill = |out: &mut TextBuilder| {
        let mut left = missing;
        while left >= filler_units {
            out.piece(filler)?;
            left -= filler_units;
        }
        write_units(out, filler, left)
    };
    if side == PadSide::Left {
        fill(out)?;
    }
    write_units(out, text, length)?;
    if side == PadSide::Right {
        fill(out)?;
    }
    out.end();
    Ok(())
}

/// Appends REPEAT to `out`.
pub fn repeat(out: &mut TextBuilder, text: &str, times: i32) -> Result<(), ExprError> {
    // Nothing, as often as one likes, is nothing.
    let times = if text.is_empty() { 0 } else { usize::try_from(times).unwrap_or(0) };
    let length = units(text);
    if times > 1 && length > 1 {
        // Java sizes its buffer in 32 bits that wrap.
        let wrapped =
            i64::try_from(length.saturating_mul(times)).map_or(-1, |l| i64::from(crate::time::calendar::java_int(l)));
        if wrapped < 0 {
            return Err(ExprError::Java {
                class: "java.lang.NegativeArraySizeException",
                message: wrapped.to_string(),
            });
        }
    }
    out.reserve(text.len().saturating_mul(times))?;
    for _ in 0..times {
        out.piece(text)?;
    }
    out.end();
    Ok(())
}

/// Appends REPLACE to `out`.
pub fn replace(out: &mut TextBuilder, text: &str, old: &str, new: &str) -> Result<(), ExprError> {
    if old.is_empty() {
        return interleave(out, text, new);
    }
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(old) {
        out.piece(before)?;
        out.piece(new)?;
        rest = after;
    }
    out.piece(rest)?;
    out.end();
    Ok(())
}

/// Replacing nothing puts the new text before each unit and at the end, also into a surrogate pair.
fn interleave(out: &mut TextBuilder, text: &str, new: &str) -> Result<(), ExprError> {
    for c in text.chars() {
        out.piece(new)?;
        if c.len_utf16() == 2 && !new.is_empty() {
            out.piece("?")?;
            out.piece(new)?;
            out.piece("?")?;
        } else {
            out.piece(c.encode_utf8(&mut [0; 4]))?;
        }
    }
    out.piece(new)?;
    out.end();
    Ok(())
}
