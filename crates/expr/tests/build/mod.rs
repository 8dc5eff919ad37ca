//! Builders of plan expressions and batches, and evaluation to text.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::datatypes::{Field, Schema};
use arrow::util::display::array_value_to_string;
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::{ExprError, HostFunction, compile, evaluate, host_calls};
use streamfusion_plan::rex::{Function, Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};

pub const TINYINT: TypeKind = TypeKind::TinyInt;
pub const SMALLINT: TypeKind = TypeKind::SmallInt;
pub const INT: TypeKind = TypeKind::Integer;
pub const BIGINT: TypeKind = TypeKind::BigInt;
pub const FLOAT: TypeKind = TypeKind::Float;
pub const DOUBLE: TypeKind = TypeKind::Double;
pub const BOOLEAN: TypeKind = TypeKind::Boolean;
pub const STRING: TypeKind = TypeKind::VarChar(i32::MAX as u32);

pub fn dec(precision: u8, scale: u8) -> TypeKind {
    TypeKind::Decimal { precision, scale }
}

pub fn nullable(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

pub fn col(index: usize, kind: TypeKind) -> Rex {
    Rex::InputRef { index, ty: nullable(kind) }
}

pub fn lit(value: Literal, kind: TypeKind) -> Rex {
    Rex::Literal { value, ty: nullable(kind) }
}

pub fn int(value: i64, kind: TypeKind) -> Rex {
    lit(Literal::Integer(value), kind)
}

pub fn call(name: &str, operands: Vec<Rex>, kind: TypeKind) -> Rex {
    Rex::Call { function: Function::BuiltIn { name: name.to_owned(), version: 1 }, operands, ty: nullable(kind) }
}

pub fn user(operands: Vec<Rex>, kind: TypeKind) -> Rex {
    Rex::Call { function: Function::User("F".to_owned()), operands, ty: nullable(kind) }
}

pub fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let rows = columns.first().map_or(0, |column| column.len());
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(i, column)| Field::new(format!("f{i}"), column.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap()
}

pub fn i8s(values: Vec<Option<i8>>) -> ArrayRef {
    Arc::new(Int8Array::from(values))
}

pub fn i16s(values: Vec<Option<i16>>) -> ArrayRef {
    Arc::new(Int16Array::from(values))
}

pub fn i32s(values: Vec<Option<i32>>) -> ArrayRef {
    Arc::new(Int32Array::from(values))
}

pub fn i64s(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

pub fn f32s(values: Vec<Option<f32>>) -> ArrayRef {
    Arc::new(Float32Array::from(values))
}

pub fn f64s(values: Vec<Option<f64>>) -> ArrayRef {
    Arc::new(Float64Array::from(values))
}

pub fn bools(values: Vec<Option<bool>>) -> ArrayRef {
    Arc::new(BooleanArray::from(values))
}

pub fn texts(values: Vec<Option<&str>>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

pub fn decs(values: Vec<Option<i128>>, precision: u8, scale: i8) -> ArrayRef {
    Arc::new(Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap())
}

/// Compiles without host calls.
pub fn native(rex: &Rex) -> Arc<dyn PhysicalExpr> {
    assert_eq!(host_calls(rex, "/p"), Ok(vec![]), "{rex:?}");
    compile(rex, "/p", &|_| None).unwrap()
}

/// The values as text, `NULL` for NULL. Floating point numbers keep their sign of zero.
pub fn shown(values: &ArrayRef) -> Vec<String> {
    (0..values.len())
        .map(|row| {
            if values.is_null(row) {
                return "NULL".to_owned();
            }
            if let Some(values) = values.as_any().downcast_ref::<Float64Array>() {
                return format!("{:?}", values.value(row));
            }
            if let Some(values) = values.as_any().downcast_ref::<Float32Array>() {
                return format!("{:?}", values.value(row));
            }
            array_value_to_string(values, row).unwrap()
        })
        .collect()
}

pub fn eval(rex: &Rex, batch: &RecordBatch) -> Result<Vec<String>, ExprError> {
    Ok(shown(&evaluate(&native(rex), batch)?))
}

#[track_caller]
pub fn check(rex: Rex, batch: &RecordBatch, expected: &[&str]) {
    assert_eq!(eval(&rex, batch).unwrap(), expected, "{rex:?}");
}

/// The exception that evaluation must end with.
#[track_caller]
pub fn check_fails(rex: Rex, batch: &RecordBatch, class: &str, message: &str) {
    match eval(&rex, batch) {
        Err(ExprError::Java { class: found, message: text }) => assert_eq!((found, text.as_str()), (class, message)),
        other => panic!("{other:?} instead of {class}"),
    }
}

/// A host function that returns column `column` of its input and counts the rows it was called with.
#[derive(Debug)]
pub struct Passes {
    pub column: usize,
    pub rows: Arc<Mutex<Vec<usize>>>,
}

impl HostFunction for Passes {
    fn call(&self, input: &RecordBatch) -> Result<ArrayRef, ExprError> {
        self.rows.lock().unwrap().push(input.num_rows());
        Ok(Arc::clone(input.column(self.column)))
    }
}
