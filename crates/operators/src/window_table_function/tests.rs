//! Rows with their windows, against each row alone.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, NullArray, StringArray, TimestampMillisecondArray, UInt8Array};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use streamfusion_plan::node::{ShiftZone, WindowSpec, Windowing};
use streamfusion_plan::types::{LogicalType, TimeAttribute, TypeKind};
use streamfusion_plan::zone::ZoneRules;

use super::*;

fn function(window: WindowSpec, zone: ShiftZone, is_rowtime: bool) -> WindowTableFunction {
    let attribute = if is_rowtime { TimeAttribute::Rowtime } else { TimeAttribute::Proctime };
    let kind = match zone {
        ShiftZone::Utc => TypeKind::Timestamp { precision: 3, attribute },
        ShiftZone::Zone(_) => TypeKind::TimestampLtz { precision: 3, attribute },
    };
    let time_attribute = LogicalType { kind, nullable: true };
    let strategy = WindowingStrategy::TimeAttribute { column: 1 };
    let windowing = Windowing { strategy, window, time_attribute, is_rowtime, zone };
    WindowTableFunction::try_new(&node::WindowTableFunction { windowing }).unwrap()
}

/// What Java knows of some zones.
const ZONES: &str = include_str!("../../tests/data/zones.txt");

fn zone(name: &str) -> ShiftZone {
    let prefix = format!("{name}|");
    ShiftZone::Zone(ZoneRules::read(ZONES.lines().find(|line| line.starts_with(&prefix)).unwrap()).unwrap())
}

/// Row number, row time, kind.
type Row = (i64, Option<i64>, u8);

fn batch(rows: &[Row]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| Some(row.0)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<TimestampMillisecondArray>()),
        Arc::new(NullArray::new(rows.len())),
        Arc::new(rows.iter().map(|row| Some(format!("row {}", row.0))).collect::<StringArray>()),
    ];
    let kinds = UInt8Array::from_iter_values(rows.iter().map(|row| row.2));
    Batch::try_new(columns, rows.len(), Some(kinds)).unwrap()
}

/// Row number, kind, start, end, time of each row.
fn pull(function: &mut WindowTableFunction) -> Vec<(i64, u8, [i64; 3])> {
    let mut rows = Vec::new();
    while let Some(batch) = function.pull().unwrap() {
        assert!((1..=OUTPUT_BATCH_ROWS).contains(&batch.num_rows()));
        assert_eq!(batch.columns().len(), 7);
        let ids = batch.columns()[0].as_primitive::<Int64Type>();
        let times = [4, 5, 6].map(|column| batch.columns()[column].as_primitive::<TimestampMillisecondType>().clone());
        for row in 0..batch.num_rows() {
            let kind = batch.kinds().map_or(0, |kinds| kinds.value(row));
            let text = batch.columns()[3].as_string::<i32>().value(row).to_owned();
            assert_eq!(text, format!("row {}", ids.value(row)));
            rows.push((ids.value(row), kind, [0, 1, 2].map(|column| times[column].value(row))));
        }
    }
    rows
}

/// The windows of one row.
fn model(window: &WindowSpec, zone: &ShiftZone, (id, time, kind): Row) -> Vec<(i64, u8, [i64; 3])> {
    let zone = WindowZone::new(zone);
    let mut windows = Vec::new();
    if let Some(time) = time {
        WindowAssigner::new(window).unwrap().assign(zone.to_utc_timestamp_millis(time), &mut windows);
    }
    let times = windows.into_iter().map(|window| [window.start, window.end, zone.to_epoch_millis(window.end - 1)]);
    times.map(|times| (id, kind, times)).collect()
}

fn window() -> impl Strategy<Value = WindowSpec> {
    const MINUTE: i64 = 60_000;
    let minutes = |range: std::ops::Range<i64>| range.prop_map(|minutes| minutes * MINUTE);
    prop_oneof![
        (minutes(1..90), minutes(-50..50)).prop_map(|(size_ms, offset_ms)| WindowSpec::Tumbling { size_ms, offset_ms }),
        (minutes(1..90), minutes(1..90), minutes(-50..50))
            .prop_map(|(size_ms, slide_ms, offset_ms)| WindowSpec::Hopping { size_ms, slide_ms, offset_ms }),
        (1..8_i64, minutes(1..30), minutes(-50..50)).prop_map(|(steps, step_ms, offset_ms)| WindowSpec::Cumulative {
            max_size_ms: steps * step_ms,
            step_ms,
            offset_ms
        }),
    ]
}

proptest! {
    #[test]
    fn rows_have_the_windows_that_each_would_have_alone(
        window in window(),
        name in prop_oneof![Just(""), Just("UTC"), Just("Asia/Kolkata"), Just("America/Los_Angeles"), Just("Pacific/Apia")],
        // around both changes of 2024 in Los Angeles
        near in prop_oneof![Just(0_i64), Just(-10_000_000_000), Just(1_710_064_800_000), Just(1_730_624_400_000)],
        rows in proptest::collection::vec((proptest::option::weighted(0.95, -20_000_000..20_000_000_i64), 0..4_u8), 1..60),
        cuts in proptest::collection::vec(0..60_usize, 0..5),
    ) {
        let zone = if name.is_empty() { ShiftZone::Utc } else { zone(name) };
        let rows: Vec<Row> =
            rows.into_iter().zip(0..).map(|((time, kind), id)| (id, time.map(|time| near + time), kind)).collect();
        let expected: Vec<_> = rows.iter().flat_map(|row| model(&window, &zone, *row)).collect();
        let mut function = function(window, zone, true);
        let mut borders: Vec<usize> = cuts.into_iter().map(|cut| cut.min(rows.len())).chain([0, rows.len()]).collect();
        borders.sort_unstable();
        let mut actual = Vec::new();
        for part in borders.windows(2) {
            function.push(batch(&rows[part[0]..part[1]])).unwrap();
            actual.extend(pull(&mut function));
        }
        prop_assert_eq!(actual, expected);
        let nulls = rows.iter().filter(|row| row.1.is_none()).count() as u64;
        prop_assert_eq!(function.dropped_rows().null_row_time, Some(nulls));
    }
}

#[test]
fn a_row_with_many_windows_leaves_in_several_batches() {
    let window = WindowSpec::Cumulative { max_size_ms: 20_000, step_ms: 1, offset_ms: 0 };
    let mut function = function(window.clone(), ShiftZone::Utc, true);
    let rows = [(1, Some(5), 0), (2, Some(6), 3)];
    function.push(batch(&rows)).unwrap();
    let sizes: Vec<usize> = std::iter::from_fn(|| function.pull().unwrap()).map(|batch| batch.num_rows()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 19_995 + 19_994);
    assert!(sizes.iter().all(|size| *size <= OUTPUT_BATCH_ROWS));
    function.push(batch(&rows)).unwrap();
    let expected: Vec<_> = rows.iter().flat_map(|row| model(&window, &ShiftZone::Utc, *row)).collect();
    assert_eq!(pull(&mut function), expected);
}

#[test]
fn large_rows_are_copied_into_batches_of_bounded_size() {
    let window = WindowSpec::Hopping { size_ms: 60_000, slide_ms: 1_000, offset_ms: 0 };
    let mut function = function(window, ShiftZone::Utc, true);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".to_owned(), "y".repeat(OUTPUT_BATCH_BYTES / 3)]));
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1, 2]));
    function.push(Batch::try_new(vec![text, times], 2, None).unwrap()).unwrap();
    let sizes: Vec<usize> = std::iter::from_fn(|| function.pull().unwrap()).map(|batch| batch.bytes()).collect();
    assert!(sizes.len() >= 20 && sizes.iter().all(|size| *size < OUTPUT_BATCH_BYTES * 3 / 2), "{sizes:?}");
}

#[test]
fn columns_of_rows_that_have_one_window_each_are_not_copied() {
    let mut function = function(WindowSpec::Tumbling { size_ms: 10, offset_ms: 0 }, ShiftZone::Utc, true);
    let batch = batch(&[(1, Some(5), 0), (2, Some(16), 0)]);
    function.push(batch.clone()).unwrap();
    let out = function.pull().unwrap().unwrap();
    assert_eq!(out.columns()[0].to_data().buffers()[0].as_ptr(), batch.columns()[0].to_data().buffers()[0].as_ptr());
}

#[test]
fn by_processing_time_rows_have_the_windows_of_the_moment_told() {
    let window = WindowSpec::Hopping { size_ms: 10_000, slide_ms: 3_000, offset_ms: 1_000 };
    let mut function = function(window.clone(), zone("Asia/Kolkata"), false);
    assert_eq!(function.timer(), Some(0));
    assert_eq!(function.processing_time(1_700_000_000_500).unwrap(), None);
    function.push(batch(&[(1, None, 0), (2, Some(7), 0)])).unwrap();
    let expected: Vec<_> =
        [1, 2].iter().flat_map(|id| model(&window, &zone("Asia/Kolkata"), (*id, Some(1_700_000_000_500), 0))).collect();
    assert_eq!(pull(&mut function), expected);
    assert_eq!(function.dropped_rows().null_row_time, Some(0));
}

#[test]
fn no_moment_up_to_the_timer_has_other_windows() {
    for (name, start) in [("America/Los_Angeles", 1_710_064_800_000_i64), ("Australia/Lord_Howe", 1_712_415_600_000)] {
        for window in [
            WindowSpec::Tumbling { size_ms: 420_000, offset_ms: 60_000 },
            WindowSpec::Hopping { size_ms: 660_000, slide_ms: 300_000, offset_ms: 0 },
            WindowSpec::Cumulative { max_size_ms: 1_500_000, step_ms: 300_000, offset_ms: -120_000 },
        ] {
            let mut function = function(window.clone(), zone(name), false);
            let mut now = start - 7_200_000;
            while now < start + 7_200_000 {
                function.processing_time(now).unwrap();
                let timer = function.timer().unwrap();
                assert!(timer > now);
                let expected = model(&window, &zone(name), (0, Some(now), 0));
                for later in (now..timer).step_by(20_000).chain([timer - 1]) {
                    assert_eq!(
                        model(&window, &zone(name), (0, Some(later), 0)),
                        expected,
                        "{name} {window:?} {now} {later}"
                    );
                }
                now = timer;
            }
        }
    }
}
