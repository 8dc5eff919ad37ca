//! What does a calc over rows that are already columns cost per row?
//!
//! Six expressions of the kind that streaming queries have, over a batch of 4,096 bids with seven columns.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{Field, Schema};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_expr::{compile, evaluate};
use streamfusion_plan::rex::{Function, Literal, Rex, Sarg, SargBound, SargRange};
use streamfusion_plan::types::{LogicalType, TypeKind};

const ROWS: i64 = 4_096;

fn bids() -> RecordBatch {
    let numbers = || (0..ROWS).map(|row| row.wrapping_mul(2_654_435_761) % 1_000_003);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("auction", Arc::new(Int64Array::from_iter_values(numbers().map(|n| n % 1_000)))),
        ("bidder", Arc::new(Int64Array::from_iter_values(numbers().map(|n| n % 5_000)))),
        ("price", Arc::new(Int64Array::from_iter_values(numbers()))),
        (
            "amount",
            Arc::new(
                Decimal128Array::from_iter_values(numbers().map(i128::from)).with_precision_and_scale(18, 2).unwrap(),
            ),
        ),
        ("channel", Arc::new(StringArray::from_iter_values(numbers().map(|n| format!("channel-{}", n % 7))))),
        (
            "url",
            Arc::new(StringArray::from_iter_values(numbers().map(|n| format!("https://auction.example/item/{n}")))),
        ),
        ("time", Arc::new(TimestampMillisecondArray::from_iter_values(numbers()))),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, c)| c).collect()).unwrap()
}

fn ty(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn col(index: usize, kind: TypeKind) -> Rex {
    Rex::InputRef { index, ty: ty(kind) }
}

fn int(value: i64) -> Rex {
    Rex::Literal { value: Literal::Integer(value), ty: ty(TypeKind::BigInt) }
}

fn call(name: &str, operands: Vec<Rex>, kind: TypeKind) -> Rex {
    Rex::Call { function: Function::BuiltIn { name: name.to_owned(), version: 1 }, operands, ty: ty(kind) }
}

fn expressions() -> Vec<(&'static str, Rex)> {
    let price = || col(2, TypeKind::BigInt);
    let decimal = |precision, scale| TypeKind::Decimal { precision, scale };
    let amount = || col(3, decimal(18, 2));
    let rate = Rex::Literal { value: Literal::Decimal(908), ty: ty(decimal(4, 3)) };
    let channels = ["channel-1", "channel-2", "channel-5"].map(|channel| {
        let bound = SargBound { value: Literal::String(channel.to_owned()), inclusive: true };
        SargRange { lower: Some(bound.clone()), upper: Some(bound) }
    });
    let text = TypeKind::VarChar(i32::MAX as u32);
    let sarg = Sarg { ranges: channels.to_vec(), null_as: None, ty: ty(text.clone()) };
    let whole = Rex::Literal { value: Literal::Decimal(36_525), ty: ty(decimal(5, 2)) };
    let is_large = call(">", vec![price(), int(500_000)], TypeKind::Boolean);
    let share = call("/", vec![price(), col(1, TypeKind::BigInt)], TypeKind::BigInt);
    let guard = call("<>", vec![col(1, TypeKind::BigInt), int(0)], TypeKind::Boolean);
    vec![
        ("bigint_plus", call("+", vec![price(), col(0, TypeKind::BigInt)], TypeKind::BigInt)),
        ("decimal_times_constant", call("*", vec![rate, amount()], decimal(22, 5))),
        ("decimal_quotient", call("/", vec![amount(), whole], decimal(30, 12))),
        (
            "mod_equals",
            call("=", vec![call("MOD", vec![price(), int(123)], TypeKind::BigInt), int(0)], TypeKind::Boolean),
        ),
        ("text_in_3", Rex::Search { operand: Box::new(col(4, text)), sarg, ty: ty(TypeKind::Boolean) }),
        ("guarded_case", call("CASE", vec![guard, share, is_large, int(1), int(0)], TypeKind::BigInt)),
    ]
}

fn calc(c: &mut Criterion) {
    let batch = bids();
    let mut group = c.benchmark_group("calc");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, rex) in expressions() {
        let expr = compile(&rex, "/projection/0", &|_| None).unwrap();
        group.bench_function(format!("{name}/rows_{ROWS}"), |b| b.iter(|| evaluate(black_box(&expr), &batch).unwrap()));
    }
    group.finish();
}

criterion_group!(benches, calc);
criterion_main!(benches);
