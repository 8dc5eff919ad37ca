//! SESSION on its own: random rows, watermarks and checkpoints against the model, and what only rows have.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use streamfusion_plan::node::{WindowSpec, WindowTableFunction, Windowing as PlanWindowing, WindowingStrategy};
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::StateContext;

use crate::unslicing::testing::{
    KEY, Output, Setting, Step, TEXT, TIME, Windowing, check, input_type, steps, zones, zones_of_the_clock,
};
use crate::unslicing::{open_session_function, supports_session_function};
use crate::window::testing::context;
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, Operator};

fn plan(setting: &Setting, column: usize) -> WindowTableFunction {
    let attribute = if setting.rowtime { TimeAttribute::Rowtime } else { TimeAttribute::Proctime };
    let kind = match setting.zone {
        None => TypeKind::Timestamp { precision: 3, attribute },
        Some(_) => TypeKind::TimestampLtz { precision: 3, attribute },
    };
    let Windowing::Session(gap_ms) = setting.windowing else { unreachable!("only sessions") };
    WindowTableFunction {
        windowing: PlanWindowing {
            strategy: WindowingStrategy::TimeAttribute { column },
            window: WindowSpec::Session { gap_ms, partition: setting.keys.clone() },
            time_attribute: LogicalType { kind, nullable: true },
            is_rowtime: setting.rowtime,
            zone: setting.shift_zone(),
        },
    }
}

fn open(setting: &Setting, context: &StateContext) -> Box<dyn Operator> {
    let (plan, input) = (plan(setting, TIME), input_type(setting));
    supports_session_function(&plan, &input).unwrap();
    open_session_function(&plan, &input, context).unwrap()
}

fn case(rowtime: bool) -> impl Strategy<Value = (Setting, Vec<Step>)> {
    let keys = prop::sample::select(vec![vec![], vec![KEY], vec![TEXT], vec![KEY, TEXT]]);
    let base = prop::sample::select(vec![0_i64, -3_000, 1_704_067_200_000]);
    let zone = if rowtime { zones().boxed() } else { zones_of_the_clock().boxed() };
    (1_i64..40, any::<bool>(), zone, keys, base).prop_flat_map(move |(gap, retracts, zone, keys, base)| {
        let (base, factor, spread) = if zone.is_some() { (0, 400, 12_000) } else { (base, 1, 120) };
        let windowing = Windowing::Session(gap * factor);
        let setting = Setting { windowing, output: Output::Rows, legacy: true, rowtime, retracts, zone, keys };
        (Just(setting), steps(retracts, spread, base))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rows_by_row_time_have_the_sessions_of_the_model(
        (setting, steps) in case(true), sizes in prop::collection::vec(0_usize..20, 0..12),
    ) {
        check(&open, &setting, &steps, &sizes)?;
    }

    #[test]
    fn rows_by_processing_time_have_the_sessions_of_the_model(
        (setting, steps) in case(false), sizes in prop::collection::vec(0_usize..20, 0..12),
    ) {
        check(&open, &setting, &steps, &sizes)?;
    }
}

/// Sessions of 10 ms of rows with a number, a text and a time.
fn function() -> Box<dyn Operator> {
    let windowing = Windowing::Session(10);
    let setting = Setting {
        windowing,
        output: Output::Rows,
        legacy: true,
        rowtime: true,
        retracts: false,
        zone: None,
        keys: vec![],
    };
    let time = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime };
    let kinds = [TypeKind::BigInt, TypeKind::VarChar(i32::MAX.unsigned_abs()), time];
    let fields = kinds.map(|kind| Field { name: String::new(), ty: LogicalType { kind, nullable: true } });
    let input = LogicalType { kind: TypeKind::Row(fields.into()), nullable: false };
    open_session_function(&plan(&setting, 2), &input, &context()).unwrap()
}

fn batch(rows: impl Iterator<Item = (i64, Option<i64>)> + Clone, text: &str) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.clone().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.clone().map(|_| Some(text)).collect::<StringArray>()),
        Arc::new(rows.map(|row| row.1).collect::<TimestampMillisecondArray>()),
    ];
    let rows = columns[0].len();
    Batch::try_new(columns, rows, None).unwrap()
}

/// The numbers of rows, batch by batch.
fn pull(function: &mut dyn Operator) -> Vec<Vec<i64>> {
    let mut batches = Vec::new();
    while let Some(batch) = function.pull().unwrap() {
        batches.push(batch.columns()[0].as_primitive::<Int64Type>().values().to_vec());
    }
    batches
}

#[test]
fn rows_without_a_time_are_dropped_and_counted() {
    let mut function = function();
    function.push(batch([(0, None), (1, Some(5)), (2, None)].into_iter(), "a")).unwrap();
    function.push(batch([(3, None)].into_iter(), "a")).unwrap();
    function.watermark(100).unwrap();
    assert_eq!(pull(function.as_mut()), [[1]]);
    let dropped = function.dropped_rows();
    assert_eq!((dropped.null_row_time, dropped.late), (Some(3), Some(0)));
}

#[test]
fn a_long_session_goes_out_in_several_batches_and_nothing_is_left() {
    let mut function = function();
    let rows = i64::try_from(OUTPUT_BATCH_ROWS).unwrap() * 2 + 3;
    function.push(batch((0..rows).map(|row| (row, Some(row % 7))), "a")).unwrap();
    // another one is due with it
    function.push(batch([(rows, Some(50))].into_iter(), "a")).unwrap();
    function.watermark(100).unwrap();
    let batches = pull(function.as_mut());
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [OUTPUT_BATCH_ROWS, OUTPUT_BATCH_ROWS, 4]);
    assert!(batches.concat().into_iter().eq(0..=rows));
    assert!(function.state().unwrap().snapshot().key_groups().is_empty(), "state is left");
}

#[test]
fn large_rows_go_out_a_few_at_a_time() {
    let mut function = function();
    let text = "x".repeat(OUTPUT_BATCH_BYTES / 2);
    function.push(batch((0..5).map(|row| (row, Some(row))), &text)).unwrap();
    function.watermark(100).unwrap();
    assert_eq!(pull(function.as_mut()), [[0], [1], [2], [3], [4]]);
    let text = "x".repeat(OUTPUT_BATCH_BYTES / 3);
    function.push(batch((0..3).map(|row| (row, Some(200 + row))), &text)).unwrap();
    function.watermark(300).unwrap();
    assert_eq!(pull(function.as_mut()), [vec![0, 1], vec![2]]);
}
