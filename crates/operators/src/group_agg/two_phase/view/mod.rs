//! Maps of values between the phases: DISTINCT sets, and the values of MIN and MAX over rows that retract.
//!
//! Flink hands such a map on as a Java object. Native phases, which the planner keeps together, have one Binary column per set and per such
//! call instead. A cell is the map of one key in one bundle:
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | version of the form: 1 |
//! | 1 | kind: 1 values seen, 2 values counted, 3 values counted with their extremum; 4 a list, which is no map |
//! | varint | kinds 1 and 2: how many calls share the set |
//! | 1, then a value | kind 3: 1 if there is a current value, which follows; otherwise 0 |
//! | varint | kind 3: how many values Flink takes to have a positive count |
//! | varint | how many entries follow |
//! | per entry | the value; kind 1: a bit per call, in as few bytes as have room; kind 2: a count per call; kind 3: a count; kind 4: 0 for NULL, or 1 and the value |
//!
//! A value of fixed width is its bytes, the lowest first (BOOLEAN: 0 or 1); a text is its length, a varint, and its bytes in UTF-8. A varint has
//! seven bits per byte, the lowest first; a count is one, with its sign in the lowest bit. NULL is in no map: no aggregate takes it.
//!
//! Whoever reads a cell goes through it once, allocates nothing per value, and refuses what is not as said here before it looks at it.
//! The form of maps is never kept: state has its own, which is that of GROUP BY in one phase. Lists are kept: LAG has them.

mod cell;
mod extremum;
mod list;
mod marks;
mod set;
mod slots;
mod stored;
mod value;

pub(super) use extremum::{Extremes, StoredExtremum};
pub(in crate::group_agg) use list::{begin_list, put_value, read_list};
pub(super) use marks::{CountMarks, SeenMarks};
pub(super) use set::{FrameSet, Set};
pub(in crate::group_agg) use slots::SlotCells;
pub(super) use stored::{StoredSet, StoredValues};
pub(in crate::group_agg) use value::{Carried, Fixed};
