//! Aggregates over windows against Flink's processors, followed row by row and timer by timer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod model;
mod properties;
mod rules;

use streamfusion_plan::node::{
    AggCall, GlobalWindowAggregate, LocalWindowAggregate, ShiftZone, WindowAggregate, WindowProperty, WindowSpec,
    Windowing, WindowingStrategy,
};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyedState, StateContext};

use super::{LocalWindowAgg, WindowAgg};
use crate::bundle::FlushReason;
use crate::window::testing::input_type;
use crate::{Operator, OperatorError, Residence};

/// Columns of the rows of [`testing`](crate::window::testing).
const ID: usize = 0;
const KEY: usize = 1;
const TEXT: usize = 2;
const TIME: usize = 3;
const END: usize = 4;

fn ty(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn call(name: &str, args: &[usize], distinct: bool) -> AggCall {
    let kind = match (name, args) {
        ("MAX" | "LAST_VALUE", [TEXT]) => TypeKind::VarChar(i32::MAX as u32),
        _ => TypeKind::BigInt,
    };
    AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: args.to_vec(),
        filter: None,
        distinct,
        approximate: false,
        ignore_nulls: false,
        need_retraction: false,
        ty: ty(kind),
    }
}

/// A query: `SELECT k, calls, properties`.
#[derive(Debug, Clone)]
struct Query {
    window: WindowSpec,
    attached: bool,
    by_clock: bool,
    grouping: Vec<usize>,
    calls: Vec<AggCall>,
}

impl Query {
    fn windowing(&self, strategy: WindowingStrategy) -> Windowing {
        let attribute = if self.by_clock { TimeAttribute::Proctime } else { TimeAttribute::Rowtime };
        let kind = TypeKind::Timestamp { precision: 3, attribute };
        let (window, zone) = (self.window.clone(), ShiftZone::Utc);
        Windowing { strategy, window, time_attribute: ty(kind), is_rowtime: !self.by_clock, zone }
    }

    fn of_rows(&self) -> Windowing {
        self.windowing(match self.attached {
            true => WindowingStrategy::WindowAttached { start: None, end: END },
            false => WindowingStrategy::TimeAttribute { column: TIME },
        })
    }

    fn spec(&self) -> WindowAggregate {
        WindowAggregate {
            grouping: self.grouping.clone(),
            calls: self.calls.clone(),
            windowing: self.of_rows(),
            properties: vec![WindowProperty::Start, WindowProperty::End],
            need_retraction: false,
        }
    }

    fn one_phase(&self, context: &StateContext) -> Box<dyn Operator> {
        super::supports(&self.spec(), &input_type()).unwrap();
        Box::new(WindowAgg::try_new(&self.spec(), &input_type(), context).unwrap())
    }

    /// The rows between the phases.
    fn between(&self) -> LogicalType {
        let keys = self.grouping.iter().map(|key| input_type().fields()[*key].ty.clone());
        let mut types: Vec<LogicalType> = keys.collect();
        let counts = |call: &&AggCall| call.args.is_empty();
        types.extend(self.calls.iter().map(|call| call.ty.clone()));
        if matches!(self.window, WindowSpec::Hopping { .. }) && !self.calls.iter().any(|call| counts(&call)) {
            types.push(ty(TypeKind::BigInt));
        }
        let mut sets: Vec<&[usize]> =
            self.calls.iter().filter(|call| call.distinct).map(|call| call.args.as_slice()).collect();
        sets.dedup();
        types.extend(sets.iter().map(|_| ty(TypeKind::View)));
        types.push(ty(TypeKind::BigInt));
        let fields = types.into_iter().enumerate().map(|(i, ty)| Field { name: format!("b{i}"), ty }).collect();
        LogicalType { kind: TypeKind::Row(fields), nullable: false }
    }

    fn two_phases(&self, context: &StateContext) -> Box<dyn Operator> {
        let between = self.between();
        let end = between.fields().len() - 1;
        let local = LocalWindowAggregate {
            grouping: self.grouping.clone(),
            calls: self.calls.clone(),
            windowing: self.of_rows(),
            need_retraction: false,
        };
        let strategy = match self.attached {
            true => WindowingStrategy::WindowAttached { start: None, end },
            false => WindowingStrategy::SliceAttached { end },
        };
        let global = GlobalWindowAggregate {
            grouping: (0..self.grouping.len()).collect(),
            calls: self.calls.clone(),
            local_input: input_type(),
            windowing: self.windowing(strategy),
            properties: self.spec().properties,
            need_retraction: false,
        };
        super::supports_local(&local, &input_type(), &between).unwrap();
        super::supports_global(&global, &between).unwrap();
        Box::new(TwoPhases {
            local: LocalWindowAgg::try_new(&local, &input_type()).unwrap(),
            global: WindowAgg::try_new_global(&global, &between, context).unwrap(),
        })
    }
}

/// Both phases in one task.
struct TwoPhases {
    local: LocalWindowAgg,
    global: WindowAgg,
}

impl TwoPhases {
    fn hand_over(&mut self) {
        while let Some(batch) = self.local.pull().unwrap() {
            assert!(batch.kinds().is_none());
            self.global.push(batch).unwrap();
            assert!(self.global.pull().unwrap().is_none());
        }
    }
}

impl Operator for TwoPhases {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.local.push(batch)?;
        self.hand_over();
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.global.pull()
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        assert_eq!(self.local.watermark(watermark_ms)?, Some(watermark_ms));
        self.hand_over();
        self.global.watermark(watermark_ms)
    }

    fn progress(&self) -> Option<i64> {
        self.global.progress()
    }

    fn restore_progress(&mut self, watermark_ms: i64) {
        self.global.restore_progress(watermark_ms);
    }

    fn late_rows(&self) -> Option<u64> {
        self.global.late_rows()
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        self.local.flush(FlushReason::Checkpoint).unwrap();
        self.hand_over();
        self.global.state()
    }

    fn residence(&self) -> Residence {
        self.global.residence()
    }
}
