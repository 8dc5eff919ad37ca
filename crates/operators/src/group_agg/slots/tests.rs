//! Slots that are merged, for good or for the moment, against one slot that got all rows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt8Array};
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;
use streamfusion_plan::node::AggCall;
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{BatchKeys, KeyGroups, KeyLayout, KeyedTable, StateClock, StateContext};

use super::*;

const LONG: usize = 0;
const TEXT: usize = 1;
const FILTER: usize = 2;
const DOUBLE: usize = 3;

#[derive(Debug, Clone)]
struct Row {
    slice: i64,
    long: Option<i64>,
    passes: bool,
    retracts: bool,
}

fn kind(column: usize) -> TypeKind {
    match column {
        LONG => TypeKind::BigInt,
        TEXT => TypeKind::VarChar(i32::MAX as u32),
        FILTER => TypeKind::Boolean,
        _ => TypeKind::Double,
    }
}

fn nullable(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn input() -> LogicalType {
    let fields = (0..4).map(|i| Field { name: format!("c{i}"), ty: nullable(kind(i)) }).collect();
    LogicalType { kind: TypeKind::Row(fields), nullable: false }
}

fn call(name: &str, args: &[usize], filter: bool, distinct: bool, need_retraction: bool) -> AggCall {
    let ty = match (name, args) {
        ("COUNT", _) | (_, []) => TypeKind::BigInt,
        (_, [column, ..]) => kind(*column),
    };
    AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: args.to_vec(),
        filter: filter.then_some(FILTER),
        distinct,
        approximate: false,
        ignore_nulls: false,
        need_retraction,
        ty: nullable(ty),
    }
}

fn calls(retracts: bool) -> Vec<AggCall> {
    let call = |name, args: &[usize], filter, distinct| call(name, args, filter, distinct, retracts);
    vec![
        call("COUNT", &[LONG], false, false),
        call("SUM", &[LONG], true, false),
        call("$SUM0", &[LONG], false, false),
        call("AVG", &[DOUBLE], false, false),
        call("MIN", &[LONG], false, false),
        call("MAX", &[TEXT], true, false),
        call("COUNT", &[LONG], false, true),
        call("SUM", &[LONG], true, true),
        call("COUNT", &[TEXT], true, true),
        call("AVG", &[LONG], false, true),
    ]
}

fn batch(rows: &[Row]) -> Batch {
    let text = |row: &Row| row.long.map(|value| format!("t{value}"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.long))),
        Arc::new(StringArray::from_iter(rows.iter().map(text))),
        Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.passes)))),
        // sums of these are exact in any order
        Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.long.map(|value| value as f64)))),
    ];
    let kinds = UInt8Array::from_iter_values(rows.iter().map(|row| if row.retracts { 3 } else { 0 }));
    Batch::try_new(columns, rows.len(), Some(kinds)).unwrap()
}

struct Fixture {
    table: KeyedTable,
    slots: SlotAggregates,
}

impl Fixture {
    fn new(calls: &[AggCall], need_retraction: bool) -> Self {
        let context = StateContext { key_groups: KeyGroups::all(4), clock: StateClock::fixed(0) };
        let mut table = KeyedTable::namespaced("t", KeyLayout::Single, None, &context);
        let input = input();
        let spec = SlotCalls { calls, input: &input, need_retraction, counts_rows: true, merging: Merging::Slots };
        SlotAggregates::supports(&spec).unwrap();
        let slots = SlotAggregates::try_new(&spec, &mut table).unwrap();
        Self { table, slots }
    }

    /// The slots of slices.
    fn load(&mut self, slices: &[i64]) -> Vec<u32> {
        let mut touched = Touched::default();
        self.table.load_in(BatchKeys::Single(slices.len()), slices, &mut touched).unwrap();
        touched.groups.iter().map(|group| touched.slots[*group as usize]).collect()
    }

    fn fold(&mut self, rows: &[Row]) {
        let slices: Vec<i64> = rows.iter().map(|row| row.slice).collect();
        self.table.load_in(BatchKeys::Single(rows.len()), &slices, self.slots.touched()).unwrap();
        self.slots.fold(&mut self.table, &batch(rows)).unwrap();
    }

    fn values(&mut self, slices: &[i64]) -> (Vec<Vec<String>>, Option<Vec<i64>>) {
        let slots = self.load(slices);
        let values = self.slots.values(&mut self.table, &slots).unwrap();
        (show(&values), self.slots.counts(&mut self.table, &slots).unwrap())
    }
}

fn show(columns: &[ArrayRef]) -> Vec<Vec<String>> {
    let column = |column: &ArrayRef| {
        (0..column.len())
            .map(|row| if column.is_null(row) { "-".to_owned() } else { array_value_to_string(column, row).unwrap() })
            .collect()
    };
    columns.iter().map(column).collect()
}

/// Rows of which each retraction takes back a row of its slice.
fn rows(retracts: bool) -> impl Strategy<Value = Vec<Row>> {
    let row = (1..4_i64, prop::option::weighted(0.8, -3..4_i64), any::<bool>(), any::<prop::sample::Index>());
    prop::collection::vec((row, prop::bool::weighted(0.3)), 0..40).prop_map(move |rows| {
        let mut out: Vec<Row> = Vec::new();
        let mut live: Vec<Row> = Vec::new();
        for ((slice, long, passes, which), takes_back) in rows {
            if retracts && takes_back && !live.is_empty() {
                let row = live.swap_remove(which.index(live.len()));
                out.push(Row { retracts: true, ..row });
            } else {
                let row = Row { slice, long, passes, retracts: false };
                live.push(row.clone());
                out.push(row);
            }
        }
        out
    })
}

fn cases() -> impl Strategy<Value = (bool, Vec<Row>)> {
    any::<bool>().prop_flat_map(|retracts| (Just(retracts), rows(retracts)))
}

proptest! {
    #[test]
    fn merged_slots_are_as_one_slot_with_all_rows((retracts, rows) in cases(), cut in any::<prop::sample::Index>()) {
        let calls = calls(retracts);
        let mut parts = Fixture::new(&calls, retracts);
        let mut whole = Fixture::new(&calls, retracts);
        let (first, second) = rows.split_at(cut.index(rows.len() + 1));
        for rows in [first, second].into_iter().filter(|rows| !rows.is_empty()) {
            parts.fold(rows);
            whole.fold(&rows.iter().map(|row| Row { slice: 9, ..row.clone() }).collect::<Vec<_>>());
        }
        let expected = whole.values(&[9, 10]);
        let slots = parts.load(&[1, 2, 3]);
        // for the moment, twice: nothing stays
        for _ in 0..2 {
            let part = Parts { slots: &slots, ends: &[3, 3] };
            let (values, counts) = parts.slots.merged_values(&mut parts.table, &part).unwrap();
            prop_assert_eq!(&(show(&values), counts), &expected);
        }
        // for good
        let target = parts.load(&[9])[0];
        parts.slots.merge(&mut parts.table, &slots, &[target; 3]).unwrap();
        prop_assert_eq!(&parts.values(&[9, 10]), &expected);
        // and rows that come later find what was merged
        if retracts {
            let back: Vec<Row> = rows.iter().map(|row| Row { slice: 9, retracts: !row.retracts, ..row.clone() }).collect();
            if !back.is_empty() {
                parts.fold(&back);
                whole.fold(&back);
                prop_assert_eq!(parts.values(&[9]), whole.values(&[9]));
            }
        }
    }

    #[test]
    fn accumulators_that_are_handed_over_are_as_rows((retracts, rows) in cases(), cut in any::<prop::sample::Index>()) {
        let calls: Vec<AggCall> = calls(retracts).into_iter().filter(|call| !call.distinct).collect();
        let mut whole = Fixture::new(&calls, retracts);
        let mut global = Fixture::new(&calls, retracts);
        let (first, second) = rows.split_at(cut.index(rows.len() + 1));
        for rows in [first, second].into_iter().filter(|rows| !rows.is_empty()) {
            whole.fold(rows);
            let mut local = Fixture::new(&calls, retracts);
            local.fold(rows);
            let slices = [1, 2, 3];
            let slots = local.load(&slices);
            let columns = local.slots.accumulators(&mut local.table, &slots).unwrap();
            let batch = Batch::try_new(columns, 3, None).unwrap();
            global.table.load_in(BatchKeys::Single(3), &slices, global.slots.touched()).unwrap();
            global.slots.fold_accumulators(&mut global.table, &batch, 0).unwrap();
        }
        prop_assert_eq!(global.values(&[1, 2, 3]), whole.values(&[1, 2, 3]));
    }
}

#[test]
fn a_value_that_is_retracted_in_another_slot_gives_way_to_the_next() {
    let calls = [call("MAX", &[LONG], false, false, true)];
    let row = |slice, long, retracts| Row { slice, long: Some(long), passes: true, retracts };
    let mut slots = Fixture::new(&calls, true);
    slots.fold(&[row(1, 7, false), row(1, 5, false), row(2, 7, true)]);
    let loaded = slots.load(&[1, 2]);
    let part = Parts { slots: &loaded, ends: &[2] };
    let (values, counts) = slots.slots.merged_values(&mut slots.table, &part).unwrap();
    assert_eq!((show(&values), counts), (vec![vec!["5".to_owned()]], Some(vec![1])));
    slots.slots.merge(&mut slots.table, &loaded[1..], &loaded[..1]).unwrap();
    assert_eq!(slots.values(&[1]).0, [["5"]]);
    assert_eq!(slots.values(&[2]).0, [["-"]]);
}

#[test]
fn what_flink_cannot_merge_is_refused_only_where_it_would_be() {
    let input = input();
    let supports = |call: AggCall, merging| {
        let need_retraction = call.need_retraction;
        let spec = SlotCalls { calls: &[call], input: &input, need_retraction, counts_rows: false, merging };
        SlotAggregates::supports(&spec).is_ok()
    };
    for retracts in [false, true] {
        let first = call("FIRST_VALUE", &[LONG], false, false, retracts);
        assert!(supports(first.clone(), Merging::Never));
        assert!(!supports(first, Merging::Slots));
    }
    assert!(supports(call("MAX", &[LONG], false, true, false), Merging::Slots));
    assert!(!supports(call("MAX", &[LONG], false, true, true), Merging::Slots));
    for name in ["SUM", "AVG"] {
        let distinct = |column| call(name, &[column], false, true, false);
        assert!(supports(distinct(DOUBLE), Merging::Never));
        assert!(!supports(distinct(DOUBLE), Merging::Slots));
        assert!(supports(distinct(LONG), Merging::Slots));
        assert!(supports(call(name, &[DOUBLE], false, false, false), Merging::Slots));
    }
    assert!(supports(call("COUNT", &[DOUBLE], false, true, false), Merging::Slots));
}

#[test]
fn a_retraction_that_the_plan_does_not_promise_is_an_error() {
    let mut slots = Fixture::new(&calls(false), false);
    let rows = [Row { slice: 1, long: None, passes: true, retracts: true }];
    slots.table.load_in(BatchKeys::Single(1), &[1], slots.slots.touched()).unwrap();
    let error = slots.slots.fold(&mut slots.table, &batch(&rows));
    assert_eq!(error, Err(OperatorError::UnexpectedRetraction));
}
