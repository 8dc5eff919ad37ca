//! Windows of GROUP BY against a model that follows Flink's classes row by row.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use streamfusion_plan::node::{GroupWindowAggregate, WindowSpec};
use streamfusion_plan::types::TimeDomain;
use streamfusion_state::StateContext;

use super::{open, supports};
use crate::Operator;
use crate::unslicing::testing::{
    KEY, Output, Setting, Step, TEXT, TIME, Windowing, calls, check, input_type, properties, steps, zones,
    zones_of_the_clock,
};

fn plan(setting: &Setting) -> GroupWindowAggregate {
    let window = match setting.windowing {
        Windowing::Session(gap_ms) => WindowSpec::Session { gap_ms, partition: Vec::new() },
        Windowing::Hop(size_ms, slide_ms) => WindowSpec::Hopping { size_ms, slide_ms, offset_ms: 0 },
        Windowing::Tumble(size_ms) => WindowSpec::Tumbling { size_ms, offset_ms: 0 },
        Windowing::Attached => WindowSpec::Tumbling { size_ms: 1, offset_ms: 0 },
    };
    GroupWindowAggregate {
        grouping: setting.keys.clone(),
        calls: calls(setting),
        window,
        time_column: TIME,
        time: if setting.rowtime { TimeDomain::Rowtime } else { TimeDomain::Proctime },
        zone: setting.shift_zone(),
        properties: properties(),
        need_retraction: setting.retracts,
    }
}

fn factory(setting: &Setting, context: &StateContext) -> Box<dyn Operator> {
    let (plan, input) = (plan(setting), input_type(setting));
    supports(&plan, &input).unwrap();
    open(&plan, &input, context).unwrap()
}

fn case(rowtime: bool) -> impl Strategy<Value = (Setting, Vec<Step>)> {
    let windowing = prop_oneof![
        (1_i64..40).prop_map(Windowing::Session),
        (1_i64..40).prop_map(Windowing::Tumble),
        // slides that do not divide the size, and such that leave gaps
        (1_i64..8, 1_i64..8, 1_i64..6).prop_map(|(size, slide, unit)| Windowing::Hop(size * unit, slide * unit)),
    ];
    let keys = prop::sample::select(vec![vec![], vec![KEY], vec![TEXT], vec![KEY, TEXT]]);
    let base = prop::sample::select(vec![0_i64, -3_000, 1_704_067_200_000]);
    let zone = if rowtime { zones().boxed() } else { zones_of_the_clock().boxed() };
    (windowing, any::<bool>(), zone, keys, base).prop_flat_map(move |(windowing, retracts, zone, keys, base)| {
        // daylight saving time is refused there
        let zone = zone.filter(|rules| !matches!(windowing, Windowing::Hop(..)) || !rules.contains("|1|"));
        let (base, factor, spread) = if zone.is_some() { (0, 400, 12_000) } else { (base, 1, 120) };
        let windowing = match windowing {
            Windowing::Session(gap) => Windowing::Session(gap * factor),
            Windowing::Tumble(size) => Windowing::Tumble(size * factor),
            Windowing::Hop(size, slide) => Windowing::Hop(size * factor, slide * factor),
            Windowing::Attached => Windowing::Attached,
        };
        let setting = Setting { windowing, output: Output::Aggregates, legacy: true, rowtime, retracts, zone, keys };
        (Just(setting), steps(retracts, spread, base))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn windows_by_row_time_are_those_of_the_model(
        (setting, steps) in case(true), sizes in prop::collection::vec(0_usize..20, 0..12),
    ) {
        check(&factory, &setting, &steps, &sizes)?;
    }

    #[test]
    fn windows_by_processing_time_are_those_of_the_model(
        (setting, steps) in case(false), sizes in prop::collection::vec(0_usize..20, 0..12),
    ) {
        check(&factory, &setting, &steps, &sizes)?;
    }
}

#[test]
fn hop_in_a_zone_with_daylight_saving_time_is_refused() {
    for (windowing, refused) in [(Windowing::Hop(40, 20), true), (Windowing::Tumble(20), false)] {
        for (zone, uses_daylight_time) in
            [(None, false), (Some("Test/Hour|0|0|4,3600|"), false), (Some("Test/Hour|1|0|4,3600|"), true)]
        {
            let (output, keys) = (Output::Aggregates, vec![KEY]);
            let setting = Setting { windowing, output, legacy: true, rowtime: true, retracts: false, zone, keys };
            let supported = supports(&plan(&setting), &input_type(&setting));
            assert_eq!(supported.is_err(), refused && uses_daylight_time, "{setting:?}: {supported:?}");
        }
    }
}
