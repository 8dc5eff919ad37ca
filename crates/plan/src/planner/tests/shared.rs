//! Rows of one Flink operator that several chains read.

use super::*;

/// A Calc with work to do that reads one column of [`ROW`].
fn reading(id: i64, column_number: usize, ty: &str, input: i64) -> (Value, Vec<i64>) {
    let mut sum = column(0, "BIGINT");
    for _ in 0..20 {
        sum = call("+", json!([sum, column(0, "BIGINT")]), "BIGINT");
    }
    let output = format!("ROW<`a` BIGINT, `b` {ty}>");
    node(id, "calc", &output, json!({"projection": [sum, column(column_number, ty)], "condition": null}), &[input])
}

#[test]
fn rows_that_several_chains_read_become_batches_once() -> TestResult {
    let nodes = vec![
        source(1, ROW),
        reading(2, 1, "BIGINT", 1),
        aggregate(3, 2),
        sink(4, 3),
        reading(5, 2, "VARCHAR(9)", 1),
        sink(6, 5),
    ];
    let plan = plan(nodes)?;
    let expected = ["rows of 1 -> [] @1 -> batches", "stage 0 -> [2 3] @3 -> rows", "stage 0 -> [5] @5 -> rows"];
    assert_eq!(shorts(&plan), expected);
    // what either reads, and nothing else
    assert_eq!(plan.stages[0].inputs[0].reads, [Read, Read, Read, Skip]);
    Ok(())
}

#[test]
fn rows_for_one_chain_and_for_flink_enter_with_the_chain() -> TestResult {
    let nodes = vec![source(1, PAIR), busy(2, 1), sink(3, 2), other(4, 1), sink(5, 4)];
    assert_eq!(shorts(&plan(nodes)?), ["rows of 1 -> [2] @2 -> rows"]);
    Ok(())
}

#[test]
fn a_union_takes_rows_in_its_own_form() -> TestResult {
    let nodes = vec![
        source(1, PAIR),
        source(2, PAIR),
        union(3, &[1, 2]),
        busy(4, 3),
        sink(5, 4),
        busy(6, 1),
        sink(7, 6),
        busy(8, 1),
        sink(9, 8),
    ];
    let expected = [
        "rows of 1, rows of 2 -> [3 4] @4 -> rows",
        "rows of 1 -> [] @1 -> batches",
        "stage 1 -> [6] @6 -> rows",
        "stage 1 -> [8] @8 -> rows",
    ];
    assert_eq!(shorts(&plan(nodes)?), expected);
    Ok(())
}
