//! LIKE with a constant pattern.
//!
//! A percent sign stands for any text. An underscore stands for one code point that does not end a line: a pattern with one
//! becomes a Java regular expression in Flink, whose dot stops there. A pattern without one is compared by bytes, which
//! comes to the same.
//!
//! Follows: `LikeCallGen`, `SqlLikeUtils`, `SqlLikeChainChecker`, Flink 2.2.

use streamfusion_plan::Reason;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LikePattern {
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Equals(String),
    StartsWith(String),
    EndsWith(String),
    Contains(String),
    /// Pieces between percent signs; the first and the last are anchored.
    Pieces(Vec<Vec<Token>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(String),
    /// Any code point that does not end a line.
    One,
}

impl LikePattern {
    /// Compiles a pattern. A reason if Flink itself refuses it: the JVM then says so.
    pub fn compile(pattern: &str, escape: Option<&str>) -> Result<Self, Reason> {
        let refuse = || Reason::new(format!("the LIKE pattern '{pattern}' is not valid"));
        let escape = match escape {
            // Without an underscore, Flink takes an empty escape as none; with one, it refuses it.
            Some("") if pattern.contains('_') => return Err(refuse()),
            None | Some("") => None,
            Some(escape) => {
                let mut chars = escape.chars();
                match (chars.next(), chars.next()) {
                    // A Java char: nothing outside of the Basic Multilingual Plane.
                    (Some(c), None) if c != '\0' && c.len_utf16() == 1 => Some(c),
                    _ => return Err(refuse()),
                }
            }
        };
        let mut pieces = vec![Vec::new()];
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let Some(piece) = pieces.last_mut() else { return Err(refuse()) };
            if Some(c) == escape {
                match chars.next() {
                    Some(next) if next == '_' || next == '%' || Some(next) == escape => push(piece, next),
                    _ => return Err(refuse()),
                }
            } else if c == '_' {
                piece.push(Token::One);
            } else if c == '%' {
                pieces.push(Vec::new());
            } else {
                push(piece, c);
            }
        }
        Ok(Self { shape: Shape::of(pieces) })
    }

    /// Whether the text matches.
    pub fn matches(&self, text: &str) -> bool {
        match &self.shape {
            Shape::Equals(expected) => text == expected,
            Shape::StartsWith(prefix) => text.starts_with(prefix.as_str()),
            Shape::EndsWith(suffix) => text.ends_with(suffix.as_str()),
            Shape::Contains(part) => text.contains(part.as_str()),
            Shape::Pieces(pieces) => match pieces.as_slice() {
                [] => text.is_empty(),
                [only] => match_start(only, text) == Some(""),
                [first, middle @ .., last] => {
                    let Some(mut rest) = match_start(first, text) else { return false };
                    // The earliest end of each piece leaves most to the others.
                    for piece in middle {
                        match find(piece, rest) {
                            Some(after) => rest = after,
                            None => return false,
                        }
                    }
                    match_end(last, rest)
                }
            },
        }
    }
}

impl Shape {
    fn of(pieces: Vec<Vec<Token>>) -> Self {
        fn text(piece: &[Token]) -> Option<&str> {
            match piece {
                [] => Some(""),
                [Token::Text(text)] => Some(text),
                _ => None,
            }
        }
        let texts: Option<Vec<&str>> = pieces.iter().map(|piece| text(piece)).collect();
        match texts.as_deref() {
            Some([only]) => Self::Equals((*only).to_owned()),
            Some([prefix, ""]) => Self::StartsWith((*prefix).to_owned()),
            Some(["", suffix]) => Self::EndsWith((*suffix).to_owned()),
            Some(["", part, ""]) => Self::Contains((*part).to_owned()),
            _ => Self::Pieces(pieces),
        }
    }
}

fn push(piece: &mut Vec<Token>, c: char) {
    if let Some(Token::Text(text)) = piece.last_mut() {
        text.push(c);
    } else {
        piece.push(Token::Text(c.to_string()));
    }
}

/// What follows a piece that the text starts with.
fn match_start<'a>(piece: &[Token], text: &'a str) -> Option<&'a str> {
    let mut rest = text;
    for token in piece {
        match token {
            Token::Text(text) => rest = rest.strip_prefix(text.as_str())?,
            Token::One => {
                let mut chars = rest.chars();
                chars.next().filter(|c| !ends_line(*c))?;
                rest = chars.as_str();
            }
        }
    }
    Some(rest)
}

fn match_end(piece: &[Token], text: &str) -> bool {
    let mut rest = text;
    for token in piece.iter().rev() {
        match token {
            Token::Text(text) => match rest.strip_suffix(text.as_str()) {
                Some(before) => rest = before,
                None => return false,
            },
            Token::One => {
                let mut chars = rest.chars();
                if chars.next_back().is_none_or(ends_line) {
                    return false;
                }
                rest = chars.as_str();
            }
        }
    }
    true
}

/// What follows the first place where the piece matches.
fn find<'a>(piece: &[Token], text: &'a str) -> Option<&'a str> {
    match piece {
        [] => Some(text),
        [Token::Text(part)] => text.find(part.as_str()).and_then(|start| text.get(start + part.len()..)),
        _ => text
            .char_indices()
            .map(|(start, _)| start)
            .chain(std::iter::once(text.len()))
            .find_map(|start| match_start(piece, text.get(start..)?)),
    }
}

/// The line terminators of `java.util.regex`.
fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
