//! What the phases agree on: the calls, and the accumulator columns between them.

use std::num::NonZeroU64;

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{AggCall, GroupAggregate};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::types::arrow_type;
use streamfusion_state::StateTtl;

use super::order;
use super::partial::column_types;
use crate::group_agg::distinct::{Share, share};
use crate::group_agg::support::{self, Call, FunctionKind, Retraction};
use crate::keys::Keys;

/// An aggregate of either phase.
#[derive(Debug)]
pub(super) struct Phase {
    /// Of rows of the input.
    pub(super) keys: Keys,
    /// Of the key columns alone.
    pub(super) frame_keys: Keys,
    key_types: Vec<LogicalType>,
    /// The calls of the plan, and behind them the COUNT(*) that Flink inserts where rows retract and there is none.
    pub(super) calls: Vec<Call>,
    /// How many of them the plan has.
    pub(super) planned: usize,
    /// The call that counts the rows of a group: the one that the plan names, or the last COUNT(*) over all rows. With retraction there
    /// is one.
    pub(super) count_star: Option<usize>,
    /// The Arrow types of each call's accumulator columns.
    pub(super) columns: Vec<Vec<DataType>>,
    /// The calls that share DISTINCT sets. Behind the accumulators there is a column per set.
    pub(super) sets: Vec<Share>,
    pub(super) retraction: Retraction,
    pub(super) ttl: Option<StateTtl>,
    pub(super) bundle_size: NonZeroU64,
}

/// What the plan says of either phase.
pub(super) struct Plan<'a> {
    pub(super) grouping: &'a [usize],
    /// The rows with the columns of `grouping`.
    pub(super) input: &'a LogicalType,
    pub(super) calls: &'a [AggCall],
    /// The rows that the calls are about.
    pub(super) call_input: &'a LogicalType,
    pub(super) need_retraction: bool,
    /// The call that counts the rows of a group, if that is not for the calls to say: behind split DISTINCT aggregates a $SUM0 of
    /// counts.
    pub(super) count_star: Option<usize>,
    pub(super) ttl_ms: i64,
    pub(super) bundle_size: u64,
    /// The rows with accumulator columns behind `grouping.len()` others.
    pub(super) accumulators: &'a LogicalType,
}

impl Phase {
    /// Resolves a phase, or says why it stays on Flink.
    ///
    /// Follows: AggregateUtil.transformToStreamAggregateInfoList, Flink 2.2.
    pub(super) fn resolve(plan: &Plan<'_>) -> Result<Self, Reason> {
        let spec = GroupAggregate {
            grouping: Vec::new(),
            calls: plan.calls.to_vec(),
            generate_update_before: false,
            need_retraction: plan.need_retraction,
            ttl_ms: plan.ttl_ms,
            mini_batch_size: None,
        };
        let mut calls = support::resolve(&spec, plan.call_input)?.calls;
        calls.iter().filter(|call| call.distinct).try_for_each(order::check_distinct)?;
        let planned = calls.len();
        let counts = |call: &Call| call.argument.is_none() && call.filter.is_none();
        let mut count_star = calls.iter().rposition(counts);
        if let Some(named) = plan.count_star {
            let sums = |call: &Call| call.function == FunctionKind::Sum0 && call.output == DataType::Int64;
            let known = |call: &Call| counts(call) || (sums(call) && call.filter.is_none() && !call.distinct);
            if !calls.get(named).is_some_and(known) {
                return Err(Reason::new(
                    "the call that counts the rows of a group is neither COUNT(*) nor a sum of counts",
                ));
            }
            count_star = Some(named);
        }
        if plan.need_retraction && count_star.is_none() {
            count_star = Some(planned);
            calls.push(Call {
                function: FunctionKind::Count,
                argument: None,
                filter: None,
                distinct: false,
                output: DataType::Int64,
            });
        }
        let columns = calls.iter().map(column_types).collect::<Result<Vec<_>, _>>()?;
        let sets = share(&calls);
        check_sets(&sets)?;
        check_columns(
            columns.iter().flatten().chain(sets.iter().map(|_| &DataType::Binary)),
            plan.accumulators,
            plan.grouping.len(),
        )?;
        let fields = plan.input.fields();
        let keys = plan.grouping.iter().map(|column| fields.get(*column).map(|field| field.ty.clone()));
        let keys = keys.collect::<Option<Vec<_>>>().ok_or_else(|| Reason::new("a grouping column does not exist"))?;
        let arrow = keys.iter().map(arrow_type).collect::<Result<Vec<_>, _>>()?;
        let places: Vec<usize> = (0..keys.len()).collect();
        Ok(Self {
            keys: Keys::try_new(plan.grouping, &keys, &arrow)?,
            frame_keys: Keys::try_new(&places, &keys, &arrow)?,
            key_types: keys,
            calls,
            planned,
            count_star,
            columns,
            sets,
            retraction: if plan.need_retraction { Retraction::Applied } else { Retraction::None },
            ttl: StateTtl::of_millis(plan.ttl_ms),
            bundle_size: NonZeroU64::new(plan.bundle_size).ok_or_else(|| Reason::new("the mini-batch size is 0"))?,
        })
    }
}

impl Phase {
    /// A key that is made of some of the key columns, in this order.
    pub(super) fn part_of_key(&self, part: &[usize]) -> Result<Keys, Reason> {
        let types = part.iter().map(|column| self.key_types.get(*column).cloned());
        let types =
            types.collect::<Option<Vec<_>>>().ok_or_else(|| Reason::new("a column of the final key does not exist"))?;
        let arrow = types.iter().map(arrow_type).collect::<Result<Vec<_>, _>>()?;
        Keys::try_new(&(0..part.len()).collect::<Vec<_>>(), &types, &arrow)
    }
}

/// Whether there is one set per argument, as Flink has them, whatever the number of calls.
pub(in crate::group_agg) fn check_sets(sets: &[Share]) -> Result<(), Reason> {
    for (number, set) in sets.iter().enumerate() {
        if sets.iter().take(number).any(|other| other.column == set.column) {
            return Err(Reason::new(
                "more than 64 DISTINCT aggregates of one column are not supported natively in two phases",
            ));
        }
    }
    Ok(())
}

/// Whether `columns` are those of `rows` behind so many keys.
pub(super) fn check_columns<'a>(
    columns: impl Iterator<Item = &'a DataType>,
    rows: &LogicalType,
    keys: usize,
) -> Result<(), Reason> {
    let found = rows.fields().iter().skip(keys).map(|field| arrow_type(&field.ty));
    let found = found.collect::<Result<Vec<_>, _>>()?;
    if columns.eq(&found) {
        return Ok(());
    }
    Err(Reason::new("the accumulators of the two phases have types that are not known here"))
}
