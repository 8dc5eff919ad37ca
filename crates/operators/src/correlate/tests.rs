#![allow(clippy::unwrap_used)]

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array, Int64Array, UInt8Array};
use arrow::datatypes::{Int32Type, Int64Type};
use proptest::prelude::*;
use streamfusion_plan::node::{JoinType, Ordinality};
use streamfusion_plan::rex::{Function, Literal, Rex};
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::collection::testing::{Value, array, map, row};

use super::*;

fn nullable(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn int() -> LogicalType {
    nullable(TypeKind::Integer)
}

fn spec(kind: TypeKind, join_type: JoinType, ordinality: Ordinality, condition: Option<Rex>) -> node::Correlate {
    let collection = Rex::InputRef { index: 1, ty: nullable(kind) };
    node::Correlate { join_type, collection, ordinality, condition }
}

/// The first column of the element is greater than 1.
fn greater_than_one() -> Rex {
    let one = Rex::Literal { value: Literal::Integer(1), ty: int() };
    let function = Function::BuiltIn { name: ">".to_owned(), version: 1 };
    Rex::Call { function, operands: vec![Rex::InputRef { index: 0, ty: int() }, one], ty: nullable(TypeKind::Boolean) }
}

fn batch(collections: &[Option<Vec<u8>>], first: i64) -> Batch {
    let rows = collections.len();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((first..).take(rows)));
    let collections: ArrayRef = Arc::new(collections.iter().cloned().collect::<BinaryArray>());
    let kinds: Vec<u8> = (first..).take(rows).map(|row| (row % 4) as u8).collect();
    Batch::try_new(vec![numbers, collections], rows, Some(UInt8Array::from(kinds))).unwrap()
}

/// Row number, row kind, and the columns of the element, all INT.
type Row = (i64, u8, Vec<Option<i32>>);

fn rows(batch: &Batch) -> Vec<Row> {
    let numbers = batch.columns()[0].as_primitive::<Int64Type>();
    let elements: Vec<&Int32Array> = batch.columns()[2..].iter().map(|c| c.as_primitive::<Int32Type>()).collect();
    let element = |row| elements.iter().map(|c| c.is_valid(row).then(|| c.value(row))).collect();
    let kind = |row| batch.kinds().map_or(0, |kinds| kinds.value(row));
    (0..batch.num_rows()).map(|row| (numbers.value(row), kind(row), element(row))).collect()
}

/// Pushes `collections` in batches of these sizes.
fn run(
    spec: &node::Correlate,
    collections: &[Option<Vec<u8>>],
    cuts: &[usize],
    limits: Limits,
) -> Result<Vec<Row>, OperatorError> {
    let mut operator = Correlate::try_new(spec, &|_| None)?;
    operator.limits = limits;
    let mut out = Vec::new();
    let (mut from, mut cuts) = (0, cuts.iter().copied().chain(std::iter::repeat(collections.len().max(1))));
    while from < collections.len() {
        let to = (from + cuts.next().unwrap().max(1)).min(collections.len());
        operator.push(batch(&collections[from..to], from as i64))?;
        while let Some(batch) = operator.pull()? {
            assert!(batch.num_rows() > 0 && batch.num_rows() <= limits.output_rows + collections.len());
            out.extend(rows(&batch));
        }
        from = to;
    }
    Ok(out)
}

/// What comes of the elements of each row, numbered from 1.
fn model(elements: &[Vec<Vec<Option<i32>>>], spec: &node::Correlate) -> Vec<Row> {
    let width = spec.element_columns().unwrap().len();
    let mut out = Vec::new();
    for (number, elements) in elements.iter().enumerate() {
        let before = out.len();
        let kind = (number % 4) as u8;
        for (ordinal, element) in elements.iter().enumerate() {
            let mut columns = element.clone();
            if spec.ordinality == Ordinality::Numbered {
                columns.push(Some(ordinal as i32 + 1));
            }
            if spec.condition.is_none() || columns[0].is_some_and(|value| value > 1) {
                out.push((number as i64, kind, columns));
            }
        }
        if out.len() == before && spec.join_type == JoinType::Left {
            out.push((number as i64, kind, vec![None; width]));
        }
    }
    out
}

/// A collection of each kind with these numbers, and its elements as [`model`] takes them; `None` is a NULL collection.
fn collection(kind: usize, numbers: Option<&[Option<i32>]>) -> (Option<Vec<u8>>, Vec<Vec<Option<i32>>>) {
    let Some(numbers) = numbers else { return (None, Vec::new()) };
    let ints: Vec<_> = numbers.iter().map(|number| number.map(Value::from)).collect();
    match kind {
        0 => (Some(array(4, &ints)), numbers.iter().map(|number| vec![*number]).collect()),
        1 => {
            // an element is there as often as its number says
            let counts =
                array(4, &numbers.iter().map(|n| Some(n.unwrap_or(1).rem_euclid(4).into())).collect::<Vec<_>>());
            let elements = numbers.iter().flat_map(|n| {
                let count = n.unwrap_or(1).rem_euclid(4);
                (0..count).map(move |_| vec![*n])
            });
            (Some(map(&array(4, &ints), &counts)), elements.collect())
        }
        2 => {
            let values: Vec<_> = ints.iter().cloned().rev().collect();
            let elements = numbers.iter().zip(numbers.iter().rev()).map(|(key, value)| vec![*key, *value]);
            (Some(map(&array(4, &ints), &array(4, &values))), elements.collect())
        }
        _ => {
            let rows: Vec<_> =
                ints.iter().map(|value| Some(Value::Nested(row(&[value.clone(), Some(5.into())])))).collect();
            (Some(array(8, &rows)), numbers.iter().map(|number| vec![*number, Some(5)]).collect())
        }
    }
}

fn kind(kind: usize) -> TypeKind {
    let field = |name: &str| Field { name: name.to_owned(), ty: int() };
    match kind {
        0 => TypeKind::Array(int().into()),
        1 => TypeKind::Multiset(int().into()),
        2 => TypeKind::Map(int().into(), int().into()),
        _ => TypeKind::Array(nullable(TypeKind::Row([field("a"), field("b")].into())).into()),
    }
}

proptest! {
    /// Wherever rows are cut into batches, and output into pieces, the rows are those of a model that takes one row at a time.
    #[test]
    fn batch_cuts_do_not_matter(
        which in 0usize..4, left: bool, numbered: bool, conditional: bool,
        numbers in prop::collection::vec(prop::option::of(prop::collection::vec(prop::option::of(-1i32..5), 0..6)), 0..20),
        cuts in prop::collection::vec(1usize..5, 0..10), output_rows in 1usize..8,
    ) {
        let join_type = if left { JoinType::Left } else { JoinType::Inner };
        let ordinality = if numbered { Ordinality::Numbered } else { Ordinality::Without };
        let spec = spec(kind(which), join_type, ordinality, conditional.then(greater_than_one));
        let (collections, elements): (Vec<_>, Vec<_>) =
            numbers.iter().map(|numbers| collection(which, numbers.as_deref())).unzip();
        let found = run(&spec, &collections, &cuts, Limits { output_rows, ..Limits::default() }).unwrap();
        prop_assert_eq!(found, model(&elements, &spec));
    }
}

fn array_of_rows(fields: usize, rows: &[Option<i32>]) -> (TypeKind, Vec<u8>) {
    let field = |name: usize| Field { name: name.to_string(), ty: int() };
    let kind = TypeKind::Array(nullable(TypeKind::Row((0..fields).map(field).collect())).into());
    let value = |number: &i32| Value::Nested(row(&vec![Some((*number).into()); fields]));
    (kind, array(8, &rows.iter().map(|number| number.as_ref().map(value)).collect::<Vec<_>>()))
}

#[test]
fn a_null_row_is_left_out() -> Result<(), OperatorError> {
    let (kind, rows) = array_of_rows(2, &[None, Some(3), None]);
    let (_, only_null) = array_of_rows(2, &[None]);
    let collections = [Some(rows), Some(only_null)];
    let spec = spec(kind, JoinType::Left, Ordinality::Without, None);
    let expected = vec![(0, 0, vec![Some(3), Some(3)]), (1, 1, vec![None, None])];
    assert_eq!(run(&spec, &collections, &[], Limits::default())?, expected);
    Ok(())
}

#[test]
fn with_a_number_a_null_row_of_one_field_stays_and_others_fail() -> Result<(), OperatorError> {
    let (kind, rows) = array_of_rows(1, &[None, Some(3)]);
    let numbered = spec(kind, JoinType::Inner, Ordinality::Numbered, None);
    let expected = vec![(0, 0, vec![None, Some(1)]), (0, 0, vec![Some(3), Some(2)])];
    assert_eq!(run(&numbered, &[Some(rows)], &[], Limits::default())?, expected);
    let (kind, rows) = array_of_rows(2, &[None]);
    let numbered = spec(kind, JoinType::Inner, Ordinality::Numbered, None);
    let failure = run(&numbered, &[Some(rows)], &[], Limits::default()).unwrap_err();
    assert_eq!(failure.to_string(), "java.lang.ArrayIndexOutOfBoundsException: Index 2 out of bounds for length 2");
    Ok(())
}

#[test]
fn long_rows_are_not_repeated_without_end_in_one_batch() -> Result<(), OperatorError> {
    let numbers: Vec<_> = (0..100).map(Some).collect();
    let (long, elements) = collection(0, Some(&numbers));
    let spec = spec(kind(0), JoinType::Inner, Ordinality::Without, None);
    let mut operator = Correlate::try_new(&spec, &|_| None)?;
    operator.limits = Limits { bytes: 3 * long.as_ref().map_or(0, Vec::len), output_rows: 50, ..Limits::default() };
    operator.push(batch(&[long], 0))?;
    let batches: Vec<Batch> = std::iter::from_fn(|| operator.pull().transpose()).collect::<Result<_, _>>()?;
    assert!(batches.iter().all(|batch| batch.num_rows() <= 3));
    assert_eq!(batches.iter().flat_map(rows).collect::<Vec<_>>(), model(&[elements], &spec));
    Ok(())
}

#[test]
fn other_table_functions_and_conditions_are_refused() {
    let user =
        Rex::Call { function: Function::User("F".to_owned()), operands: Vec::new(), ty: nullable(TypeKind::Boolean) };
    let refused = [
        spec(TypeKind::Integer, JoinType::Inner, Ordinality::Without, None),
        spec(kind(0), JoinType::Inner, Ordinality::Without, Some(user)),
        spec(TypeKind::Array(nullable(TypeKind::Null).into()), JoinType::Inner, Ordinality::Without, None),
    ];
    assert!(refused.iter().all(|spec| supports(spec).is_err()));
    assert_eq!(supports(&spec(kind(2), JoinType::Left, Ordinality::Numbered, Some(greater_than_one()))), Ok(()));
}
