//! DISTINCT, and MIN and MAX over rows that retract: all three phases against the model.

use super::model::Model;
use super::*;
use crate::group_agg::two_phase::incremental::IncrementalGroupAgg;
use streamfusion_plan::node::IncrementalGroupAggregate;

/// Calls that share sets and do not, with filters and without.
fn calls(retracts: bool) -> impl Strategy<Value = Vec<AggCall>> {
    let filter = prop_oneof![1 => Just(None), 1 => Just(Some(FILTER))];
    let of = prop::sample::select(vec![
        ("COUNT", VALUE, true),
        ("COUNT", TEXT, true),
        ("SUM", VALUE, true),
        ("SUM", VALUE, false),
        ("COUNT", TEXT, false),
        ("MIN", VALUE, false),
        ("MAX", TEXT, false),
    ]);
    prop::collection::vec((of, filter), 1..6).prop_map(move |calls| {
        let call = |((name, column, distinct), filter): ((&str, usize, bool), Option<usize>)| AggCall {
            distinct,
            ..call(name, &[column], filter, retracts)
        };
        calls.into_iter().map(call).collect()
    })
}

/// Rows with few values, which may retract what was never there.
fn rows(retracts: bool) -> impl Strategy<Value = Vec<Row>> {
    let row = (
        prop::option::weighted(0.9, 0_i64..3),
        prop::option::weighted(0.9, -2_i64..3),
        prop::option::weighted(0.8, "[ab]{0,1}"),
        prop::option::weighted(0.8, any::<bool>()),
        0_u8..4,
    );
    let row = row.prop_map(move |(key, value, text, filter, kind)| Row {
        kind: if retracts { kind } else { 0 },
        key,
        // the bucket
        word: value.map_or("", |value| if value % 2 == 0 { "even" } else { "odd" }).to_owned(),
        value,
        text,
        filter,
        ..Row::default()
    });
    prop::collection::vec(row, 0..60)
}

fn cases() -> impl Strategy<Value = (Query, Vec<Row>)> {
    any::<bool>().prop_flat_map(|retracts| {
        (calls(retracts), any::<bool>(), rows(retracts)).prop_map(move |(calls, update_before, rows)| {
            (Query { grouping: vec![KEY], calls, retracts, update_before }, rows)
        })
    })
}

fn show_key(key: &Option<i64>) -> String {
    key.map_or_else(|| "NULL".to_owned(), |key| key.to_string())
}

impl Query {
    /// The rows that the incremental phase reads and those that it hands on, without the keys.
    fn incremental(&self, size: u64, ttl_ms: i64, context: &StateContext) -> IncrementalGroupAgg {
        let spec = IncrementalGroupAggregate {
            partial_grouping: vec![0, 1],
            final_grouping: vec![0],
            calls: self.calls.clone(),
            local_input: input_type(),
            need_retraction: self.retracts,
            ttl_ms,
            mini_batch_size: size,
        };
        let input = self.between();
        let sets: std::collections::BTreeSet<_> =
            self.calls.iter().filter(|call| call.distinct).map(|call| call.args.clone()).collect();
        let fields = input.fields();
        let kinds = fields[..1].iter().chain(&fields[2..fields.len() - sets.len()]).map(|field| field.ty.kind.clone());
        IncrementalGroupAgg::try_new(&spec, &input, &row_type(kinds), context).unwrap()
    }
}

/// Pushes what is left of `batches` behind `skip` rows, up to `end`, in pieces of at most `piece` rows.
fn push_range(
    operator: &mut dyn Operator,
    batches: &[Batch],
    range: std::ops::Range<usize>,
    piece: usize,
    out: &mut Vec<Batch>,
) {
    let mut first = 0;
    for batch in batches {
        let (from, to) = (range.start.max(first), range.end.min(first + batch.num_rows()));
        let mut start = from;
        while start < to {
            let len = piece.min(to - start);
            operator.push(batch.slice(start - first, len).unwrap()).unwrap();
            pull_all(operator, out);
            start += len;
        }
        first += batch.num_rows();
    }
}

/// Runs an operator over batches, with a checkpoint and a restore behind `restore_at` rows.
fn run_restored<O: Operator>(
    open: impl Fn(&StateContext) -> O,
    batches: &[Batch],
    restore_at: usize,
    piece: usize,
) -> Vec<Batch> {
    let mut out = Vec::new();
    let mut operator = open(&context());
    push_range(&mut operator, batches, 0..restore_at, piece, &mut out);
    operator.flush(FlushReason::Checkpoint).unwrap();
    pull_all(&mut operator, &mut out);
    let mut operator = restored(&mut operator, open);
    push_range(&mut operator, batches, restore_at..usize::MAX, piece, &mut out);
    operator.flush(FlushReason::EndOfInput).unwrap();
    pull_all(&mut operator, &mut out);
    out
}

proptest! {
    #[test]
    fn global_bundles_of_maps_follow_the_model(
        (query, rows) in cases(),
        sizes in sizes(),
        (local, global) in (bundle_size(), bundle_size()),
        piece in 1_usize..30,
        restore_at in any::<prop::sample::Index>(),
    ) {
        let model = Model::new(&query);
        let accs = model.local(&rows, local, |row| row.key);
        let restore_at = restore_at.index(accs.len() + 1);
        let (mut state, mut expected) = (BTreeMap::new(), Vec::new());
        for part in [&accs[..restore_at], &accs[restore_at..]] {
            model.global(part, global, &mut state, show_key, &mut expected);
        }
        let partial = run(&mut query.local(local), &rows, &sizes);
        let found = run_restored(|context| query.global(global, 0, context), &partial, restore_at, piece);
        prop_assert_eq!(show(&found), expected);
    }

    #[test]
    fn incremental_bundles_follow_the_model(
        (query, rows) in cases(),
        sizes in sizes(),
        (local, incremental, global) in (bundle_size(), bundle_size(), bundle_size()),
        piece in 1_usize..30,
        restore_at in any::<prop::sample::Index>(),
    ) {
        let query = Query { grouping: vec![KEY, WORD], ..query };
        let model = Model::new(&query);
        let accs = model.local(&rows, local, |row| (row.key, row.word.clone()));
        let restore_at = restore_at.index(accs.len() + 1);
        let mut state = BTreeMap::new();
        let mut handed_on = Vec::new();
        for part in [&accs[..restore_at], &accs[restore_at..]] {
            handed_on.extend(model.incremental(part, incremental, &mut state, |(key, _)| *key));
        }
        let partial = run(&mut query.local(local), &rows, &sizes);
        let found = run_restored(|context| query.incremental(incremental, 0, context), &partial, restore_at, piece);
        // What the sets were is gone: the rest behaves as accumulators of plain calls do.
        let plain = |call: &AggCall| AggCall { distinct: false, ..call.clone() };
        let last = Query { grouping: vec![KEY], calls: query.calls.iter().map(plain).collect(), ..query.clone() };
        let last_model = Model::new(&last);
        let (mut state, mut expected) = (BTreeMap::new(), Vec::new());
        last_model.global(&handed_on, global, &mut state, show_key, &mut expected);
        let found = run_batches(&mut last.global(global, 0, &context()), &found, piece);
        prop_assert_eq!(show(&found), expected);
    }

    /// Of rows that are all there, buckets come to the same as one phase without them.
    #[test]
    fn three_phases_leave_the_table_of_one(
        (query, rows) in any::<bool>().prop_flat_map(|retracts| (query_by_key(retracts), changelog(retracts))),
        sizes in sizes(),
        (local, incremental, global) in (bundle_size(), bundle_size(), bundle_size()),
        piece in 1_usize..30,
    ) {
        let bucketed: Vec<Row> = rows.iter().map(|row| Row { word: format!("{:?}", row.value), ..row.clone() }).collect();
        let split = Query { grouping: vec![KEY, WORD], ..query.clone() };
        let partial = run(&mut split.local(local), &bucketed, &sizes);
        let between = run_batches(&mut split.incremental(incremental, 0, &context()), &partial, piece);
        let plain = |call: &AggCall| AggCall { distinct: false, ..call.clone() };
        let last = Query { calls: query.calls.iter().map(plain).collect(), ..query.clone() };
        let three = show(&run_batches(&mut last.global(global, 0, &context()), &between, piece));
        let one = show(&run(&mut query.single(), &rows, &[]));
        prop_assert_eq!(table(&three, 1), table(&one, 1));
    }

    #[test]
    fn bytes_that_are_no_maps_are_refused(
        (query, rows) in cases(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut partial = run(&mut query.local(4096), &rows, &[]);
        let Some(batch) = partial.pop() else { return Ok(()) };
        for (place, column) in batch.columns().iter().enumerate() {
            let Some(cells) = column.as_binary_opt::<i32>() else { continue };
            let mut cell = cells.value(0).to_vec();
            let at = at.index(cell.len());
            if cut { cell.truncate(at) } else { cell[at] = byte }
            let mut columns: Vec<ArrayRef> = batch.slice(0, 1).unwrap().columns().to_vec();
            columns[place] = Arc::new(arrow::array::BinaryArray::from_vec(vec![cell.as_slice()]));
            let mut global = query.global(1, 0, &context());
            let pushed = global.push(Batch::try_new(columns, 1, None).unwrap());
            prop_assert!(!cut || matches!(pushed, Err(OperatorError::Input(_))), "{:?}", pushed);
        }
    }
}

/// Calls whose DISTINCT values decide on the bucket.
fn query_by_key(retracts: bool) -> impl Strategy<Value = Query> {
    query(retracts).prop_map(|query| {
        let of_bucket = |call: &AggCall| AggCall { distinct: call.distinct && call.args == [VALUE], ..call.clone() };
        Query { grouping: vec![KEY], calls: query.calls.iter().map(of_bucket).collect(), ..query }
    })
}

/// What Flink plans behind a split COUNT(DISTINCT x), COUNT(*) over rows that retract: a sum of counts says how many rows there are.
#[test]
fn sum_of_counts_says_whether_a_group_is_there() {
    let calls = vec![call("$SUM0", &[VALUE], None, true), call("$SUM0", &[VALUE], None, true)];
    let spec = |count_star| GlobalGroupAggregate {
        grouping: vec![0],
        calls: calls.clone(),
        local_input: input_type(),
        generate_update_before: false,
        need_retraction: true,
        count_star,
        ttl_ms: 0,
        mini_batch_size: 1,
    };
    let between = row_type([TypeKind::BigInt, TypeKind::BigInt, TypeKind::BigInt]);
    assert!(supports_global(&spec(Some(1)), &between).is_ok());
    assert!(supports_global(&spec(Some(2)), &between).is_err(), "there is no such call");
    assert!(supports_global(&spec(None), &between).is_err(), "a count of its own has a column of its own");

    let long = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let (keys, values, counts) = (vec![7, 7, 7, 7, 7], vec![4, 0, -4, 5, -5], vec![1, 1, -2, 1, 0]);
    let input = Batch::try_new(vec![long(keys), long(values), long(counts)], 5, None).unwrap();
    let mut global = GlobalGroupAgg::try_new(&spec(Some(1)), &between, &context()).unwrap();
    let found = show(&run_batches(&mut global, &[input], 2));
    assert_eq!(found, ["+I 7 4 1", "+U 7 4 2", "-D 7 4 2", "+I 7 5 1", "+U 7 0 1"]);
}
