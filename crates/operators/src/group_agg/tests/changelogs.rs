//! Changelogs spelled out, one per rule of Flink's.

use super::*;

fn long(key: i64, column: usize, value: Datum) -> Vec<(usize, Datum)> {
    vec![(KEY, Datum::Long(key)), (column, value)]
}

fn rows(kinds_and_values: &[(&str, i64, Datum)], column: usize) -> Vec<Row> {
    kinds_and_values.iter().map(|(kind, key, value)| row(kind, &long(*key, column, value.clone()))).collect()
}

#[test]
fn update_retracts_the_previous_result() {
    let rows = rows(
        &[("+I", 1, Datum::Int(10)), ("+I", 2, Datum::Int(5)), ("+I", 1, Datum::Int(-3)), ("+I", 1, Datum::Null)],
        INT,
    );
    let spec = spec(&[KEY], vec![call("SUM", &[INT]), call("COUNT", &[])]);
    assert_eq!(run(&spec, &rows, &[]), ["+I 1 10 1", "+I 2 5 1", "-U 1 10 1", "+U 1 7 2", "-U 1 7 2", "+U 1 7 3"]);
}

#[test]
fn update_before_is_left_out_where_nobody_needs_it() {
    let rows = rows(&[("+I", 1, Datum::Int(1)), ("+I", 1, Datum::Int(2))], INT);
    let mut spec = spec(&[KEY], vec![call("SUM", &[INT])]);
    spec.generate_update_before = false;
    assert_eq!(run(&spec, &rows, &[]), ["+I 1 1", "+U 1 3"]);
}

#[test]
fn unchanged_result_is_not_emitted() {
    let rows = rows(&[("+I", 1, Datum::Int(1)), ("+I", 1, Datum::Int(0)), ("+I", 1, Datum::Null)], INT);
    assert_eq!(run(&spec(&[KEY], vec![call("SUM", &[INT])]), &rows, &[]), ["+I 1 1"]);
    assert_eq!(run(&spec(&[KEY], vec![]), &rows, &[]), ["+I 1"]);
}

#[test]
fn last_retraction_deletes_the_group_and_a_new_row_starts_anew() {
    let rows = rows(
        &[
            ("-D", 1, Datum::Int(9)), // never seen: ignored
            ("+I", 1, Datum::Int(4)),
            ("+U", 1, Datum::Int(5)),
            ("-U", 1, Datum::Int(4)),
            ("-D", 1, Datum::Int(5)),
            ("-D", 1, Datum::Int(5)), // gone: ignored
            ("+I", 1, Datum::Int(6)),
        ],
        INT,
    );
    let spec = retracting(spec(&[KEY], vec![call("SUM", &[INT])]));
    let expected = ["+I 1 4", "-U 1 4", "+U 1 9", "-U 1 9", "+U 1 5", "-D 1 5", "+I 1 6"];
    assert_eq!(run(&spec, &rows, &[]), expected);
    assert_eq!(run(&spec, &rows, &[1; 7]), expected);
}

#[test]
fn nan_is_emitted_again_and_negative_zero_is_not() {
    let spec = spec(&[KEY], vec![call("LAST_VALUE", &[DOUBLE])]);
    let nan = rows(&[("+I", 1, Datum::Double(f64::NAN)), ("+I", 1, Datum::Double(f64::NAN))], DOUBLE);
    assert_eq!(run(&spec, &nan, &[]), ["+I 1 NaN", "-U 1 NaN", "+U 1 NaN"]);
    let zero =
        rows(&[("+I", 1, Datum::Double(0.0)), ("+I", 1, Datum::Double(-0.0)), ("+I", 1, Datum::Double(1.0))], DOUBLE);
    assert_eq!(run(&spec, &zero, &[]), ["+I 1 0.0", "-U 1 -0.0", "+U 1 1.0"]);
}

#[test]
fn first_nan_stays_the_maximum_and_a_later_one_never_is() {
    let max = spec(&[KEY], vec![call("MAX", &[DOUBLE])]);
    let first = rows(&[("+I", 1, Datum::Double(f64::NAN)), ("+I", 1, Datum::Double(5.0))], DOUBLE);
    assert_eq!(run(&max, &first, &[]), ["+I 1 NaN", "-U 1 NaN", "+U 1 NaN"]);
    let later = rows(&[("+I", 1, Datum::Double(5.0)), ("+I", 1, Datum::Double(f64::NAN))], DOUBLE);
    assert_eq!(run(&max, &later, &[]), ["+I 1 5.0"]);
    // with retractions boxed values are compared, and NaN is greatest
    assert_eq!(run(&retracting(max), &later, &[]), ["+I 1 5.0", "-U 1 5.0", "+U 1 NaN"]);
}

#[test]
fn overflown_decimal_sum_is_null_and_starts_anew_but_an_average_stays_null() {
    let largest = 10_i128.pow(38) - 1;
    let mut spec = spec(&[KEY], vec![call("SUM", &[DECIMAL]), call("$SUM0", &[DECIMAL]), call("AVG", &[DECIMAL])]);
    let kind = TypeKind::Decimal { precision: 38, scale: 2 };
    for call in &mut spec.calls[..2] {
        call.ty = nullable(kind.clone());
    }
    let fields = [KEY, DECIMAL].map(|column| Field {
        name: format!("c{column}"),
        ty: nullable(if column == KEY { TypeKind::BigInt } else { kind.clone() }),
    });
    let input = LogicalType { kind: TypeKind::Row(Arc::new(fields)), nullable: false };
    for call in &mut spec.calls {
        call.args = vec![1];
    }
    let mut operator = GroupAgg::try_new(&spec, &input, &context()).unwrap();
    let values = Decimal128Array::from(vec![largest, 1, 7]).with_precision_and_scale(38, 2).unwrap();
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 1]));
    operator.push(Batch::try_new(vec![keys, Arc::new(values)], 3, None).unwrap()).unwrap();
    let mut out = Vec::new();
    drain(&mut operator, &mut out);
    let first = format!("1 {largest} {largest} NULL");
    assert_eq!(
        out,
        [
            format!("+I {first}"),
            format!("-U {first}"),
            "+U 1 NULL NULL NULL".to_owned(),
            "-U 1 NULL NULL NULL".to_owned(),
            "+U 1 7 NULL NULL".to_owned()
        ]
    );
}

#[test]
fn integer_average_truncates_and_integer_sum_wraps() {
    let rows = rows(&[("+I", 1, Datum::Int(i32::MAX)), ("+I", 1, Datum::Int(2)), ("+I", 1, Datum::Int(-4))], INT);
    let spec = spec(&[KEY], vec![call("SUM", &[INT]), call("AVG", &[INT])]);
    assert_eq!(
        run(&spec, &rows, &[]),
        [
            "+I 1 2147483647 2147483647",
            "-U 1 2147483647 2147483647",
            "+U 1 -2147483647 1073741824",
            "-U 1 -2147483647 1073741824",
            "+U 1 2147483645 715827881"
        ]
    );
}

#[test]
fn sum_is_null_again_when_all_values_are_retracted() {
    let rows = rows(&[("+I", 1, Datum::Null), ("+I", 1, Datum::Int(3)), ("-U", 1, Datum::Int(3))], INT);
    let spec = retracting(spec(&[KEY], vec![call("SUM", &[INT]), call("AVG", &[INT])]));
    assert_eq!(run(&spec, &rows, &[]), ["+I 1 NULL NULL", "-U 1 NULL NULL", "+U 1 3 3", "-U 1 3 3", "+U 1 NULL NULL"]);
}

#[test]
fn filters_of_shared_distinct_values_count_apart() {
    let distinct = |filter: Option<usize>| AggCall { filter, distinct: true, ..call("COUNT", &[INT]) };
    let spec = spec(&[], vec![distinct(None), distinct(Some(FILTER)), distinct(Some(OTHER_FILTER))]);
    let value = |int: i32, filter: Datum, other: bool| {
        row("+I", &[(INT, Datum::Int(int)), (FILTER, filter), (OTHER_FILTER, Datum::Bool(other))])
    };
    let rows = [
        value(1, Datum::Bool(false), false),
        value(1, Datum::Bool(true), false),
        value(1, Datum::Bool(true), true),
        value(2, Datum::Null, true),
        value(2, Datum::Bool(true), true),
        row("+I", &[(FILTER, Datum::Bool(true))]), // a NULL value
    ];
    assert_eq!(
        run(&spec, &rows, &[]),
        ["+I 1 0 0", "-U 1 0 0", "+U 1 1 0", "-U 1 1 0", "+U 1 1 1", "-U 1 1 1", "+U 2 1 2", "-U 2 1 2", "+U 2 2 2"]
    );
}

#[test]
fn retracted_last_value_falls_back_to_the_one_before() {
    let text = |value: &str| Datum::Text(value.to_owned());
    let rows = rows(
        &[
            ("+I", 1, text("a")),
            ("+I", 1, text("b")),
            ("+I", 1, text("a")),
            ("-D", 1, text("a")), // takes back the first a
            ("-D", 1, text("a")),
            ("-D", 1, text("x")), // never seen
        ],
        TEXT,
    );
    let spec = retracting(spec(&[KEY], vec![call("FIRST_VALUE", &[TEXT]), call("LAST_VALUE", &[TEXT])]));
    assert_eq!(
        run(&spec, &rows, &[]),
        [
            "+I 1 a a", "-U 1 a a", "+U 1 a b", "-U 1 a b", "+U 1 a a", "-U 1 a a", "+U 1 b a", "-U 1 b a", "+U 1 b b",
            "-D 1 b b"
        ]
    );
}

#[test]
fn values_retracted_before_they_came_count_as_in_flink() {
    let min = retracting(spec(&[KEY], vec![call("MIN", &[INT])]));
    // 1 comes back to a count of 0: it is not in the group, and 5 replaces it though it is greater
    let back_to_zero = [
        ("+I", 1, Datum::Null),
        ("+I", 1, Datum::Null),
        ("-D", 1, Datum::Int(1)),
        ("+I", 1, Datum::Int(1)),
        ("+I", 1, Datum::Int(5)),
    ];
    assert_eq!(run(&min, &rows(&back_to_zero, INT), &[]), ["+I 1 NULL", "-U 1 NULL", "+U 1 5"]);
    // 3 has a count of -1, and yet it is the result when 2 goes
    let negative = [
        ("+I", 1, Datum::Int(2)),
        ("+I", 1, Datum::Int(7)),
        ("+I", 1, Datum::Null),
        ("-D", 1, Datum::Int(3)),
        ("-D", 1, Datum::Int(2)),
    ];
    assert_eq!(run(&min, &rows(&negative, INT), &[]), ["+I 1 2", "-U 1 2", "+U 1 3"]);
}

#[test]
fn keys_are_told_apart_by_their_bits() {
    let key = |value: Datum| row("+I", &[(DOUBLE, value)]);
    let rows = [
        key(Datum::Double(0.0)),
        key(Datum::Double(-0.0)),
        key(Datum::Null),
        key(Datum::Double(f64::NAN)),
        key(Datum::Double(f64::NAN)),
        key(Datum::Null),
    ];
    assert_eq!(
        run(&spec(&[DOUBLE], vec![call("COUNT", &[])]), &rows, &[2, 2]),
        ["+I 0.0 1", "+I -0.0 1", "+I NULL 1", "+I NaN 1", "-U NaN 1", "+U NaN 2", "-U NULL 1", "+U NULL 2"]
    );
}

#[test]
fn keys_of_several_columns_are_grouped_by_all_of_them() {
    let key = |a: Datum, b: &str| row("+I", &[(KEY, a), (TEXT_KEY, Datum::Text(b.to_owned()))]);
    let rows = [
        key(Datum::Long(1), "a long string key"),
        key(Datum::Null, "a long string key"),
        key(Datum::Long(1), "a long string key"),
        key(Datum::Long(1), ""),
    ];
    assert_eq!(
        run(&spec(&[TEXT_KEY, KEY], vec![call("COUNT", &[])]), &rows, &[1]),
        [
            "+I a long string key 1 1",
            "+I a long string key NULL 1",
            "-U a long string key 1 1",
            "+U a long string key 1 2",
            "+I  1 1"
        ]
    );
}

#[test]
fn output_leaves_in_batches_of_bounded_size() {
    let rows: Vec<Row> = (0..20_000).map(|i| row("+I", &[(KEY, Datum::Long(i % 7)), (INT, Datum::Int(1))])).collect();
    let out = run(&spec(&[KEY], vec![call("SUM", &[INT])]), &rows, &[]);
    assert_eq!(out.len(), 2 * 20_000 - 7);
    assert_eq!(out.last().map(String::as_str), Some("+U 0 2858"));
}

#[test]
fn state_does_not_grow_with_groups_that_are_gone() {
    for grouping in [KEY, TEXT_KEY] {
        let distinct = AggCall { distinct: true, ..call("COUNT", &[INT]) };
        let spec = retracting(spec(&[grouping], vec![call("SUM", &[INT]), distinct, call("MAX", &[INT])]));
        let mut operator = open(&spec);
        let mut after_first = None;
        for round in 0..50_i64 {
            for kind in ["+I", "-D"] {
                let rows: Vec<Row> = (round * 100..round * 100 + 100)
                    .map(|key| {
                        let text = (TEXT_KEY, Datum::Text(key.to_string()));
                        row(kind, &[(KEY, Datum::Long(key)), text, (INT, Datum::Int(3))])
                    })
                    .collect();
                operator.push(batch(&rows)).unwrap();
                let mut out = Vec::new();
                drain(&mut operator, &mut out);
                assert_eq!(out.len(), 100);
                assert_eq!(out[0], format!("{kind} {} 3 1 3", round * 100));
            }
            let bytes = operator.bytes();
            assert!(bytes <= 2 * *after_first.get_or_insert(bytes), "{bytes} bytes after round {round}");
        }
    }
}

#[test]
fn retraction_in_input_that_only_inserts_fails() {
    let mut operator = open(&spec(&[KEY], vec![call("COUNT", &[])]));
    let error = operator.push(batch(&[row("-D", &[(KEY, Datum::Long(1))])])).unwrap_err();
    assert_eq!(error, crate::OperatorError::UnexpectedRetraction);
}

#[test]
fn what_is_not_native_has_a_reason() {
    let reason = |change: &dyn Fn(&mut GroupAggregate)| {
        let mut spec = spec(&[KEY], vec![call("SUM", &[INT])]);
        change(&mut spec);
        supports(&spec, &input_type()).unwrap_err().to_string()
    };
    assert_eq!(reason(&|spec| spec.mini_batch_size = Some(0)), "the mini-batch size is 0");
    assert_eq!(
        reason(&|spec| {
            *spec = retracting(spec.clone());
            spec.calls = vec![AggCall { need_retraction: true, ..call("LAST_VALUE", &[INT]) }];
            spec.ttl_ms = 1;
        }),
        "FIRST_VALUE and LAST_VALUE over input that retracts, with a state time to live, are not supported natively"
    );
    assert_eq!(
        reason(&|spec| {
            spec.calls = vec![AggCall { distinct: true, ..call("COUNT", &[INT]) }; 65];
            spec.ttl_ms = 1;
        }),
        "more than 64 DISTINCT aggregates of one column, with a state time to live, are not supported natively"
    );
    assert_eq!(
        reason(&|spec| spec.calls[0].function = Function::User("my_sum".to_owned())),
        "the user-defined aggregate function my_sum is not supported natively"
    );
    assert_eq!(
        reason(&|spec| spec.calls[0].function = Function::BuiltIn { name: "LISTAGG".to_owned(), version: 1 }),
        "the aggregate function LISTAGG is not supported natively"
    );
    assert_eq!(
        reason(&|spec| spec.need_retraction = true),
        "the aggregate function SUM that ignores retractions is not supported natively"
    );
}

/// Bytes of text in each output batch, and its number of rows.
fn pulled_sizes(operator: &mut GroupAgg) -> Vec<(usize, usize)> {
    let mut sizes = Vec::new();
    while let Some(batch) = operator.pull().unwrap() {
        let texts = batch.columns().iter().filter_map(|column| column.as_string_opt::<i32>());
        sizes.push((texts.map(|text| text.value_data().len()).sum(), batch.num_rows()));
    }
    sizes
}

#[test]
fn output_batches_are_bounded_by_bytes() {
    let long = |row: usize| Datum::Text(format!("{row:030000}"));
    let rows: Vec<Row> = (0..400).map(|i| row("+I", &[(TEXT_KEY, long(i % 3)), (TEXT, long(i))])).collect();
    let spec = spec(&[TEXT_KEY], vec![call("MAX", &[TEXT]), call("COUNT", &[])]);
    let mut operator = open(&spec);
    operator.push(batch(&rows)).unwrap();
    let sizes = pulled_sizes(&mut operator);
    assert_eq!(sizes.iter().map(|(_, rows)| rows).sum::<usize>(), 2 * 400 - 3);
    let (last, full) = sizes.split_last().unwrap();
    assert!(last.0 <= crate::OUTPUT_BATCH_BYTES);
    for (bytes, rows) in full {
        assert!(*bytes <= crate::OUTPUT_BATCH_BYTES && bytes + 60_000 > crate::OUTPUT_BATCH_BYTES, "{bytes} in {rows}");
    }
    let changes = run(&spec, &rows, &[]);
    assert_eq!(changes.len(), 797);
    assert_eq!(changes[796], describe(2, &[long(0), long(399), Datum::Long(134)]));
}

#[test]
fn values_of_one_batch_may_exceed_two_gibibytes_together() {
    let large = "x".repeat(8 << 20);
    let mut rows: Vec<Row> = (0..2).map(|key| row("+I", &long(key, TEXT, Datum::Text(large.clone())))).collect();
    rows.extend((0..200).map(|i| row("+I", &long(i % 2, TEXT, Datum::Null))));
    let spec = spec(&[KEY], vec![call("MIN", &[TEXT]), call("COUNT", &[])]);
    let mut operator = open(&spec);
    operator.push(batch(&rows)).unwrap();
    assert_eq!(pulled_sizes(&mut operator), vec![(8 << 20, 1); 402]);
}
