//! Both phases against one, and each against a model that follows Flink's function.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;
use streamfusion_plan::node::{AggCall, GlobalGroupAggregate, GroupAggregate, LocalGroupAggregate};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::{Batch, KeyGroup};
use streamfusion_state::canonical::{Container, FormatVersion, Sections};
use streamfusion_state::{KeyGroups, StateClock, StateContext};

mod model;
mod views;

use super::*;
use crate::bundle::FlushReason;
use crate::group_agg::GroupAgg;
use crate::{Operator, OperatorError};

const KEY: usize = 0;
const WORD: usize = 1;
const VALUE: usize = 2;
const DECIMAL: usize = 3;
const TEXT: usize = 4;
const FILTER: usize = 5;

#[derive(Debug, Clone, Default)]
struct Row {
    kind: u8,
    key: Option<i64>,
    word: String,
    value: Option<i64>,
    decimal: Option<i128>,
    text: Option<String>,
    filter: Option<bool>,
}

fn nullable(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn row_type(kinds: impl IntoIterator<Item = TypeKind>) -> LogicalType {
    let field = |(number, kind)| Field { name: format!("c{number}"), ty: nullable(kind) };
    LogicalType { kind: TypeKind::Row(kinds.into_iter().enumerate().map(field).collect()), nullable: false }
}

fn string() -> TypeKind {
    TypeKind::VarChar(i32::MAX.unsigned_abs())
}

fn kind_of(column: usize) -> TypeKind {
    match column {
        KEY | VALUE => TypeKind::BigInt,
        DECIMAL => TypeKind::Decimal { precision: 10, scale: 2 },
        FILTER => TypeKind::Boolean,
        _ => string(),
    }
}

fn input_type() -> LogicalType {
    row_type((0..6).map(kind_of))
}

fn batch(rows: &[Row]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.key).collect::<Int64Array>()),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.word))),
        Arc::new(rows.iter().map(|row| row.value).collect::<Int64Array>()),
        Arc::new(
            rows.iter().map(|row| row.decimal).collect::<Decimal128Array>().with_precision_and_scale(10, 2).unwrap(),
        ),
        Arc::new(rows.iter().map(|row| row.text.as_deref()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.filter).collect::<BooleanArray>()),
    ];
    let kinds = rows.iter().any(|row| row.kind != 0);
    let kinds = kinds.then(|| UInt8Array::from_iter_values(rows.iter().map(|row| row.kind)));
    Batch::try_new(columns, rows.len(), kinds).unwrap()
}

fn wide() -> TypeKind {
    TypeKind::Decimal { precision: 38, scale: 2 }
}

fn call(name: &str, args: &[usize], filter: Option<usize>, retracts: bool) -> AggCall {
    let kind = match (name, args) {
        ("COUNT", _) => TypeKind::BigInt,
        ("SUM" | "$SUM0", [DECIMAL]) => wide(),
        ("AVG", [DECIMAL]) => TypeKind::Decimal { precision: 38, scale: 6 },
        (_, [column]) => kind_of(*column),
        _ => TypeKind::Null,
    };
    AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: args.to_vec(),
        filter,
        distinct: false,
        approximate: false,
        ignore_nulls: false,
        need_retraction: retracts,
        ty: nullable(kind),
    }
}

/// The types of a call's accumulators in Flink.
fn accumulators(call: &AggCall, retracts: bool) -> Vec<TypeKind> {
    let Function::BuiltIn { name, .. } = &call.function else { return Vec::new() };
    let decimal = call.args == [DECIMAL];
    match name.as_str() {
        "COUNT" => vec![TypeKind::BigInt],
        "SUM" if retracts => vec![call.ty.kind.clone(), TypeKind::BigInt],
        "AVG" => vec![if decimal { wide() } else { TypeKind::BigInt }, TypeKind::BigInt],
        "MIN" | "MAX" if retracts => vec![TypeKind::View],
        _ => vec![call.ty.kind.clone()],
    }
}

/// A query, in one phase and in two.
#[derive(Debug, Clone)]
struct Query {
    grouping: Vec<usize>,
    calls: Vec<AggCall>,
    retracts: bool,
    update_before: bool,
}

impl Query {
    fn between(&self) -> LogicalType {
        let mut kinds: Vec<TypeKind> = self.grouping.iter().map(|column| kind_of(*column)).collect();
        kinds.extend(self.calls.iter().flat_map(|call| accumulators(call, self.retracts)));
        let counts = self.calls.iter().any(|call| call.args.is_empty() && call.filter.is_none());
        if self.retracts && !counts {
            kinds.push(TypeKind::BigInt);
        }
        let mut sets: Vec<usize> =
            self.calls.iter().filter(|call| call.distinct).flat_map(|call| call.args.iter().copied()).collect();
        sets.sort_unstable();
        sets.dedup();
        kinds.extend(sets.iter().map(|_| TypeKind::View));
        row_type(kinds)
    }

    fn local(&self, size: u64) -> LocalGroupAgg {
        let spec = LocalGroupAggregate {
            grouping: self.grouping.clone(),
            calls: self.calls.clone(),
            need_retraction: self.retracts,
            mini_batch_size: size,
        };
        LocalGroupAgg::try_new(&spec, &input_type(), &self.between()).unwrap()
    }

    fn global(&self, size: u64, ttl_ms: i64, context: &StateContext) -> GlobalGroupAgg {
        let spec = GlobalGroupAggregate {
            grouping: (0..self.grouping.len()).collect(),
            calls: self.calls.clone(),
            local_input: input_type(),
            generate_update_before: self.update_before,
            need_retraction: self.retracts,
            count_star: None,
            ttl_ms,
            mini_batch_size: size,
        };
        GlobalGroupAgg::try_new(&spec, &self.between(), context).unwrap()
    }

    fn single(&self) -> GroupAgg {
        let spec = GroupAggregate {
            grouping: self.grouping.clone(),
            calls: self.calls.clone(),
            generate_update_before: self.update_before,
            need_retraction: self.retracts,
            ttl_ms: 0,
            mini_batch_size: None,
        };
        GroupAgg::try_new(&spec, &input_type(), &context()).unwrap()
    }
}

fn context() -> StateContext {
    StateContext { key_groups: KeyGroups::all(128), clock: StateClock::fixed(0) }
}

fn pull_all(operator: &mut dyn Operator, out: &mut Vec<Batch>) {
    while let Some(batch) = operator.pull().unwrap() {
        assert!(batch.num_rows() > 0);
        out.push(batch);
    }
}

const KINDS: [&str; 4] = ["+I", "-U", "+U", "-D"];

fn show(batches: &[Batch]) -> Vec<String> {
    let mut out = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let mut text = KINDS[batch.kinds().map_or(0, |kinds| kinds.value(row)) as usize].to_owned();
            for column in batch.columns() {
                text.push(' ');
                text.push_str(&if column.is_null(row) {
                    "NULL".to_owned()
                } else {
                    array_value_to_string(column, row).unwrap()
                });
            }
            out.push(text);
        }
    }
    out
}

/// Pushes batches of these sizes and then one of what is left, and ends the input.
fn run(operator: &mut dyn Operator, rows: &[Row], sizes: &[usize]) -> Vec<Batch> {
    let (mut out, mut rest) = (Vec::new(), rows);
    for size in sizes.iter().copied().chain([usize::MAX]) {
        let (head, tail) = rest.split_at(size.min(rest.len()));
        operator.push(batch(head)).unwrap();
        pull_all(operator, &mut out);
        rest = tail;
    }
    operator.flush(FlushReason::EndOfInput).unwrap();
    pull_all(operator, &mut out);
    out
}

/// Pushes batches, cut into pieces of at most this size, and ends the input.
fn run_batches(operator: &mut dyn Operator, batches: &[Batch], size: usize) -> Vec<Batch> {
    let mut out = Vec::new();
    for batch in batches {
        for start in (0..batch.num_rows()).step_by(size) {
            operator.push(batch.slice(start, size.min(batch.num_rows() - start)).unwrap()).unwrap();
            pull_all(operator, &mut out);
        }
    }
    operator.flush(FlushReason::EndOfInput).unwrap();
    pull_all(operator, &mut out);
    out
}

/// The table that a changelog leaves, by key. Without -U, a +U replaces.
fn table(changelog: &[String], keys: usize) -> BTreeMap<Vec<String>, String> {
    let mut table = BTreeMap::new();
    for change in changelog {
        let mut words = change.split(' ').map(str::to_owned);
        let kind = words.next().unwrap();
        let key: Vec<String> = words.by_ref().take(keys).collect();
        match kind.as_str() {
            "+I" => assert!(table.insert(key, words.collect::<Vec<_>>().join(" ")).is_none(), "{change}"),
            "+U" => assert!(table.insert(key, words.collect::<Vec<_>>().join(" ")).is_some(), "{change}"),
            "-D" => assert_eq!(table.remove(&key), Some(words.collect::<Vec<_>>().join(" ")), "{change}"),
            _ => assert_eq!(table.get(&key), Some(&words.collect::<Vec<_>>().join(" ")), "{change}"),
        }
    }
    table
}

fn row() -> impl Strategy<Value = Row> {
    let text = prop_oneof![Just(None), "[abß]{0,3}".prop_map(Some)];
    (
        prop::option::weighted(0.9, 0_i64..5),
        "[xy]{0,1}|a word of some length",
        prop::option::weighted(0.8, prop_oneof![-9_i64..9, any::<i64>()]),
        prop::option::weighted(0.8, -900_i128..900),
        text,
        prop::option::weighted(0.8, any::<bool>()),
    )
        .prop_map(|(key, word, value, decimal, text, filter)| Row {
            kind: 0,
            key,
            word,
            value,
            decimal,
            text,
            filter,
        })
}

/// Rows, of which some are deleted later.
fn changelog(retracts: bool) -> impl Strategy<Value = Vec<Row>> {
    let step = (row(), prop::option::weighted(0.4, any::<prop::sample::Index>()));
    prop::collection::vec(step, 0..120).prop_map(move |steps| {
        let (mut rows, mut live): (Vec<Row>, Vec<Row>) = (Vec::new(), Vec::new());
        for (row, delete) in steps {
            match delete {
                Some(index) if retracts && !live.is_empty() => {
                    let row = live.swap_remove(index.index(live.len()));
                    rows.push(Row { kind: if row.value.is_some() { 3 } else { 1 }, ..row });
                }
                _ => {
                    live.push(row.clone());
                    rows.push(Row { kind: if row.value.is_some() { 0 } else { 2 }, ..row });
                }
            }
        }
        if !retracts {
            rows.iter_mut().for_each(|row| row.kind = 0);
        }
        rows
    })
}

fn query(retracts: bool) -> impl Strategy<Value = Query> {
    let number = prop::sample::select(vec![VALUE, DECIMAL]);
    let any_column = prop::sample::select(vec![VALUE, DECIMAL, TEXT, FILTER]);
    let call_of = prop_oneof![
        1 => Just(("COUNT", vec![])),
        1 => any_column.clone().prop_map(|column| ("COUNT", vec![column])),
        3 => (prop::sample::select(vec!["SUM", "$SUM0", "AVG"]), number).prop_map(|(name, column)| (name, vec![column])),
        2 => (prop::sample::select(vec!["MIN", "MAX"]), any_column).prop_map(|(name, column)| (name, vec![column])),
    ];
    let filter = prop_oneof![2 => Just(None), 1 => Just(Some(FILTER))];
    let calls = prop::collection::vec((call_of, filter, any::<bool>()), 0..6);
    let grouping = prop::sample::select(vec![vec![], vec![KEY], vec![WORD], vec![KEY, WORD]]);
    (grouping, calls, any::<bool>()).prop_map(move |(grouping, calls, update_before)| {
        let calls = calls.into_iter().map(|((name, args), filter, distinct)| {
            let distinct = distinct && !args.is_empty() && !["MIN", "MAX"].contains(&name);
            AggCall { distinct, ..call(name, &args, filter, retracts) }
        });
        let calls = calls.collect();
        Query { grouping, calls, retracts, update_before }
    })
}

fn queries() -> impl Strategy<Value = (Query, Vec<Row>)> {
    any::<bool>().prop_flat_map(|retracts| (query(retracts), changelog(retracts)))
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..40, 0..8)
}

fn bundle_size() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![1_u64, 2, 7, 30, 4096])
}

proptest! {
    #[test]
    fn two_phases_leave_the_table_of_one(
        (query, rows) in queries(),
        sizes in sizes(),
        (local, global) in (bundle_size(), bundle_size()),
        piece in 1_usize..30,
    ) {
        let partial = run(&mut query.local(local), &rows, &sizes);
        let two = show(&run_batches(&mut query.global(global, 0, &context()), &partial, piece));
        let one = show(&run(&mut query.single(), &rows, &[]));
        prop_assert_eq!(table(&two, query.grouping.len()), table(&one, query.grouping.len()));
    }

    #[test]
    fn batch_cuts_do_not_matter(
        (query, rows) in queries(),
        sizes in sizes(),
        (local, global) in (bundle_size(), bundle_size()),
        piece in 1_usize..30,
    ) {
        let whole = run(&mut query.local(local), &rows, &[]);
        let partial = run(&mut query.local(local), &rows, &sizes);
        prop_assert_eq!(show(&partial), show(&whole));
        let two = run_batches(&mut query.global(global, 0, &context()), &partial, piece);
        prop_assert_eq!(show(&two), show(&run_batches(&mut query.global(global, 0, &context()), &whole, 4096)));
    }

    #[test]
    fn local_bundles_follow_the_model(rows in prop::collection::vec(row(), 0..60), size in bundle_size(), sizes in sizes()) {
        let calls = vec![call("SUM", &[VALUE], None, false), call("COUNT", &[TEXT], Some(FILTER), false)];
        let query = Query { grouping: vec![KEY], calls, retracts: false, update_before: true };
        let mut expected = Vec::new();
        for bundle in rows.chunks(size as usize) {
            let mut keys: Vec<(Option<i64>, Option<i64>, i64)> = Vec::new();
            for row in bundle {
                let place = keys.iter().position(|(key, ..)| *key == row.key).unwrap_or_else(|| {
                    keys.push((row.key, None, 0));
                    keys.len() - 1
                });
                let (_, sum, count) = &mut keys[place];
                *sum = row.value.map(|value| sum.unwrap_or(0).wrapping_add(value)).or(*sum);
                *count += i64::from(row.filter == Some(true) && row.text.is_some());
            }
            let word = |value: Option<i64>| value.map_or_else(|| "NULL".to_owned(), |value| value.to_string());
            expected.extend(keys.iter().map(|(key, sum, count)| format!("+I {} {} {count}", word(*key), word(*sum))));
        }
        let found = show(&run(&mut query.local(size), &rows, &sizes));
        prop_assert_eq!(found, expected);
    }

    /// Counts may be anything: what two-phase plans do with deletes of rows that were never there.
    #[test]
    fn global_bundles_follow_the_model(
        rows in prop::collection::vec((0_i64..4, prop::option::of(-5_i64..5), -1_i64..2, -2_i64..3), 0..60),
        size in bundle_size(),
        piece in 1_usize..20,
        update_before in any::<bool>(),
        ttl in any::<bool>(),
        restore_at in any::<prop::sample::Index>(),
    ) {
        let calls = vec![call("SUM", &[VALUE], None, true)];
        let query = Query { grouping: vec![KEY], calls, retracts: true, update_before };
        let column = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let columns = vec![
            column(rows.iter().map(|row| Some(row.0)).collect()),
            column(rows.iter().map(|row| row.1).collect()),
            column(rows.iter().map(|row| Some(row.2)).collect()),
            column(rows.iter().map(|row| Some(row.3)).collect()),
        ];
        let input = Batch::try_new(columns, rows.len(), None).unwrap();
        let ttl_ms = if ttl { 1000 } else { 0 };

        let restore_at = restore_at.index(rows.len() + 1);
        let mut expected = Vec::new();
        let mut state: BTreeMap<i64, Sums> = BTreeMap::new();
        for part in [&rows[..restore_at], &rows[restore_at..]] {
            for bundle in part.chunks(size as usize) {
                model_bundle(bundle, &mut state, update_before, ttl, &mut expected);
            }
        }

        let mut found = Vec::new();
        let mut first = query.global(size, ttl_ms, &context());
        let pieces = |range: std::ops::Range<usize>| {
            let input = input.clone();
            range.clone().step_by(piece).map(move |start| input.slice(start, piece.min(range.end - start)).unwrap())
        };
        for batch in pieces(0..restore_at) {
            first.push(batch).unwrap();
            pull_all(&mut first, &mut found);
        }
        first.flush(FlushReason::Checkpoint).unwrap();
        pull_all(&mut first, &mut found);
        let mut second = restored(&mut first, |context| query.global(size, ttl_ms, context));
        for batch in pieces(restore_at..rows.len()) {
            second.push(batch).unwrap();
            pull_all(&mut second, &mut found);
        }
        second.flush(FlushReason::EndOfInput).unwrap();
        pull_all(&mut second, &mut found);
        prop_assert_eq!(show(&found), expected);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    sum: Option<i64>,
    count: i64,
    records: i64,
}

impl Sums {
    fn merge(&mut self, other: Sums) {
        self.sum = match (self.sum, other.sum) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.count += other.count;
        self.records += other.records;
    }

    fn show(&self, kind: &str, key: i64) -> String {
        let value = self.sum.filter(|_| self.count != 0).map_or_else(|| "NULL".to_owned(), |sum| sum.to_string());
        format!("{kind} {key} {value}")
    }
}

/// MiniBatchGlobalGroupAggFunction, keys in first-touch order.
fn model_bundle(
    rows: &[(i64, Option<i64>, i64, i64)],
    state: &mut BTreeMap<i64, Sums>,
    update_before: bool,
    ttl: bool,
    out: &mut Vec<String>,
) {
    let mut bundle: Vec<(i64, Sums)> = Vec::new();
    for (key, sum, count, records) in rows.iter().copied() {
        let other = Sums { sum, count, records };
        match bundle.iter_mut().find(|(known, _)| *known == key) {
            Some((_, sums)) => sums.merge(other),
            None => bundle.push((key, other)),
        }
    }
    for (key, other) in bundle {
        let before = state.get(&key).copied();
        let mut after = before.unwrap_or_default();
        after.merge(other);
        if after.records == 0 {
            state.remove(&key);
            out.extend(before.map(|before| before.show("-D", key)));
            continue;
        }
        state.insert(key, after);
        match before {
            None => out.push(after.show("+I", key)),
            Some(before) if ttl || before.show("", key) != after.show("", key) => {
                if update_before {
                    out.push(before.show("-U", key));
                }
                out.push(after.show("+U", key));
            }
            Some(_) => {}
        }
    }
}

/// The operator at parallelism 2, restored, and brought back to one subtask: a rescale to and fro.
fn restored<O: Operator>(from: &mut O, open: impl Fn(&StateContext) -> O) -> O {
    let halves = [(0, 63), (64, 127)].map(|(first, last)| {
        let key_groups = KeyGroups { max_parallelism: 128, first, last };
        let context = StateContext { key_groups, clock: StateClock::fixed(0) };
        let mut half = open(&context);
        move_state(from, &mut half, first..=last);
        half
    });
    let mut whole = open(&context());
    for mut half in halves {
        move_state(&mut half, &mut whole, 0..=127);
    }
    whole
}

fn move_state(from: &mut dyn Operator, to: &mut dyn Operator, groups: std::ops::RangeInclusive<u16>) {
    let snapshot = from.state().unwrap().snapshot();
    for group in snapshot.key_groups().into_iter().filter(|group: &KeyGroup| groups.contains(&group.0)) {
        let sections = snapshot.sections(group).unwrap();
        let deadline = snapshot.deadline(group);
        let format_version = FormatVersion::Asynchronous;
        let payload = Sections { key_group: group, format_version, processing_time_deadline: deadline, sections };
        let payload = payload.encode().unwrap();
        let container = Container::encode("uid/groups", format_version, deadline, &payload).unwrap();
        let (header, payload) = container.decode(Some(group), "uid/groups").unwrap();
        let sections = Sections::decode(&payload, &header, Some(group)).unwrap();
        to.state().unwrap().restore(&sections).unwrap();
    }
}

#[test]
fn decimal_sums_begin_anew_and_averages_stay_null() {
    let limit = 10_i128.pow(38) - 1;
    let decimal = |values: &[i128]| {
        let array = Decimal128Array::from(values.to_vec()).with_precision_and_scale(38, 2).unwrap();
        Arc::new(array) as ArrayRef
    };
    let calls = vec![call("SUM", &[DECIMAL], None, false), call("AVG", &[DECIMAL], None, false)];
    let query = Query { grouping: vec![], calls, retracts: false, update_before: false };
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 1]));
    let sums = decimal(&[limit, 1, 500]);
    let input = Batch::try_new(vec![sums.clone(), sums, one], 3, None).unwrap();
    let found = show(&run_batches(&mut query.global(1, 0, &context()), &[input], 3));
    let whole = "9".repeat(36);
    assert_eq!(found[0], format!("+I {whole}.99 NULL"));
    assert_eq!(found[1..], ["+U NULL NULL".to_owned(), "+U 5.00 NULL".to_owned()]);
}

#[test]
fn bundle_without_its_last_row_waits_for_a_flush() {
    let query = Query {
        grouping: vec![KEY],
        calls: vec![call("COUNT", &[], None, false)],
        retracts: false,
        update_before: true,
    };
    let mut local = query.local(3);
    let rows: Vec<Row> = [1, 1, 2, 2].map(|key| Row { key: Some(key), ..Row::default() }).into();
    local.push(batch(&rows)).unwrap();
    let mut out = Vec::new();
    pull_all(&mut local, &mut out);
    assert_eq!(show(&out), ["+I 1 2", "+I 2 1"]);
    assert!(local.bundle_bytes() > 0);
    for reason in [FlushReason::Watermark, FlushReason::Checkpoint] {
        local.flush(reason).unwrap();
        pull_all(&mut local, &mut out);
        assert_eq!(show(&out)[2..], ["+I 2 1"]);
    }
    let metrics = local.bundle_metrics().unwrap();
    assert_eq!((metrics.bundles, metrics.rows_in, metrics.rows_out, metrics.physical_splits), (2, 4, 3, 1));
}

#[test]
fn retraction_that_the_plan_does_not_promise_is_an_error() {
    let query = Query {
        grouping: vec![KEY],
        calls: vec![call("COUNT", &[], None, false)],
        retracts: false,
        update_before: true,
    };
    let row = Row { kind: 3, ..Row::default() };
    assert_eq!(query.local(3).push(batch(&[row])), Err(OperatorError::UnexpectedRetraction));
}

#[test]
fn accumulators_of_other_types_are_refused() {
    let query = Query {
        grouping: vec![KEY],
        calls: vec![call("AVG", &[VALUE], None, false)],
        retracts: false,
        update_before: true,
    };
    let spec = LocalGroupAggregate {
        grouping: query.grouping.clone(),
        calls: query.calls.clone(),
        need_retraction: false,
        mini_batch_size: 5,
    };
    assert!(supports_local(&spec, &input_type(), &query.between()).is_ok());
    let other = row_type([TypeKind::BigInt, TypeKind::Double, TypeKind::BigInt]);
    assert!(supports_local(&spec, &input_type(), &other).is_err());
    let more = row_type([TypeKind::BigInt, TypeKind::BigInt, TypeKind::BigInt, TypeKind::BigInt]);
    assert!(supports_local(&spec, &input_type(), &more).is_err());
}

#[test]
fn null_in_an_accumulator_that_has_none_is_an_error() {
    let query = Query {
        grouping: vec![],
        calls: vec![call("COUNT", &[VALUE], None, false)],
        retracts: false,
        update_before: true,
    };
    let input = Batch::try_new(vec![Arc::new(Int64Array::from(vec![None::<i64>]))], 1, None).unwrap();
    assert!(matches!(query.global(1, 0, &context()).push(input), Err(OperatorError::Input(_))));
}

#[test]
fn many_keys_outgrow_the_first_table() {
    let query = Query {
        grouping: vec![KEY],
        calls: vec![call("COUNT", &[], None, false)],
        retracts: false,
        update_before: true,
    };
    let rows: Vec<Row> = (0..2000).map(|row| Row { key: Some(row % 700), ..Row::default() }).collect();
    let out = run(&mut query.local(4096), &rows, &[11, 600]);
    assert_eq!(out.iter().map(Batch::num_rows).sum::<usize>(), 700);
    let counted: i64 =
        out.iter().flat_map(|batch| batch.columns()[1].as_primitive::<Int64Type>().values().to_vec()).sum();
    assert_eq!(counted, 2000);
}
