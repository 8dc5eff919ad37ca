//! Random rows in random batches against the model.

use proptest::prelude::*;

use super::*;

pub(super) fn value(column: usize) -> BoxedStrategy<Datum> {
    let texts = ["", "a", "ab", "ä", "a much longer text than the others", "\u{10ffff}"];
    let value: BoxedStrategy<Datum> = match column_kinds().swap_remove(column) {
        TypeKind::Boolean => any::<bool>().prop_map(Datum::Bool).boxed(),
        TypeKind::Integer => prop_oneof![(-3..4).prop_map(Datum::Int), any::<i32>().prop_map(Datum::Int)].boxed(),
        TypeKind::BigInt => (0_i64..4).prop_map(Datum::Long).boxed(),
        TypeKind::Double => prop_oneof![
            (-2_i32..3).prop_map(|v| Datum::Double(f64::from(v) / 4.0)),
            prop::sample::select(vec![-0.0, f64::NAN, f64::INFINITY, 1e300, 0.1]).prop_map(Datum::Double),
        ]
        .boxed(),
        TypeKind::Decimal { .. } => {
            prop_oneof![(-300_i128..300).prop_map(Datum::Decimal), Just(Datum::Decimal(9_999_999_999))].boxed()
        }
        _ => prop::sample::select(texts.to_vec()).prop_map(|text| Datum::Text(text.to_owned())).boxed(),
    };
    prop_oneof![5 => value, 1 => Just(Datum::Null)].boxed()
}

fn random_row(retractions: bool) -> impl Strategy<Value = Row> {
    let values = (0..column_kinds().len()).map(value).collect::<Vec<_>>();
    let kind = if retractions { prop::sample::select(vec![0_u8, 0, 2, 1, 3]) } else { prop::sample::select(vec![0]) };
    (kind, values).prop_map(|(kind, values)| Row { kind, values })
}

fn random_call() -> impl Strategy<Value = AggCall> {
    let function = prop_oneof![
        Just(("COUNT", vec![])),
        (prop::sample::select(vec![INT, DOUBLE, DECIMAL, TEXT, FILTER])).prop_map(|c| ("COUNT", vec![c])),
        (prop::sample::select(vec!["SUM", "$SUM0", "AVG"]), prop::sample::select(vec![INT, DOUBLE, DECIMAL]))
            .prop_map(|(name, column)| (name, vec![column])),
        (
            prop::sample::select(vec!["MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"]),
            prop::sample::select(vec![INT, DOUBLE, DECIMAL, TEXT, FILTER, LONG])
        )
            .prop_map(|(name, column)| (name, vec![column])),
    ];
    let filter = prop_oneof![2 => Just(None), 1 => Just(Some(FILTER)), 1 => Just(Some(OTHER_FILTER))];
    (function, filter, any::<bool>()).prop_map(|((name, args), filter, distinct)| AggCall {
        filter,
        distinct: distinct && !args.is_empty(),
        ..call(name, &args)
    })
}

fn random_spec() -> impl Strategy<Value = GroupAggregate> {
    let grouping = prop::sample::select(vec![vec![], vec![KEY], vec![TEXT_KEY], vec![KEY, TEXT_KEY], vec![DOUBLE]]);
    (grouping, prop::collection::vec(random_call(), 0..6), any::<bool>(), any::<bool>()).prop_map(
        |(grouping, calls, update_before, retracts)| {
            let mut spec = spec(&grouping, calls);
            spec.generate_update_before = update_before;
            if retracts { retracting(spec) } else { spec }
        },
    )
}

pub(super) fn case() -> impl Strategy<Value = (GroupAggregate, Vec<Row>)> {
    random_spec().prop_flat_map(|spec| {
        let rows = prop::collection::vec(random_row(spec.need_retraction), 0..80);
        (Just(spec), rows)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changelog_is_that_of_the_model((spec, rows) in case()) {
        prop_assert_eq!(run(&spec, &rows, &[]), model::changelog(&spec, &rows));
    }

    #[test]
    fn batch_cuts_do_not_matter(
        (spec, rows) in case(),
        sizes in prop::collection::vec(0_usize..20, 0..12),
    ) {
        prop_assert_eq!(run(&spec, &rows, &sizes), run(&spec, &rows, &[]));
    }

    #[test]
    fn retractions_cancel((spec, rows) in case(), sizes in prop::collection::vec(0_usize..20, 0..12)) {
        // every row and, later, its retraction: no group is left, and the changelog folds to nothing
        let spec = retracting(spec);
        let mut rows = rows;
        rows.iter_mut().for_each(|row| row.kind = 0);
        let retractions: Vec<Row> = rows.iter().map(|row| Row { kind: 3, ..row.clone() }).collect();
        rows.extend(retractions);
        let mut live: Vec<String> = Vec::new();
        for change in run(&spec, &rows, &sizes) {
            // a change from 0.0 to -0.0 is not emitted, so that either may be retracted
            let change = change.replace(" -0.0", " 0.0");
            match change.split_at(2) {
                ("+I" | "+U", row) => live.push(row.to_owned()),
                (_, row) if spec.generate_update_before || change.starts_with("-D") => {
                    let position = live.iter().position(|other| other == row);
                    if spec.generate_update_before {
                        prop_assert!(position.is_some(), "{} retracts what is not there", change);
                    }
                    position.map(|position| live.swap_remove(position));
                }
                _ => {}
            }
        }
        if spec.generate_update_before {
            prop_assert!(live.is_empty(), "left: {:?}", live);
        }
        prop_assert_eq!(rows.is_empty(), run(&spec, &rows, &sizes).is_empty());
    }
}
