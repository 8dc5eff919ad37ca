//! Sorting by time against sorting by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use streamfusion_plan::types::{Field, TimeAttribute, TypeKind};
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::{KeyGroups, StateClock};

use super::*;
use crate::stored_testing;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    time: i64,
    long: Option<i64>,
    text: Option<String>,
    number: i64,
}

fn input_type(attribute: TimeAttribute) -> LogicalType {
    let kinds = [
        TypeKind::Timestamp { precision: 3, attribute },
        TypeKind::BigInt,
        TypeKind::VarChar(i32::MAX as u32),
        TypeKind::BigInt,
    ];
    let field = |kind| Field { name: "f".to_owned(), ty: LogicalType { kind, nullable: true } };
    LogicalType { kind: TypeKind::Row(kinds.into_iter().map(field).collect()), nullable: false }
}

fn batch(rows: &[Row]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| Some(row.time)).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.long).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.text.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| Some(row.number)).collect::<Int64Array>()),
    ];
    Batch::try_new(columns, rows.len(), None).unwrap()
}

/// `long DESC NULLS LAST`, `text ASC NULLS FIRST` as far as `columns` goes.
fn spec(columns: usize) -> node::TemporalSort {
    let field = |column, ascending| SortField { column, ascending, nulls_last: !ascending };
    node::TemporalSort { order_by: [field(0, true), field(1, false), field(2, true)][..=columns].to_vec() }
}

fn open_sort(columns: usize, attribute: TimeAttribute) -> Box<dyn Operator> {
    let context = StateContext { key_groups: KeyGroups::all(1), clock: StateClock::fixed(0) };
    open(&spec(columns), &input_type(attribute), &context).unwrap()
}

fn restored(operator: &mut dyn Operator, columns: usize, attribute: TimeAttribute) -> Box<dyn Operator> {
    operator.flush(FlushReason::Checkpoint).unwrap();
    let snapshot = operator.state().unwrap().snapshot();
    let mut other = open_sort(columns, attribute);
    for group in snapshot.key_groups() {
        let sections = Sections {
            key_group: group,
            format_version: streamfusion_state::canonical::FormatVersion::Asynchronous,
            processing_time_deadline: None,
            sections: snapshot.sections(group).unwrap(),
        };
        other.state().unwrap().restore(&sections).unwrap();
    }
    other
}

/// The sort on what the database of another one has.
fn reopened(
    mut operator: Box<dyn Operator>,
    columns: usize,
    attribute: TimeAttribute,
    database: &TestDatabase,
) -> Box<dyn Operator> {
    operator.flush(FlushReason::Checkpoint).unwrap();
    operator.state().unwrap().write_back().unwrap();
    let mut other = open_sort(columns, attribute);
    stored_testing::attach_to(other.as_mut(), database);
    other
}

fn drain(operator: &mut dyn Operator, out: &mut Vec<i64>) {
    while let Some(batch) = operator.pull().unwrap() {
        assert!(batch.num_rows() <= OUTPUT_BATCH_ROWS);
        out.extend(batch.columns()[3].as_primitive::<Int64Type>().values());
    }
}

fn sort(rows: &mut [Row], columns: usize) {
    rows.sort_by(|a, b| {
        let by_time = a.time.cmp(&b.time);
        let by_long = b.long.cmp(&a.long);
        let by_text = a.text.cmp(&b.text);
        [by_time, by_long, by_text][..=columns]
            .iter()
            .copied()
            .find(|order| order.is_ne())
            .unwrap_or(a.number.cmp(&b.number))
    });
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let text = prop::option::of(prop::sample::select(vec!["", "a", "bb"]));
    let row = (-5_i64..25, prop::option::of(-2_i64..3), text);
    prop::collection::vec(row, 0..60).prop_map(|rows| {
        let row = |((time, long, text), number): ((i64, Option<i64>, Option<&str>), i64)| Row {
            time,
            long,
            text: text.map(str::to_owned),
            number,
        };
        rows.into_iter().zip(0..).map(row).collect()
    })
}

proptest! {
    #[test]
    fn rows_leave_in_order_and_late_ones_are_dropped(
        rows in rows(),
        columns in 0_usize..3,
        sizes in prop::collection::vec((1_usize..9, 0_i64..7, any::<bool>()), 1..30),
        is_stored in prop::bool::weighted(0.3),
    ) {
        let database = is_stored.then(stored_testing::database);
        let mut operator = open_sort(columns, TimeAttribute::Rowtime);
        database.iter().for_each(|database| stored_testing::attach_to(operator.as_mut(), database));
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        let (mut rest, mut waiting, mut last, mut watermark) = (rows.as_slice(), Vec::<Row>::new(), None, -8);
        for (size, step, restore) in sizes {
            let (head, behind) = rest.split_at(size.min(rest.len()));
            rest = behind;
            operator.push(batch(head)).unwrap();
            drain(operator.as_mut(), &mut out);
            waiting.extend(head.iter().filter(|row| last.is_none_or(|last| row.time > last)).cloned());
            if restore {
                operator = match &database {
                    Some(database) => reopened(operator, columns, TimeAttribute::Rowtime, database),
                    None => restored(operator.as_mut(), columns, TimeAttribute::Rowtime),
                };
            }
            watermark += step;
            prop_assert_eq!(operator.watermark(watermark).unwrap(), Some(watermark));
            drain(operator.as_mut(), &mut out);
            sort(&mut waiting, columns);
            let due = waiting.partition_point(|row| row.time <= watermark);
            for row in waiting.drain(..due) {
                last = Some(row.time);
                expected.push(row.number);
            }
        }
        prop_assert_eq!(out, expected);
    }
}

#[test]
fn by_processing_time_rows_are_sorted_when_their_millisecond_is_over() {
    let row = |number, long| Row { time: 0, long: Some(long), text: None, number };
    let mut operator = open_sort(1, TimeAttribute::Proctime);
    assert_eq!(operator.timer(), Some(i64::MAX));
    operator.processing_time(10).unwrap();
    operator.push(batch(&[row(0, 1), row(1, 3), row(2, 3)])).unwrap();
    assert_eq!(operator.timer(), Some(11));
    let mut out = Vec::new();
    drain(operator.as_mut(), &mut out);
    assert!(out.is_empty());
    let mut operator = restored(operator.as_mut(), 1, TimeAttribute::Proctime);
    assert_eq!(operator.timer(), Some(0));
    operator.processing_time(10).unwrap();
    drain(operator.as_mut(), &mut out);
    assert_eq!((out, operator.timer()), (vec![1, 2, 0], Some(i64::MAX)));
}

#[test]
fn there_is_no_operator_for_processing_time_alone() {
    assert!(!is_stateful(&spec(0), &input_type(TimeAttribute::Proctime)));
    assert!(is_stateful(&spec(0), &input_type(TimeAttribute::Rowtime)));
    assert!(is_stateful(&spec(1), &input_type(TimeAttribute::Proctime)));
    let floats = TypeKind::Double;
    let mut fields = input_type(TimeAttribute::Rowtime).fields().to_vec();
    fields[1].ty.kind = floats;
    let input = LogicalType { kind: TypeKind::Row(fields.into()), nullable: false };
    let reason = supports(&spec(1), &input).unwrap_err().to_string();
    assert!(reason.contains("FLOAT or DOUBLE"), "{reason}");
}
