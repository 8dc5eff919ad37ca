//! Java regular expressions that mean the same elsewhere, on ASCII.
//!
//! Both engines find the leftmost match, and of several there the one that a backtracking search comes to first; so what groups hold
//! agrees too, as long as no group is repeated (Java then differs in what an empty repetition does to it). What is taken:
//! characters, classes of characters and ranges, `.`, `\d` `\w` `\s` and their opposites, groups, alternatives, `^` at
//! the beginning of the text, and `*` `+` `?` `{n}` `{n,}` `{n,m}`, reluctant or not, behind a single character or class. Everything
//! else is no [`Pattern`]: back references, assertions, flags, possessive repetition, `$` (which holds in front of a last line
//! end as well), boundaries, operations on classes.
//!
//! Each character is written by its number, so that no spelling of one engine means something to the other.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use regex::{CaptureLocations, Regex};

/// The most that a counted repetition may ask for.
const MOST_REPETITIONS: u32 = 1000;

/// How deep groups may be nested.
const MOST_NESTED: usize = 50;

/// A pattern, and the group of its match that is wanted.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    regex: Regex,
    group: usize,
}

impl Pattern {
    /// Takes a Java pattern, if it is one of those and has that group; 0 is the whole match.
    pub fn of(java: &str, group: usize) -> Option<Self> {
        let mut translation = Translation { java: java.chars().peekable(), rust: String::new(), groups: 0 };
        translation.alternatives(0)?;
        if translation.java.next().is_some() || group > translation.groups {
            return None;
        }
        Some(Self { regex: Regex::new(&translation.rust).ok()?, group })
    }

    /// A search of many texts, one after the other.
    pub fn search(&self) -> Search<'_> {
        Search { pattern: self, locations: self.regex.capture_locations() }
    }
}

/// See [`Pattern::search`].
pub(super) struct Search<'a> {
    pattern: &'a Pattern,
    locations: CaptureLocations,
}

impl Search<'_> {
    /// The group of the first match in an ASCII text.
    pub fn group<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        if self.pattern.group == 0 {
            return self.pattern.regex.find(text).map(|found| found.as_str());
        }
        self.pattern.regex.captures_read(&mut self.locations, text)?;
        let (start, end) = self.locations.get(self.pattern.group)?;
        text.get(start..end)
    }
}

/// Reads a Java pattern and writes the same one for the other engine. `None` is a pattern that is not taken.
struct Translation<'a> {
    java: Peekable<Chars<'a>>,
    rust: String,
    groups: usize,
}

impl Translation<'_> {
    fn alternatives(&mut self, depth: usize) -> Option<()> {
        if depth > MOST_NESTED {
            return None;
        }
        self.sequence(depth)?;
        while self.java.next_if_eq(&'|').is_some() {
            self.rust.push('|');
            self.sequence(depth)?;
        }
        Some(())
    }

    fn sequence(&mut self, depth: usize) -> Option<()> {
        while let Some(next) = self.java.next_if(|next| !matches!(next, '|' | ')')) {
            match next {
                '(' => self.group(depth)?,
                '^' => {
                    self.rust.push('^');
                    self.no_repetition()?;
                }
                '[' => {
                    self.class()?;
                    self.repetition()?;
                }
                '.' => {
                    // of Java's line ends, those that are ASCII
                    self.rust.push_str(r"[^\n\r]");
                    self.repetition()?;
                }
                '\\' => {
                    self.escape(Place::Pattern)?;
                    self.repetition()?;
                }
                '*' | '+' | '?' | '{' | '}' | ']' | '$' => return None,
                character => {
                    self.character(character)?;
                    self.repetition()?;
                }
            }
        }
        Some(())
    }

    /// Behind its `(`.
    fn group(&mut self, depth: usize) -> Option<()> {
        if self.java.next_if_eq(&'?').is_some() {
            self.java.next_if_eq(&':')?;
            self.rust.push_str("(?:");
        } else {
            self.groups += 1;
            self.rust.push('(');
        }
        self.alternatives(depth + 1)?;
        self.java.next_if_eq(&')')?;
        self.rust.push(')');
        self.no_repetition()
    }

    /// Behind its `[`.
    fn class(&mut self) -> Option<()> {
        self.rust.push('[');
        if self.java.next_if_eq(&'^').is_some() {
            self.rust.push('^');
        }
        let mut empty = true;
        loop {
            let from = match self.java.next()? {
                ']' if !empty => break,
                // an operation on classes, or something that reads differently at one end than in the middle
                '[' | ']' | '&' if self.java.peek() == Some(&'&') => return None,
                '[' | ']' | '-' | '^' => return None,
                '\\' => self.escape(Place::Class)?,
                character => {
                    self.character(character)?;
                    Some(character)
                }
            };
            empty = false;
            if self.java.next_if_eq(&'-').is_some() {
                self.rust.push('-');
                let to = match self.java.next()? {
                    '[' | ']' | '-' | '^' | '&' | '\\' => return None,
                    character => character,
                };
                self.character(to)?;
                if from? > to {
                    return None;
                }
            }
        }
        self.rust.push(']');
        Some(())
    }

    /// Behind its `\`. The character that it stands for, unless that is a class; all of it `None` if it is not taken.
    fn escape(&mut self, place: Place) -> Option<Option<char>> {
        let escaped = self.java.next()?;
        let class = match escaped {
            'd' => "0-9",
            'w' => "0-9A-Z_a-z",
            's' => r"\t\n\x0B\f\r ",
            'D' | 'W' | 'S' if place == Place::Class => return None,
            'D' => "^0-9",
            'W' => "^0-9A-Z_a-z",
            'S' => r"^\t\n\x0B\f\r ",
            escaped if escaped.is_ascii_punctuation() => {
                self.character(escaped)?;
                return Some(Some(escaped));
            }
            _ => return None,
        };
        match place {
            Place::Class => self.rust.push_str(class),
            Place::Pattern => write!(self.rust, "[{class}]").ok()?,
        }
        Some(None)
    }

    fn character(&mut self, character: char) -> Option<()> {
        // control characters mean themselves, but nobody writes them
        if !matches!(character, ' '..='~') {
            return None;
        }
        write!(self.rust, r"\x{{{:x}}}", u32::from(character)).ok()
    }

    fn no_repetition(&mut self) -> Option<()> {
        self.java.peek().is_none_or(|next| !matches!(next, '*' | '+' | '?' | '{')).then_some(())
    }

    /// What may stand behind a character or a class.
    fn repetition(&mut self) -> Option<()> {
        match self.java.next_if(|next| matches!(next, '*' | '+' | '?' | '{')) {
            None => return Some(()),
            Some('{') => self.count()?,
            Some(sign) => self.rust.push(sign),
        }
        if self.java.next_if_eq(&'?').is_some() {
            self.rust.push('?');
        }
        // possessive, or a repetition of a repetition
        self.no_repetition()
    }

    /// Behind its `{`.
    fn count(&mut self) -> Option<()> {
        let least = self.number()?;
        write!(self.rust, "{{{least}").ok()?;
        if self.java.next_if_eq(&',').is_some() {
            self.rust.push(',');
            if self.java.peek() != Some(&'}') {
                let most = self.number()?;
                if most < least {
                    return None;
                }
                write!(self.rust, "{most}").ok()?;
            }
        }
        self.java.next_if_eq(&'}')?;
        self.rust.push('}');
        Some(())
    }

    fn number(&mut self) -> Option<u32> {
        let mut digits = String::new();
        while let Some(digit) = self.java.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        digits.parse().ok().filter(|number| *number <= MOST_REPETITIONS)
    }
}

/// Where a character stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Pattern,
    Class,
}
