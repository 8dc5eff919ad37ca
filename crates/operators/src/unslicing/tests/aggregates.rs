//! Random rows, watermarks and checkpoints against the model.

use proptest::prelude::*;
use streamfusion_plan::node::{WindowAggregate, WindowSpec, Windowing as PlanWindowing, WindowingStrategy};
use streamfusion_plan::types::{LogicalType, TimeAttribute, TypeKind};
use streamfusion_state::StateContext;

use crate::Operator;
use crate::unslicing::testing::{
    END, KEY, Output, START, Setting, Step, TEXT, TIME, Windowing, calls, check, input_type, properties, steps, zones,
    zones_of_the_clock,
};
use crate::unslicing::{open_sessions, supports_sessions};

fn plan(setting: &Setting) -> WindowAggregate {
    let attribute = if setting.rowtime { TimeAttribute::Rowtime } else { TimeAttribute::Proctime };
    let kind = match setting.zone {
        None => TypeKind::Timestamp { precision: 3, attribute },
        Some(_) => TypeKind::TimestampLtz { precision: 3, attribute },
    };
    let (strategy, gap_ms) = match setting.windowing {
        Windowing::Session(gap_ms) => (WindowingStrategy::TimeAttribute { column: TIME }, gap_ms),
        _ => (WindowingStrategy::WindowAttached { start: Some(START), end: END }, 1),
    };
    WindowAggregate {
        grouping: setting.keys.clone(),
        calls: calls(setting),
        windowing: PlanWindowing {
            strategy,
            window: WindowSpec::Session { gap_ms, partition: vec![KEY] },
            time_attribute: LogicalType { kind, nullable: true },
            is_rowtime: setting.rowtime,
            zone: setting.shift_zone(),
        },
        properties: properties(),
        need_retraction: setting.retracts,
    }
}

fn open(setting: &Setting, context: &StateContext) -> Box<dyn Operator> {
    let (plan, input) = (plan(setting), input_type(setting));
    supports_sessions(&plan, &input).unwrap();
    open_sessions(&plan, &input, context).unwrap()
}

fn keys() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::select(vec![vec![], vec![KEY], vec![TEXT], vec![KEY, TEXT]])
}

fn case(rowtime: bool) -> impl Strategy<Value = (Setting, Vec<Step>)> {
    let windowing = prop_oneof![5 => (1_i64..40).prop_map(Windowing::Session), 1 => Just(Windowing::Attached)];
    let base = prop::sample::select(vec![0_i64, -3_000, 1_704_067_200_000]);
    let zone = if rowtime { zones().boxed() } else { zones_of_the_clock().boxed() };
    (windowing, any::<bool>(), zone, keys(), base).prop_flat_map(move |(windowing, retracts, zone, keys, base)| {
        let rowtime = rowtime || windowing == Windowing::Attached;
        let base = if zone.is_some() { 0 } else { base };
        let windowing = match windowing {
            Windowing::Session(gap) if zone.is_some() => Windowing::Session(gap * 400),
            other => other,
        };
        let spread = if zone.is_some() { 12_000 } else { 120 };
        let setting = Setting { windowing, output: Output::Aggregates, legacy: false, rowtime, retracts, zone, keys };
        (Just(setting), steps(retracts, spread, base))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn sessions_by_row_time_are_those_of_the_model(
        (setting, steps) in case(true), sizes in prop::collection::vec(0_usize..20, 0..12),
    ) {
        check(&open, &setting, &steps, &sizes)?;
    }

    #[test]
    fn sessions_by_processing_time_are_those_of_the_model(
        (setting, steps) in case(false), sizes in prop::collection::vec(0_usize..20, 0..12),
    ) {
        check(&open, &setting, &steps, &sizes)?;
    }
}
