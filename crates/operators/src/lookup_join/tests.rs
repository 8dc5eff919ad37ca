//! A lookup of numbers, against the pairs that it finds row by row.

use arrow::array::{Int64Array, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use streamfusion_expr::error::ExprError;
use streamfusion_expr::host::Found;

use super::*;

/// Finds for a number `n` the rows `10 n`, `10 n + 1` and so on, `n` of them.
#[derive(Debug)]
struct Digits {
    /// Rows that are looked up at once.
    at_once: usize,
    /// Rows of what is found in one piece.
    piece: usize,
}

fn found(n: i64) -> impl Iterator<Item = i64> {
    (0..n).map(move |digit| 10 * n + digit)
}

impl HostFunction for Digits {
    fn call(&self, _: &RecordBatch) -> Result<ArrayRef, ExprError> {
        Err(ExprError::TooLarge)
    }

    fn lookup(&self, input: &RecordBatch, from: usize) -> Result<Found, ExprError> {
        let numbers = input.column(0).as_primitive::<Int64Type>();
        let end = (from + self.at_once).min(numbers.len());
        let numbers: Vec<i64> = (from..end).map(|row| numbers.value(row)).collect();
        let all: Vec<i64> = numbers.iter().flat_map(|n| found(*n)).collect();
        let piece = |rows: &[i64]| {
            let column: ArrayRef = Arc::new(Int64Array::from(rows.to_vec()));
            Ok(RecordBatch::try_from_iter([("found", column)])?)
        };
        Ok(Found {
            matches: numbers.iter().map(|n| found(*n).count()).collect(),
            rows: all.chunks(self.piece).map(piece).collect::<Result<_, ExprError>>()?,
        })
    }
}

/// The numbers, a column that nobody reads and a text, with kinds if `kinds`.
fn batch(numbers: &[i64], kinds: bool) -> Result<Batch, OperatorError> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(numbers.to_vec())),
        Arc::new(NullArray::new(numbers.len())),
        Arc::new(StringArray::from_iter_values(numbers.iter().map(|n| format!("t{n}")))),
    ];
    let kinds = kinds.then(|| UInt8Array::from_iter_values(numbers.iter().map(|n| u8::try_from(n % 4).unwrap_or(0))));
    Ok(Batch::try_new(columns, numbers.len(), kinds)?)
}

fn rows(batches: &[Batch]) -> Vec<(u8, i64, String, i64)> {
    let mut rows = Vec::new();
    for batch in batches {
        let numbers = batch.columns()[0].as_primitive::<Int64Type>();
        assert_eq!((batch.columns().len(), batch.columns()[1].data_type()), (4, &DataType::Null));
        for row in 0..batch.num_rows() {
            let kind = batch.kinds().map_or(0, |kinds| kinds.value(row));
            let text = batch.columns()[2].as_string::<i32>().value(row).to_owned();
            rows.push((kind, numbers.value(row), text, batch.columns()[3].as_primitive::<Int64Type>().value(row)));
        }
    }
    rows
}

fn run(digits: Digits, batches: impl IntoIterator<Item = Batch>) -> Result<Vec<Batch>, OperatorError> {
    let mut join = LookupJoin::new(Arc::new(digits), 1);
    let mut out = Vec::new();
    for batch in batches {
        join.push(batch)?;
        while let Some(batch) = join.pull()? {
            assert!(batch.num_rows() > 0);
            out.push(batch);
        }
    }
    Ok(out)
}

proptest! {
    #[test]
    fn neither_cuts_of_batches_nor_of_what_is_found_matter(
        numbers in prop::collection::vec(0..5_i64, 0..60),
        cuts in 1..20_usize,
        at_once in 1..20_usize,
        piece in 1..9_usize,
        kinds: bool,
    ) {
        let batches = numbers.chunks(cuts).map(|part| batch(part, kinds)).collect::<Result<Vec<_>, _>>()?;
        let joined = rows(&run(Digits { at_once, piece }, batches)?);
        let kind = |n: i64| if kinds { u8::try_from(n % 4).unwrap_or(0) } else { 0 };
        let expected: Vec<_> =
            numbers.iter().flat_map(|n| found(*n).map(move |found| (kind(*n), *n, format!("t{n}"), found))).collect();
        prop_assert_eq!(joined, expected);
    }
}

#[test]
fn one_match_per_row_moves_nothing() -> Result<(), OperatorError> {
    let input = batch(&[1; 9], true)?;
    let out = run(Digits { at_once: 100, piece: 100 }, [input.clone()])?;
    assert_eq!(out.len(), 1);
    assert!(Arc::ptr_eq(&out[0].columns()[2], &input.columns()[2]));
    Ok(())
}

#[test]
fn a_lookup_that_counts_wrongly_fails() -> Result<(), OperatorError> {
    #[derive(Debug)]
    struct Wrong(Vec<usize>);
    impl HostFunction for Wrong {
        fn call(&self, _: &RecordBatch) -> Result<ArrayRef, ExprError> {
            Err(ExprError::TooLarge)
        }

        fn lookup(&self, _: &RecordBatch, _: usize) -> Result<Found, ExprError> {
            Ok(Found { matches: self.0.clone(), rows: Vec::new() })
        }
    }
    for matches in [vec![], vec![1, 0], vec![0; 3]] {
        let mut join = LookupJoin::new(Arc::new(Wrong(matches)), 1);
        join.push(batch(&[1, 2], false)?)?;
        assert!(join.pull().is_err());
    }
    Ok(())
}
