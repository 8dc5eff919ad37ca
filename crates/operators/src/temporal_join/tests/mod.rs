//! Temporal joins against a model that follows Flink's operator row by row.
#![allow(clippy::unwrap_used)]

mod changelogs;
mod latest;
mod model;
mod properties;

use streamfusion_plan::node::{self, JoinSpec, JoinType, RowTimes};
use streamfusion_state::StateContext;

use crate::Operator;
use crate::join::limits::Limits;
use crate::timed_testing::{Event, Job, Trace, condition, input_type};

/// A join, and how much it does at once.
#[derive(Debug, Clone)]
struct Case {
    join_type: JoinType,
    keys: Vec<usize>,
    condition: bool,
    retention: i64,
    by_clock: bool,
    limits: Limits,
}

impl Case {
    fn new(join_type: JoinType) -> Self {
        Self { join_type, keys: vec![0], condition: false, retention: 0, by_clock: false, limits: Limits::default() }
    }

    fn spec(&self) -> node::TemporalJoin {
        node::TemporalJoin {
            join: JoinSpec {
                join_type: self.join_type,
                left_keys: self.keys.clone(),
                right_keys: self.keys.clone(),
                filter_nulls: vec![true; self.keys.len()],
                condition: self.condition.then(condition),
            },
            row_times: (!self.by_clock).then_some(RowTimes { left: 1, right: 1 }),
            retention_ms: self.retention,
        }
    }

    fn open(&self, context: &StateContext) -> Box<dyn Operator> {
        let (spec, ty) = (self.spec(), input_type());
        super::with_limits(&spec, &ty, &ty, context, self.limits).unwrap()
    }

    /// What comes out of these events, in batches of these sizes.
    fn run(&self, events: &[Event], sizes: &[usize]) -> Trace {
        let mut out = Trace::default();
        let open = |context: &StateContext| self.open(context);
        Job::open(&open, &self.keys, self.limits.output_rows, 1).push(events, sizes, &mut out);
        out
    }
}
