//! What stays on Flink, and why.

use super::*;

fn reason(spec: &node::OverAggregate, attribute: TimeAttribute, backend: StateBackend) -> String {
    supports(spec, &input_type(attribute), backend).map_or_else(|reason| reason.to_string(), |()| "native".to_owned())
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
    use StateBackend::{Hashmap, RocksDb};
    use TimeAttribute::{Proctime, Regular, Rowtime};
    let cases = [
        (&sum(rows, 5), Rowtime, Hashmap, "native"),
        (&sum(rows, 0), Regular, RocksDb, "sorted by another column than a time attribute"),
        (&floats, Rowtime, Hashmap, "depends on a hash map of Flink's heap state backend"),
        (&floats, Rowtime, RocksDb, "native"),
        (&distinct(5), Proctime, Hashmap, "but not the values that it has seen"),
        (&distinct(0), Proctime, Hashmap, "native"),
        (&distinct(5), Rowtime, Hashmap, "native"),
        (&version, Rowtime, Hashmap, "version 1 of Flink's unbounded OVER window"),
        (&version, Proctime, Hashmap, "native"),
        (&listagg, Rowtime, Hashmap, "the aggregate function LISTAGG is not supported natively"),
        (&lag(rows, &[TEXT, TWO, X]), Proctime, Hashmap, "native"),
        (&lag(range, &[LONG]), Rowtime, Hashmap, "Flink has no LAG over a window that rows leave"),
        (&lag(rows, &[LONG, LONG]), Rowtime, Hashmap, "an offset or a default that differs from row to row"),
        (&lag(rows, &[LONG, X]), Rowtime, Hashmap, "an offset that is no INT"),
        (&lag(rows, &[LONG, TWO, X]), Rowtime, Hashmap, "a default of another type than its value"),
        (&not_null, Rowtime, Hashmap, "with a default that may not"),
        (&negative, Rowtime, Hashmap, "a negative offset"),
        (&rank(OverFrame::UnboundedRange), Rowtime, Hashmap, "native"),
        (&rank(range), Rowtime, Hashmap, "Flink has no RANK over such a window"),
        (&none, Proctime, Hashmap, "Flink drops rows before they are aggregated"),
        (&none, Rowtime, Hashmap, "native"),
        (&many, Rowtime, Hashmap, "more rows than a number has"),
    ];
    for (spec, attribute, backend, expected) in cases {
        let reason = reason(spec, attribute, backend);
        assert!(reason.contains(expected), "{reason}, not {expected}");
    }
}
