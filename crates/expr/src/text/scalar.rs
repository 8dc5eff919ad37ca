//! Functions from one text and constants or numbers to a part of it or a number.
//!
//! Positions and lengths are in code points here, and start at 1.
//!
//! Follows: `BinaryStringDataUtil`, `BinaryStringData` and `SqlFunctionUtils`, Flink 2.2.

/// The number of code points.
pub fn char_length(text: &str) -> i32 {
    i32::try_from(text.chars().count()).unwrap_or(i32::MAX)
}

/// The part that starts `skip` code points from the start and has at most `length`.
fn part(text: &str, skip: i32, length: i32) -> &str {
    let (Ok(skip), Ok(length)) = (usize::try_from(skip), usize::try_from(length)) else { return "" };
    // Fewer bytes than code points to skip: nothing is left.
    if length == 0 || skip >= text.len() {
        return "";
    }
    if text.is_ascii() {
        let end = skip.saturating_add(length).min(text.len());
        return text.get(skip..end).unwrap_or("");
    }
    let mut chars = text.chars();
    for _ in 0..skip {
        if chars.next().is_none() {
            return "";
        }
    }
    let rest = chars.as_str();
    match rest.char_indices().nth(length) {
        Some((end, _)) => rest.get(..end).unwrap_or(rest),
        None => rest,
    }
}

/// SUBSTRING; `None` is NULL. Position 0 is taken as 1, a negative one counts from the end.
pub fn substring(text: &str, position: i32, length: i32) -> Option<&str> {
    if length < 0 {
        return None;
    }
    let skip = match position {
        1.. => position - 1,
        0 => 0,
        _ => match char_length(text).wrapping_add(position) {
            skip @ 0.. => skip,
            _ => return Some(""),
        },
    };
    Some(part(text, skip, length))
}

/// LEFT
pub fn left(text: &str, length: i32) -> &str {
    part(text, 0, length.max(0))
}

/// RIGHT
pub fn right(text: &str, length: i32) -> &str {
    if length <= 0 {
        return "";
    }
    let all = char_length(text);
    if length >= all { text } else { part(text, all - length, length) }
}

/// POSITION and LOCATE: the place of `seek` at or after the code point `from`; 0 if there is none. Empty text is at 1,
/// wherever the search starts.
pub fn position(seek: &str, text: &str, from: i32) -> i32 {
    if seek.is_empty() {
        return 1;
    }
    let mut chars = text.chars();
    let mut skipped = 0;
    while skipped < from.wrapping_sub(1) && chars.next().is_some() {
        skipped += 1;
    }
    let rest = chars.as_str();
    match rest.find(seek) {
        Some(found) => skipped + char_length(rest.get(..found).unwrap_or("")) + 1,
        None => 0,
    }
}

/// ASCII: the first byte, signed; 0 for empty text.
pub fn ascii(text: &str) -> i32 {
    text.as_bytes().first().map_or(0, |byte| i32::from(byte.cast_signed()))
}

/// REVERSE by code points.
pub fn reverse(text: &str) -> impl Iterator<Item = char> {
    text.chars().rev()
}

/// Which ends TRIM works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrimEnd {
    /// LEADING
    Leading,
    /// TRAILING
    Trailing,
    /// BOTH
    Both,
}

/// TRIM: takes off code points that occur in `characters`.
pub fn trim<'a>(text: &'a str, characters: &str, end: TrimEnd) -> &'a str {
    let set = |c: char| characters.contains(c);
    match end {
        TrimEnd::Leading => text.trim_start_matches(set),
        TrimEnd::Trailing => text.trim_end_matches(set),
        TrimEnd::Both => text.trim_matches(set),
    }
}

/// SPLIT_INDEX; `None` is NULL. Empty text has no parts; an empty separator is any white space.
pub fn split_index<'a>(text: &'a str, separator: &str, index: i32) -> Option<&'a str> {
    let index = usize::try_from(index).ok()?;
    if text.is_empty() {
        return None;
    }
    if separator.is_empty() {
        return text.split(is_java_whitespace).nth(index);
    }
    text.split(separator).nth(index)
}

/// SPLIT_INDEX with the separator as a number.
pub fn split_index_by_char(text: &str, separator: i32, index: i32) -> Option<&str> {
    let separator = char::from(u8::try_from(separator).ok().filter(|c| *c > 0)?);
    let index = usize::try_from(index).ok()?;
    if text.is_empty() {
        return None;
    }
    text.split(separator).nth(index)
}

/// `Character.isWhitespace` of JDK 17.
fn is_java_whitespace(c: char) -> bool {
    matches!(c,
        '\t'..='\r' | '\u{1c}'..='\u{20}' | '\u{1680}' | '\u{2000}'..='\u{2006}' | '\u{2008}'..='\u{200a}'
        | '\u{2028}' | '\u{2029}' | '\u{205f}' | '\u{3000}')
}
