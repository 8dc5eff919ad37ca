//! Filtering, projection, and batches whose results are large.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Mutex;

use arrow::array::{BooleanArray, Int32Array, Int64Array, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use streamfusion_plan::rex::{Function, Literal};
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::*;

fn column(index: usize, kind: TypeKind) -> Rex {
    Rex::InputRef { index, ty: LogicalType { kind, nullable: true } }
}

fn calc(condition: Option<Rex>) -> Result<Calc, OperatorError> {
    let spec = node::Calc { projection: vec![column(1, TypeKind::BigInt)], condition };
    Calc::try_new(&spec, &|_| None)
}

fn batch() -> Result<Batch, OperatorError> {
    let passes: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]));
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let unread: ArrayRef = Arc::new(NullArray::new(4));
    Ok(Batch::try_new(vec![passes, ids, unread], 4, Some(UInt8Array::from(vec![0, 0, 3, 3])))?)
}

#[test]
fn rows_and_kinds_are_filtered_alike_and_null_does_not_pass() -> Result<(), OperatorError> {
    let mut calc = calc(Some(column(0, TypeKind::Boolean)))?;
    calc.push(batch()?)?;
    let out = calc.pull()?.ok_or(OperatorError::Internal("no output".into()))?;
    assert_eq!(out.columns()[0].as_primitive::<Int64Type>().values(), &[1, 4]);
    assert_eq!(out.kinds().map(|kinds| kinds.values().to_vec()), Some(vec![0, 3]));
    assert!(calc.pull()?.is_none());
    Ok(())
}

#[test]
fn column_without_condition_is_not_copied() -> Result<(), OperatorError> {
    let mut calc = calc(None)?;
    let batch = batch()?;
    calc.push(batch.clone())?;
    let out = calc.pull()?.ok_or(OperatorError::Internal("no output".into()))?;
    assert!(Arc::ptr_eq(&out.columns()[0], &batch.columns()[1]));
    Ok(())
}

#[test]
fn no_row_passes_no_batch_leaves() -> Result<(), OperatorError> {
    let mut calc = calc(Some(column(0, TypeKind::Boolean)))?;
    let none: ArrayRef = Arc::new(BooleanArray::from(vec![false]));
    calc.push(Batch::try_new(vec![none, Arc::new(Int64Array::from(vec![1]))], 1, None)?)?;
    assert!(calc.pull()?.is_none());
    Ok(())
}

const TEXT: TypeKind = TypeKind::VarChar(i32::MAX as u32);

fn call(name: &str, operands: Vec<Rex>, kind: TypeKind) -> Rex {
    let function = Function::BuiltIn { name: name.to_owned(), version: 1 };
    Rex::Call { function, operands, ty: LogicalType { kind, nullable: true } }
}

fn literal(value: Literal, kind: TypeKind) -> Rex {
    Rex::Literal { value, ty: LogicalType { kind, nullable: true } }
}

fn int(value: i64) -> Rex {
    literal(Literal::Integer(value), TypeKind::Integer)
}

/// REPEAT of the text in column 0.
fn repeat(count: Rex) -> Rex {
    call("REPEAT", vec![column(0, TEXT), count], TEXT)
}

fn projecting(projection: Vec<Rex>) -> Result<Calc, OperatorError> {
    Calc::try_new(&node::Calc { projection, condition: None }, &|_| None)
}

/// Texts and numbers.
fn texts(texts: &[&str], numbers: &[i32]) -> Result<Batch, OperatorError> {
    let numbers: ArrayRef = Arc::new(Int32Array::from(numbers.to_vec()));
    let kinds = UInt8Array::from_iter_values((0..4).cycle().take(texts.len()));
    Ok(Batch::try_new(vec![Arc::new(StringArray::from(texts.to_vec())), numbers], texts.len(), Some(kinds))?)
}

/// The output of a Calc.
#[derive(Default)]
struct Pulled {
    /// Column 0.
    texts: Vec<String>,
    kinds: Vec<u8>,
    /// Rows of each batch.
    sizes: Vec<usize>,
}

fn pull_all(calc: &mut Calc) -> Result<Pulled, OperatorError> {
    let mut pulled = Pulled::default();
    while let Some(batch) = calc.pull()? {
        let column = batch.columns()[0].as_string::<i32>();
        pulled.texts.extend(column.iter().map(|text| text.unwrap_or("NULL").to_owned()));
        pulled.kinds.extend(batch.kinds().unwrap().values());
        pulled.sizes.push(batch.num_rows());
    }
    Ok(pulled)
}

#[test]
fn text_that_grows_leaves_in_several_batches() -> Result<(), OperatorError> {
    let input = texts(&["0123456789"; 200], &(0..200).map(|i| i * 100).collect::<Vec<_>>())?;
    let long = literal(Literal::String("x".repeat(100_000)), TypeKind::Char(100_000));
    let pad = call("LPAD", vec![column(0, TEXT), int(100_000), column(0, TEXT)], TEXT);
    let hidden = call("CHAR_LENGTH", vec![repeat(int(10_000))], TypeKind::Integer);
    for (projection, least) in [
        (vec![repeat(column(1, TypeKind::Integer))], 5),
        (vec![repeat(int(10_000))], 5),
        (vec![long], 5),
        (vec![pad.clone()], 5),
        (vec![call("||", vec![pad.clone(), pad], TEXT)], 15),
        (vec![column(0, TEXT), hidden], 5),
        (vec![call("||", vec![column(0, TEXT), column(0, TEXT)], TEXT)], 1),
    ] {
        let mut calc = projecting(projection.clone())?;
        calc.push(input.clone())?;
        let Pulled { texts, kinds, sizes } = pull_all(&mut calc)?;
        assert_eq!(kinds, input.kinds().unwrap().values().to_vec());
        assert!(sizes.len() >= least && sizes.len() <= 8 * least, "{} batches for {projection:?}", sizes.len());
        let mut whole = Vec::new();
        for row in 0..200 {
            let mut calc = projecting(projection.clone())?;
            calc.push(slice(&input, row, 1)?)?;
            whole.extend(pull_all(&mut calc)?.texts);
        }
        assert!(texts == whole);
    }
    Ok(())
}

/// Passes column 0 on and counts the rows it sees.
#[derive(Debug)]
struct Passes(Arc<Mutex<Vec<usize>>>);

impl HostFunction for Passes {
    fn call(&self, input: &RecordBatch) -> Result<ArrayRef, ExprError> {
        self.0.lock().unwrap().push(input.num_rows());
        Ok(Arc::clone(input.column(0)))
    }
}

#[test]
fn jvm_expression_sees_each_row_once() -> Result<(), OperatorError> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let host: Arc<dyn HostFunction> = Arc::new(Passes(Arc::clone(&seen)));
    let function = Function::User("F".to_owned());
    let ty = LogicalType { kind: TEXT, nullable: true };
    let user = Rex::Call { function, operands: vec![column(0, TEXT)], ty };
    let calc = |count: Rex| {
        let projection = vec![call("REPEAT", vec![user.clone(), count], TEXT)];
        Calc::try_new(&node::Calc { projection, condition: None }, &|pointer| {
            (pointer == "/projection/0/operands/0").then(|| Arc::clone(&host))
        })
    };
    let mut large = calc(int(10_000))?;
    large.push(texts(&["0123456789"; 200], &[0; 200])?)?;
    let sizes = pull_all(&mut large)?.sizes;
    assert!(sizes.len() >= 5);
    assert_eq!(*seen.lock().unwrap(), sizes);
    // A size that nobody foresaw fails: the rows must not be evaluated again.
    let number = column(1, TypeKind::Integer);
    let mut unforeseen = calc(call("+", vec![number, int(0)], TypeKind::Integer))?;
    unforeseen.push(texts(&["a", "b", "c"], &[1, 1, i32::MAX])?)?;
    assert_eq!(unforeseen.pull().unwrap_err(), OperatorError::Expr(ExprError::TooLarge));
    Ok(())
}

/// Makes 100,000 bytes of every row that says "long".
#[derive(Debug)]
struct Lengthens;

impl HostFunction for Lengthens {
    fn call(&self, input: &RecordBatch) -> Result<ArrayRef, ExprError> {
        let texts = input.column(0).as_string::<i32>();
        Ok(Arc::new(
            texts
                .iter()
                .flatten()
                .map(|t| Some(t.repeat(if t == "long" { 25_000 } else { 1 })))
                .collect::<StringArray>(),
        ))
    }
}

#[test]
fn jvm_expression_gets_as_many_rows_as_its_results_allow() -> Result<(), OperatorError> {
    let host: Arc<dyn HostFunction> = Arc::new(Lengthens);
    let ty = LogicalType { kind: TEXT, nullable: true };
    let user = Rex::Call { function: Function::User("F".to_owned()), operands: vec![column(0, TEXT)], ty };
    let spec = node::Calc { projection: vec![user], condition: None };
    let mut calc = Calc::try_new(&spec, &|_| Some(Arc::clone(&host)))?;
    calc.push(texts(&["long"; 1000], &[0; 1000])?)?;
    let Pulled { texts: long, sizes, .. } = pull_all(&mut calc)?;
    assert_eq!((long.len(), sizes[0]), (1000, FIRST_PIECE_ROWS));
    assert!(sizes[1..].iter().all(|size| size * 100_000 <= 2 * OUTPUT_BATCH_BYTES), "{sizes:?}");
    for _ in 0..10 {
        calc.push(texts(&["short"; 1000], &[0; 1000])?)?;
        pull_all(&mut calc)?;
    }
    calc.push(texts(&["short"; 1000], &[0; 1000])?)?;
    assert_eq!(pull_all(&mut calc)?.sizes, [1000]);
    Ok(())
}

#[test]
fn size_that_was_not_foreseen_is_met_by_halves() -> Result<(), OperatorError> {
    let computed = call("+", vec![column(1, TypeKind::Integer), int(0)], TypeKind::Integer);
    let mut calc = projecting(vec![repeat(computed)])?;
    calc.push(texts(&["a", "b", "é"], &[2, 3, 1 << 30])?)?;
    let first = calc.pull()?.ok_or(OperatorError::Internal("no output".into()))?;
    assert_eq!(first.columns()[0].as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["aa", "bbb"]);
    // This one does not fit alone.
    assert_eq!(calc.pull().unwrap_err(), OperatorError::Expr(ExprError::TooLarge));
    Ok(())
}

#[test]
fn padding_that_a_condition_excludes_does_not_fail() -> Result<(), OperatorError> {
    let number = || column(1, TypeKind::Integer);
    let short = call("<", vec![number(), int(100)], TypeKind::Boolean);
    let pad = call("RPAD", vec![column(0, TEXT), number(), column(0, TEXT)], TEXT);
    let mut calc = projecting(vec![call("CASE", vec![short, pad, column(0, TEXT)], TEXT)])?;
    calc.push(texts(&["é", "b", "c"], &[2, i32::MAX, 3])?)?;
    assert_eq!(pull_all(&mut calc)?.texts, ["éé", "b", "ccc"]);
    Ok(())
}
