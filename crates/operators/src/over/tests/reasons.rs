//! What stays on Flink, and why.

use super::*;

fn reason(spec: &node::OverAggregate, attribute: TimeAttribute, order: RetractOrder) -> String {
    supports(spec, &input_type(attribute), order).map_or_else(|reason| reason.to_string(), |()| "native".to_owned())
}

#[test]
fn what_is_not_exact_stays_on_flink() {
    let (rows, range) = (OverFrame::UnboundedRows, OverFrame::Range { preceding_ms: 9 });
    let sum = |frame, ttl| spec(frame, ttl, vec![call("SUM", &[LONG], false)]);
    let floats = spec(range, 0, vec![call("$SUM0", &[DOUBLE], false)]);
    let distinct = |ttl| spec(rows, ttl, vec![call("COUNT", &[LONG], true)]);
    let version = node::OverAggregate { unbounded_version: 1, ..sum(rows, 0) };
    let listagg = spec(rows, 0, vec![AggCall { ..call("MAX", &[TEXT], false) }]);
    let mut listagg = listagg;
    listagg.calls[0].function = Function::BuiltIn { name: "LISTAGG".to_owned(), version: 1 };
    let lag = |frame, args: &[usize]| spec(frame, 0, vec![call("LAG", args, false)]);
    let mut negative = lag(rows, &[LONG, TWO]);
    negative.constants[0].value = Literal::Integer(-1);
    let mut not_null = lag(rows, &[TEXT, TWO, X]);
    not_null.calls[0].ty.nullable = false;
    let rank = |frame| spec(frame, 0, vec![call("RANK", &[], false)]);
    let none = sum(OverFrame::Range { preceding_ms: 0 }, 0);
    let many = sum(OverFrame::Rows { preceding: i64::MAX }, 0);
    use RetractOrder::{ByTime, Hashed};
    use TimeAttribute::{Proctime, Regular, Rowtime};
    let cases = [
        (&sum(rows, 5), Rowtime, Hashed, "native"),
        (&sum(rows, 0), Regular, ByTime, "sorted by another column than a time attribute"),
        (&floats, Rowtime, Hashed, "depends on a hash map of Flink's heap state backend"),
        (&floats, Rowtime, ByTime, "native"),
        (&distinct(5), Proctime, Hashed, "but not the values that it has seen"),
        (&distinct(0), Proctime, Hashed, "native"),
        (&distinct(5), Rowtime, Hashed, "native"),
        (&version, Rowtime, Hashed, "version 1 of Flink's unbounded OVER window"),
        (&version, Proctime, Hashed, "native"),
        (&listagg, Rowtime, Hashed, "the aggregate function LISTAGG is not supported natively"),
        (&lag(rows, &[TEXT, TWO, X]), Proctime, Hashed, "native"),
        (&lag(range, &[LONG]), Rowtime, Hashed, "Flink has no LAG over a window that rows leave"),
        (&lag(rows, &[LONG, LONG]), Rowtime, Hashed, "an offset or a default that differs from row to row"),
        (&lag(rows, &[LONG, X]), Rowtime, Hashed, "an offset that is no INT"),
        (&lag(rows, &[LONG, TWO, X]), Rowtime, Hashed, "a default of another type than its value"),
        (&not_null, Rowtime, Hashed, "with a default that may not"),
        (&negative, Rowtime, Hashed, "a negative offset"),
        (&rank(OverFrame::UnboundedRange), Rowtime, Hashed, "native"),
        (&rank(range), Rowtime, Hashed, "Flink has no RANK over such a window"),
        (&none, Proctime, Hashed, "Flink drops rows before they are aggregated"),
        (&none, Rowtime, Hashed, "native"),
        (&many, Rowtime, Hashed, "more rows than a number has"),
    ];
    for (spec, attribute, order, expected) in cases {
        let reason = reason(spec, attribute, order);
        assert!(reason.contains(expected), "{reason}, not {expected}");
    }
}
