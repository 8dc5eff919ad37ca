//! Joins without a window or a time condition.
//!
//! Both inputs are kept in state by join key ([`records`]). A batch of one input is matched with the rows of the other
//! ([`probe`]); what then goes out is a table of rules ([`rules`]). With mini-batch, where both sides have at most one row per
//! join key, bundles of both inputs are folded first ([`bundle`]), and what is left takes the same way. Other joins go row
//! by row in mini-batch mode too, so that rows that are there several times never meet a fold.
//!
//! Follows: StreamingJoinOperator, StreamingSemiAntiJoinOperator, MiniBatchStreamingJoinOperator, Flink 2.2. Differences: of several rows
//! that match a row, the order is that in which they came in, where Flink's depends on the state backend; joins
//! with several rows per join key are not bundled, so that rows that cancel out within a bundle go out and back. The condition
//! of SEMI and ANTI is evaluated for all pairs of a retraction; Flink stops at the first that matches. The clock is read once per batch
//! and input for the time-to-live, not per row.

mod bundle;
mod bundle_keys;
pub(crate) mod condition;
mod copies;
pub(crate) mod limits;
pub(crate) mod output;
mod probe;
mod records;
mod rules;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;

use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, InputSide, InputSideKey, JoinType};
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyedState, StateContext, TablePair};

use self::bundle::Bundle;
use self::condition::Condition;
use self::limits::Limits;
use self::output::Shape;
use self::probe::{Arrived, Probe, SideOf};
pub(crate) use self::records::is_accumulate;
use self::records::{Degrees, Names, Records};
use self::rules::{Rule, has_degrees};
use crate::bundle::{BundleMetrics, FlushReason};
use crate::definition::describe;
use crate::{Operator, OperatorError, Residence};

/// Name of the state. Names never change.
const TABLE: &str = "join";
const LEFT: Names = Names { keys: "left_records", rows: "left_records.rows" };
const RIGHT: Names = Names { keys: "right_records", rows: "right_records.rows" };

/// One of the two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// The first.
    Left,
    /// The second.
    Right,
}

impl Input {
    /// The other one.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// Whether [`Join`] does over rows of these types exactly what Flink does.
pub fn supports(spec: &node::Join, left: &LogicalType, right: &LogicalType) -> Result<(), Reason> {
    records::supports(&spec.left, left)?;
    records::supports(&spec.right, right)?;
    keys_agree([&spec.left.keys, &spec.right.keys], &spec.filter_nulls, left, right)?;
    spec.condition.as_ref().map_or(Ok(()), condition::supports)
}

/// Whether equal keys have equal bytes on both sides: only where their types have the same form. `keys` are those of either
/// side.
pub(crate) fn keys_agree(
    [left_keys, right_keys]: [&[usize]; 2],
    filter_nulls: &[bool],
    left: &LogicalType,
    right: &LogicalType,
) -> Result<(), Reason> {
    if right_keys.len() != left_keys.len() || filter_nulls.len() != left_keys.len() {
        return Err(Reason::new("its inputs have different numbers of key columns"));
    }
    for (of_left, of_right) in left_keys.iter().zip(right_keys) {
        let types = left.fields().get(*of_left).zip(right.fields().get(*of_right));
        if let Some((left, right)) = types.filter(|(left, right)| form(&left.ty) != form(&right.ty)) {
            let (left, right) = (describe(&left.ty), describe(&right.ty));
            return Err(Reason::new(format!("a key column is {left} on the left and {right} on the right")));
        }
    }
    Ok(())
}

/// The type without what values do not depend on.
fn form(ty: &LogicalType) -> String {
    match &ty.kind {
        TypeKind::Char(_) | TypeKind::VarChar(_) => "text".to_owned(),
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => "bytes".to_owned(),
        _ => describe(ty),
    }
}

/// Whether bundles of both inputs are folded.
fn is_bundled(spec: &node::Join) -> Option<NonZeroU64> {
    let at_most_one = |side: &InputSide| matches!(side.unique_key(), InputSideKey::JoinKeyContainsUniqueKey(_));
    let size = spec.mini_batch_size.and_then(NonZeroU64::new)?;
    // Flink's SEMI and ANTI have no form with bundles
    (!matches!(spec.join_type, JoinType::Semi | JoinType::Anti) && at_most_one(&spec.left) && at_most_one(&spec.right))
        .then_some(size)
}

/// See the [module](self). The output has the columns of the left input and, but for SEMI and ANTI, those of the right one
/// behind them.
#[derive(Debug)]
pub struct Join {
    join_type: JoinType,
    left: Records,
    right: Records,
    tables: TablePair,
    condition: Option<Condition>,
    probe: Probe,
    bundle: Option<Bundle>,
}

impl Join {
    /// An operator without state over rows of these types. Errors if [`supports`] refuses it.
    pub fn try_new(
        spec: &node::Join,
        left: &LogicalType,
        right: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        Self::with_limits(spec, left, right, context, Limits::default())
    }

    fn with_limits(
        spec: &node::Join,
        left: &LogicalType,
        right: &LogicalType,
        context: &StateContext,
        limits: Limits,
    ) -> Result<Self, OperatorError> {
        supports(spec, left, right).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let degrees = |input| if has_degrees(spec.join_type, input) { Degrees::Kept } else { Degrees::None };
        let nulls = &spec.filter_nulls;
        let (left_rows, left_table) = Records::try_new(LEFT, &spec.left, nulls, left, degrees(Input::Left), context)?;
        let (right_rows, right_table) =
            Records::try_new(RIGHT, &spec.right, nulls, right, degrees(Input::Right), context)?;
        let bundle = match is_bundled(spec) {
            None => None,
            Some(size) => {
                let (left, right) = (records::keys(&spec.left, left)?, records::keys(&spec.right, right)?);
                Some(Bundle::new(spec.join_type, size, left, right, limits))
            }
        };
        let condition = |condition| Condition::try_new(condition, left.fields().len());
        Ok(Self {
            join_type: spec.join_type,
            left: left_rows,
            right: right_rows,
            tables: TablePair::new(TABLE, left_table, right_table),
            condition: spec.condition.as_ref().map(condition).transpose()?,
            probe: Probe::new(limits),
            bundle,
        })
    }

    fn accept(&mut self, side: Input, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        match side {
            Input::Left => self.left.check(&batch)?,
            Input::Right => self.right.check(&batch)?,
        }
        match &mut self.bundle {
            Some(bundle) => {
                bundle.push(side, batch);
                Ok(())
            }
            None => self.begin(Arrived { side, batch, suppressed: None }),
        }
    }

    fn begin(&mut self, arrived: Arrived) -> Result<(), OperatorError> {
        let Self { left, right, tables, .. } = self;
        let left = SideOf { records: left, table: &mut tables.left };
        let right = SideOf { records: right, table: &mut tables.right };
        let (mut own, mut other) = if arrived.side == Input::Left { (left, right) } else { (right, left) };
        let condition = self.condition.as_ref();
        self.probe.begin(Rule::of(self.join_type, arrived.side), arrived, condition, &mut own, &mut other)
    }

    /// The next output of what the probe works on.
    fn probed(&mut self) -> Result<Option<Batch>, OperatorError> {
        let Self { left, right, tables, .. } = self;
        let left = SideOf { records: left, table: &mut tables.left };
        let right = SideOf { records: right, table: &mut tables.right };
        let (mut own, mut other) = if self.probe.side() == Input::Left { (left, right) } else { (right, left) };
        let shape = match self.join_type {
            JoinType::Semi | JoinType::Anti => Shape::Left,
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => Shape::Both,
        };
        self.probe.pull(shape, self.condition.as_ref(), &mut own, &mut other)
    }
}

impl Operator for Join {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.accept(Input::Left, batch)
    }

    fn push_second(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.accept(Input::Right, batch)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            if let Some(batch) = self.probed()? {
                if let Some(bundle) = &mut self.bundle {
                    bundle.emitted(batch.num_rows());
                }
                return Ok(Some(batch));
            }
            let Some(bundle) = &mut self.bundle else { return Ok(None) };
            let Some(arrived) = bundle.next()? else { return Ok(None) };
            self.begin(arrived)?;
        }
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        if let Some(bundle) = &mut self.bundle {
            bundle.flush(reason);
        }
        Ok(())
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.tables)
    }

    fn residence(&self) -> Residence {
        Residence::Cached
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        self.bundle.as_ref().map(Bundle::metrics)
    }

    fn bundle_bytes(&self) -> usize {
        self.probe.bytes() + self.left.bytes() + self.right.bytes() + self.bundle.as_ref().map_or(0, Bundle::bytes)
    }
}
