//! Interval joins against a model that follows Flink's operators row by row.
#![allow(clippy::unwrap_used)]

mod changelogs;
mod model;
mod properties;

use streamfusion_plan::node::{self, JoinSpec, JoinType, WindowBounds};
use streamfusion_plan::types::TimeDomain;
use streamfusion_state::StateContext;

use super::IntervalJoin;
use crate::Operator;
use crate::join::limits::Limits;
use crate::timed_testing::{Event, Job, Trace, condition, input_type};

/// A join, and how much it does at once.
#[derive(Debug, Clone)]
struct Case {
    join_type: JoinType,
    time: TimeDomain,
    keys: Vec<usize>,
    filter_nulls: bool,
    condition: bool,
    lower: i64,
    upper: i64,
    min_clean_up_interval: i64,
    limits: Limits,
}

impl Case {
    /// `right.t + lower <= left.t <= right.t + upper`, by the column `k`.
    fn new(join_type: JoinType, lower: i64, upper: i64) -> Self {
        Self {
            join_type,
            time: TimeDomain::Rowtime,
            keys: vec![0],
            filter_nulls: true,
            condition: false,
            lower,
            upper,
            min_clean_up_interval: 0,
            limits: Limits::default(),
        }
    }

    fn spec(&self) -> node::IntervalJoin {
        node::IntervalJoin {
            join: JoinSpec {
                join_type: self.join_type,
                left_keys: self.keys.clone(),
                right_keys: self.keys.clone(),
                filter_nulls: vec![self.filter_nulls; self.keys.len()],
                condition: self.condition.then(condition),
            },
            bounds: WindowBounds {
                time: self.time,
                left_lower_ms: self.lower,
                left_upper_ms: self.upper,
                left_time: 1,
                right_time: 1,
            },
            min_clean_up_interval_ms: self.min_clean_up_interval,
        }
    }

    fn open(&self, context: &StateContext) -> Box<dyn Operator> {
        if !super::is_stateful(&self.spec()) {
            return super::open(&self.spec(), &input_type(), &input_type(), None).unwrap();
        }
        let (spec, ty) = (self.spec(), input_type());
        Box::new(IntervalJoin::with_limits(&spec, &ty, &ty, context, self.limits).unwrap())
    }

    /// What comes out of these events, in batches of these sizes.
    fn run(&self, events: &[Event], sizes: &[usize]) -> Trace {
        let mut out = Trace::default();
        let open = |context: &StateContext| self.open(context);
        Job::open(&open, &self.keys, self.limits.output_rows, 1).push(events, sizes, &mut out);
        out
    }
}
