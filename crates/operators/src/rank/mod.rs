//! Top-N: the rows of each partition whose row number in sort order is within a range. LIMIT, with ORDER BY and without, is
//! the same over one partition.
//!
//! | input | range | module |
//! | --- | --- | --- |
//! | insert-only, in the order of processing time | any | `first_n` |
//! | insert-only or updated, never moving back | the first row | `append` (`top1`) |
//! | insert-only | any | `append` |
//! | updated, never moving back | any | `update` |
//! | any changelog | any | `retract`; with a state time-to-live `expiring` |
//!
//! Rows are kept whole, those of a partition in sort order (`RowEntries`); a `buffer` over them finds the place of a row by its
//! `sort_key` in a sorted list (`groups`). The sort keys of a batch are made column by column, and rows that cannot enter the
//! buffer of their partition are left behind before anything else is done with them (`ranked`). What is emitted are references
//! until the batch is done (`output`). With mini-batch, which Flink does not have for Top-N, it is what a bundle comes to (`net`).
//!
//! Follows: StreamExecRank, StreamExecSortLimit, StreamExecLimit, Flink 2.2, with the functions that the modules name. Where Flink
//! only logs that state does not fit (`lenient`), so that the changelog goes on, this one goes on in the same way without
//! a word.

mod append;
mod buffer;
mod expiring;
mod first_n;
mod groups;
mod keyed;
mod net;
mod output;
mod ranked;
mod retract;
pub(crate) mod sort_key;
#[cfg(test)]
mod tests;
mod top_n;
mod update;

use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, RankRange, RankStrategy, SortField};
use streamfusion_plan::types::{LogicalType, TimeAttribute, TypeKind};
use streamfusion_state::{RowLayout, StateContext};

use self::first_n::FirstN;
use self::keyed::RankEnds;
use self::net::Ranks;
use self::sort_key::{BytesKeys, FixedKeys};
use self::top_n::TopN;
use crate::changelog::UpdateBefore;
use crate::definition::describe;
use crate::{Operator, OperatorError};

/// Whether [`open`] does over rows of `input` exactly what Flink does.
pub fn supports(spec: &node::Rank, input: &LogicalType) -> Result<(), Reason> {
    let (_, types) = keyed::resolve(&spec.partition, input)?;
    RowLayout::try_new(&types).map_err(|error| Reason::new(error.to_string()))?;
    if is_first_n(spec, input) {
        return Ok(());
    }
    if spec.ttl_ms > 0 && spec.strategy != RankStrategy::Retract {
        return Err(Reason::new(
            "with a state time-to-live, Top-N in Flink depends on what its heap cache holds and for how long",
        ));
    }
    for field in &spec.order_by {
        let ty = input.fields().get(field.column).map(|field| &field.ty);
        let ty = ty.ok_or_else(|| Reason::new("a sort column does not exist"))?;
        sort_key::supports(ty)?;
    }
    if spec.strategy == RankStrategy::Retract && !spec.output_row_number && Emission::of(spec).has_offset() {
        return Err(Reason::new(
            "with an offset and without the row number, Flink looks for a retracted row under the row kind that it emitted last",
        ));
    }
    Ok(())
}

/// Whether it is the first rows that are asked for.
fn is_first_n(spec: &node::Rank, input: &LogicalType) -> bool {
    let [SortField { column, ascending: true, .. }] = spec.order_by.as_slice() else { return false };
    let ty = input.fields().get(*column).map(|field| &field.ty.kind);
    let is_processing_time = matches!(
        ty,
        Some(
            TypeKind::Timestamp { attribute: TimeAttribute::Proctime, .. }
                | TypeKind::TimestampLtz { attribute: TimeAttribute::Proctime, .. }
        )
    );
    is_processing_time && spec.strategy == RankStrategy::AppendFast
}

/// Whether only the first row of a partition counts, and none that was it is wanted again.
fn is_top1(spec: &node::Rank) -> bool {
    spec.range == RankRange::Constant { start: 1, end: 1 } && spec.strategy != RankStrategy::Retract
}

/// An operator without state for rows of the type `input`. The output has the columns of the input, and behind them the row
/// number if the plan says so. Errors if [`supports`] refuses it.
pub fn open(
    spec: &node::Rank,
    input: &LogicalType,
    context: &StateContext,
) -> Result<Box<dyn Operator>, OperatorError> {
    let refused = |reason: Reason| OperatorError::Internal(reason.to_string());
    supports(spec, input).map_err(refused)?;
    if is_first_n(spec, input) {
        return Ok(Box::new(FirstN::try_new(spec, input, context)?));
    }
    if let Some(keys) = FixedKeys::try_new(&spec.order_by, input) {
        return Ok(Box::new(TopN::try_new(spec, input, keys, context)?));
    }
    let keys = BytesKeys::try_new(&spec.order_by, input).map_err(refused)?;
    Ok(Box::new(TopN::try_new(spec, input, keys, context)?))
}

/// What each column of ranked rows in state holds, in words: what was counted out depends on the sort columns.
pub(crate) fn definitions(order_by: &[SortField], input: &LogicalType) -> Vec<String> {
    let definition = |(column, ty): (usize, &LogicalType)| {
        let sorted = order_by.iter().enumerate().filter(|(_, field)| field.column == column);
        let sorted = sorted.map(|(number, field)| {
            let direction = if field.ascending { "ASC" } else { "DESC" };
            let nulls = if field.nulls_last { "LAST" } else { "FIRST" };
            format!(", sort column {number} {direction} NULLS {nulls}")
        });
        describe(ty) + &sorted.collect::<String>()
    };
    input.fields().iter().map(|field| &field.ty).enumerate().map(definition).collect()
}

/// What goes out of a partition.
#[derive(Debug, Clone, Copy)]
struct Emission {
    /// The first rank; below 1 if the last one is not constant.
    start: i64,
    row_number: bool,
    update_before: UpdateBefore,
}

impl Emission {
    fn of(spec: &node::Rank) -> Self {
        Self {
            start: match spec.range {
                RankRange::Constant { start, .. } => start,
                RankRange::Variable { .. } => -1,
            },
            row_number: spec.output_row_number,
            update_before: if spec.generate_update_before { UpdateBefore::Emit } else { UpdateBefore::Omit },
        }
    }

    /// Which ranks of a partition go out whose last one is `end`.
    fn ranks(self, end: i64) -> Ranks {
        let place = |rank: i64| usize::try_from(rank).unwrap_or_default();
        place(self.start - 1)..place(end)
    }

    fn has_offset(self) -> bool {
        self.start > 1
    }

    /// Whether ranks matter, and not only which rows are among them.
    fn numbered(self) -> bool {
        self.row_number || self.has_offset()
    }
}
