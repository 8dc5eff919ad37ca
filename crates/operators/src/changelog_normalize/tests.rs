#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use streamfusion_plan::node;
use streamfusion_plan::rex::{Function, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_state::StateContext;

use super::{ChangelogNormalize, supports};
use crate::Operator;
use crate::row_per_key::testing::{
    Factory, Job, Row, Store, check, check_every_restore, cuts, input_type, key_of, row, rows,
};

fn spec(keys: &[usize]) -> node::ChangelogNormalize {
    node::ChangelogNormalize {
        unique_keys: keys.to_vec(),
        generate_update_before: true,
        filter: None,
        ttl_ms: 0,
        mini_batch_size: None,
    }
}

/// The row time is at least 0.
fn filter() -> Rex {
    let is_not_null = |index: usize| Rex::Call {
        function: Function::BuiltIn { name: "IS NOT NULL".to_owned(), version: 1 },
        operands: vec![Rex::InputRef { index, ty: input_type().fields()[index].ty.clone() }],
        ty: LogicalType { kind: TypeKind::Boolean, nullable: false },
    };
    is_not_null(1)
}

fn passes(row: &Row) -> bool {
    row.text.is_some()
}

/// DeduplicateFunctionHelper.processLastRowOnChangelog(WithFilter), row by row.
fn model(spec: &node::ChangelogNormalize, rows: &[Row]) -> Vec<String> {
    let mut state: Store<Row> = Store::new(spec.ttl_ms);
    let mut out = Vec::new();
    for row in rows {
        let (key, now) = (key_of(row, &spec.unique_keys), row.arrives);
        let passes = spec.filter.is_none() || passes(row);
        let pre = state.get(&key, now);
        if row.kind == 0 || row.kind == 2 {
            match pre {
                None if !passes => continue,
                None => out.push(row.show("+I")),
                Some(pre) if spec.ttl_ms == 0 && pre.same(row) => continue,
                Some(pre) if !passes => {
                    out.push(pre.show("-D"));
                    state.clear(&key);
                    continue;
                }
                Some(pre) => {
                    if spec.generate_update_before {
                        out.push(pre.show("-U"));
                    }
                    out.push(row.show("+U"));
                }
            }
            state.update(&key, row.clone(), now);
        } else if let Some(pre) = pre {
            out.push(pre.show("-D"));
            state.clear(&key);
        }
    }
    out
}

fn run(spec: &node::ChangelogNormalize, rows: &[Row], sizes: &[usize]) -> Vec<String> {
    let factory = factory(spec);
    let mut out = Vec::new();
    Job::open(&factory, &spec.unique_keys, 1).push(rows, sizes, &mut out);
    out
}

fn factory(spec: &node::ChangelogNormalize) -> impl Fn(&StateContext) -> Box<dyn Operator> {
    move |context| Box::new(ChangelogNormalize::try_new(spec, &input_type(), context).unwrap())
}

#[test]
fn replacements_become_updates_and_deletes_have_the_row_that_was_kept() {
    let input = [
        row("+I", 1, "a", 0),
        row("+I", 1, "b", 0),
        row("+U", 1, "b", 0),
        row("-U", 1, "only the key counts", 9),
        row("-D", 1, "", 0),
        row("+U", 1, "c", 0),
        row("-D", 2, "never seen", 0),
    ];
    let expected = ["+I 1 a 1.5 0", "-U 1 a 1.5 0", "+U 1 b 1.5 0", "-D 1 b 1.5 0", "+I 1 c 1.5 0"];
    for sizes in [&[][..], &[7], &[2, 3]] {
        assert_eq!(run(&spec(&[0]), &input, sizes), expected);
    }
}

#[test]
fn keys_that_are_gone_take_no_memory() {
    let keys: Vec<Row> = (0..5000).map(|key| row("+I", key, "some text that takes memory", 0)).collect();
    let gone: Vec<Row> = keys.iter().map(|key| Row { kind: 3, ..key.clone() }).collect();
    let spec = spec(&[0]);
    let mut operator =
        ChangelogNormalize::try_new(&spec, &input_type(), &crate::row_per_key::testing::context()).unwrap();
    for rows in [&keys, &gone] {
        operator.push(crate::row_per_key::testing::batch(rows)).unwrap();
        crate::row_per_key::testing::drain(&mut operator, &mut Vec::new());
    }
    assert!(operator.state.table.is_empty());
    assert!(operator.state.frame.num_rows() == 0);
}

#[test]
fn mini_batch_is_refused() {
    let spec = node::ChangelogNormalize { mini_batch_size: Some(5), ..spec(&[0]) };
    assert!(supports(&spec, &input_type()).is_err_and(|reason| reason.to_string().contains("mini-batch")));
}

#[test]
fn restore_at_every_row_of_one_input() {
    let kind = |i: i64| if i % 5 == 4 { "-D" } else { "+U" };
    let input: Vec<Row> = (0..40).map(|i| row(kind(i), i % 3, ["x", "y"][(i / 4 % 2) as usize], i % 7)).collect();
    for keys in [&[0][..], &[0, 1], &[]] {
        let spec = spec(keys);
        let factory: Factory<'_> = &factory(&spec);
        check_every_restore(factory, keys, &input, &model(&spec, &input));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn changelog_is_that_of_flinks_function(
        rows in rows(0_u8..4),
        keys in prop::sample::select(vec![vec![0], vec![0, 1], vec![1], vec![]]),
        generate_update_before: bool,
        filtered: bool,
        ttl_ms in prop::sample::select(vec![0_i64, 0, 8]),
        cuts in cuts(),
    ) {
        let filter = filtered.then(filter);
        let spec = node::ChangelogNormalize { generate_update_before, filter, ttl_ms, ..spec(&keys) };
        check(&factory(&spec), &keys, &rows, &cuts, &model(&spec, &rows))?;
    }
}
