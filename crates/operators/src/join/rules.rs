//! What a matching pair, and a row that matches nothing, send out and do to degrees.
//!
//! | input | pair: the other row's degree, then out | no pair |
//! | --- | --- | --- |
//! | +, other side outer | 0: -D (NULL, other), +I pair; else +I pair | |
//! | +, input side outer | +I pair | +I (row, NULL) |
//! | +, INNER | pair with the row's kind | |
//! | -, input side outer | -D pair | -D (row, NULL) |
//! | -, input side not outer | pair with the row's kind | |
//! | -, other side outer | as above, then 1: +I (NULL, other) | |
//! | left of SEMI (ANTI) | once: the row | (the row) |
//! | + right of SEMI (ANTI) | 0: other with the row's kind (-D) | |
//! | - right of SEMI (ANTI) | 1: other with the row's kind (+I) | |
//!
//! In the table + is a row of kind +I or +U, and - one of -U or -D. The former adds one to the other row's degree, the latter takes
//! one away. A *suppressed* row, one of the two that a bundle made of an update, sends out no (NULL, other).
//!
//! Follows: StreamingJoinOperator, StreamingSemiAntiJoinOperator, Flink 2.2. Differences: none.

use streamfusion_plan::node::JoinType;
use streamfusion_row::RowKind;

use super::Input;
use super::output::{NO_ROW, Output};
use super::records::is_accumulate;

/// What rows of one input do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Pairs go out.
    Pairs { input_is_outer: bool, other_is_outer: bool },
    /// The left input of SEMI and ANTI: rows go out as they came, if they are ..
    Tested(Passes),
    /// The right input of SEMI and ANTI: rows of the left one go out.
    Testing(Passes),
}

/// Which left rows are in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    Matched,
    Unmatched,
}

/// A row of the input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming {
    pub(super) row: u32,
    pub(super) kind: u8,
    pub(super) suppressed: bool,
}

/// Whether the rows of this input have degrees.
pub(super) fn has_degrees(join_type: JoinType, input: Input) -> bool {
    match join_type {
        JoinType::Inner => false,
        JoinType::Left | JoinType::Semi | JoinType::Anti => input == Input::Left,
        JoinType::Right => input == Input::Right,
        JoinType::Full => true,
    }
}

impl Rule {
    pub(super) fn of(join_type: JoinType, input: Input) -> Self {
        let passes = if join_type == JoinType::Semi { Passes::Matched } else { Passes::Unmatched };
        match (join_type, input) {
            (JoinType::Semi | JoinType::Anti, Input::Left) => Self::Tested(passes),
            (JoinType::Semi | JoinType::Anti, Input::Right) => Self::Testing(passes),
            _ => Self::Pairs {
                input_is_outer: has_degrees(join_type, input),
                other_is_outer: has_degrees(join_type, input.other()),
            },
        }
    }

    /// Whether pairs send out the other rows.
    pub(super) fn sends_other_rows(self) -> bool {
        !matches!(self, Self::Tested(_))
    }

    /// Whether pairs change the degrees of the other rows.
    pub(super) fn changes_degrees(self) -> bool {
        match self {
            Self::Pairs { other_is_outer, .. } => other_is_outer,
            Self::Testing(_) => true,
            Self::Tested(_) => false,
        }
    }

    /// The row matches row `other`, which has this degree.
    #[inline]
    pub(super) fn pair(self, incoming: Incoming, other: u32, degree: i32, out: &mut Output) {
        let Incoming { row, kind, suppressed } = incoming;
        match self {
            Self::Pairs { input_is_outer, other_is_outer } => {
                if is_accumulate(kind) {
                    if other_is_outer && degree == 0 && !suppressed {
                        out.push(RowKind::Delete, NO_ROW, other);
                    }
                    let kind = if input_is_outer || other_is_outer { RowKind::Insert as u8 } else { kind };
                    out.push_kind(kind, row, other);
                } else {
                    out.push_kind(if input_is_outer { RowKind::Delete as u8 } else { kind }, row, other);
                    if other_is_outer && degree == 1 && !suppressed {
                        out.push(RowKind::Insert, NO_ROW, other);
                    }
                }
            }
            Self::Tested(_) => {}
            Self::Testing(passes) => {
                let accumulates = is_accumulate(kind);
                if degree == i32::from(!accumulates) {
                    match (passes, accumulates) {
                        (Passes::Matched, _) => out.push_kind(kind, NO_ROW, other),
                        (Passes::Unmatched, true) => out.push(RowKind::Delete, NO_ROW, other),
                        (Passes::Unmatched, false) => out.push(RowKind::Insert, NO_ROW, other),
                    }
                }
            }
        }
    }

    /// The row has been paired with all that it matches.
    #[inline]
    pub(super) fn paired(self, incoming: Incoming, matches: i32, out: &mut Output) {
        let Incoming { row, kind, .. } = incoming;
        match self {
            Self::Pairs { input_is_outer: true, .. } if matches == 0 => {
                let kind = if is_accumulate(kind) { RowKind::Insert } else { RowKind::Delete };
                out.push(kind, row, NO_ROW);
            }
            Self::Tested(passes) if (passes == Passes::Matched) == (matches > 0) => out.push_kind(kind, row, NO_ROW),
            _ => {}
        }
    }
}
