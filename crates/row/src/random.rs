//! Random batches for property tests: every type, edge values, NULLs, absent columns, slices, row kinds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int8Type, Int16Type};
use proptest::prelude::*;
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};

use crate::batch::Batch;
use crate::types::arrow_type;

pub(crate) fn ty(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

pub(crate) fn decimal(precision: u8, scale: u8) -> LogicalType {
    ty(TypeKind::Decimal { precision, scale })
}

pub(crate) fn timestamp(precision: u8) -> LogicalType {
    ty(TypeKind::Timestamp { precision, attribute: TimeAttribute::Regular })
}

pub(crate) fn string() -> LogicalType {
    ty(TypeKind::VarChar(i32::MAX as u32))
}

pub(crate) fn row(fields: &[(&str, LogicalType)]) -> LogicalType {
    ty(TypeKind::Row(fields.iter().map(|(name, ty)| Field { name: (*name).into(), ty: ty.clone() }).collect()))
}

/// One of each type that is no ROW.
pub(crate) fn flat_types() -> Vec<LogicalType> {
    vec![
        ty(TypeKind::Boolean),
        ty(TypeKind::TinyInt),
        ty(TypeKind::SmallInt),
        ty(TypeKind::Integer),
        ty(TypeKind::BigInt),
        ty(TypeKind::Float),
        ty(TypeKind::Double),
        decimal(10, 2),
        decimal(18, 0),
        decimal(19, 4),
        decimal(38, 38),
        string(),
        ty(TypeKind::Char(3)),
        ty(TypeKind::VarBinary(100)),
        ty(TypeKind::Date),
        ty(TypeKind::Time(3)),
        timestamp(0),
        timestamp(3),
        timestamp(4),
        timestamp(9),
        ty(TypeKind::TimestampLtz { precision: 9, attribute: TimeAttribute::Rowtime }),
        ty(TypeKind::IntervalYearMonth),
        ty(TypeKind::IntervalDayTime),
    ]
}

/// The flat types and some ROWs of them.
pub(crate) fn all_types() -> Vec<LogicalType> {
    let mut types = flat_types();
    types.push(row(&[("a", ty(TypeKind::BigInt)), ("b", string())]));
    types.push(row(&[("r", row(&[("x", timestamp(9)), ("y", ty(TypeKind::Boolean))])), ("z", decimal(30, 3))]));
    types
}

/// A source of numbers whose seed a property test shrinks.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Small and extreme values as well as any.
    fn i64(&mut self) -> i64 {
        match self.below(6) {
            0 => 0,
            1 => -1,
            2 => i64::MAX,
            3 => i64::MIN,
            4 => self.below(100) as i64,
            _ => self.next() as i64,
        }
    }

    fn text(&mut self) -> String {
        let len = self.below(12);
        (0..len).map(|_| ['a', 'Z', ' ', 'é', '中', '😀'][self.below(6)]).collect()
    }
}

/// `rows` values of `ty`; absent columns only where `absent`.
pub(crate) fn column(ty: &LogicalType, rows: usize, absent: bool, random: &mut Random) -> ArrayRef {
    if absent && random.below(6) == 0 {
        return Arc::new(NullArray::new(rows));
    }
    let nulls = if random.below(3) == 0 {
        None
    } else {
        Some(NullBuffer::from((0..rows).map(|_| random.below(4) != 0).collect::<Vec<_>>()))
    };
    let arrow = arrow_type(ty).unwrap();
    if let DataType::Struct(_) = arrow {
        let children: Vec<_> = ty.fields().iter().map(|f| column(&f.ty, rows, absent, random)).collect();
        let fields = ty
            .fields()
            .iter()
            .zip(&children)
            .map(|(f, c)| arrow::datatypes::Field::new(&f.name, c.data_type().clone(), true))
            .collect();
        return Arc::new(StructArray::new(fields, children, nulls));
    }
    let present = |row: usize| nulls.as_ref().is_none_or(|n| n.is_valid(row));
    macro_rules! values {
        ($array:ty, $value:expr) => {
            (0..rows).map(|row| present(row).then(|| $value)).collect::<$array>()
        };
    }
    let array: ArrayRef = match &arrow {
        DataType::Boolean => Arc::new(values!(BooleanArray, random.below(2) == 0)),
        DataType::Int8 => Arc::new(values!(PrimitiveArray<Int8Type>, random.i64() as i8)),
        DataType::Int16 => Arc::new(values!(PrimitiveArray<Int16Type>, random.i64() as i16)),
        DataType::Int32 => Arc::new(values!(Int32Array, random.i64() as i32)),
        DataType::Int64 => Arc::new(values!(Int64Array, random.i64())),
        DataType::Float32 => Arc::new(values!(PrimitiveArray<Float32Type>, random.i64() as f32)),
        DataType::Float64 => Arc::new(values!(
            PrimitiveArray<Float64Type>,
            if random.below(4) == 0 { -0.0 } else { random.i64() as f64 }
        )),
        DataType::Date32 => Arc::new(values!(Date32Array, random.i64() as i32 % 3_000_000)),
        DataType::Time32(_) => Arc::new(values!(Time32MillisecondArray, random.below(86_400_000) as i32)),
        DataType::Timestamp(..) => Arc::new(values!(TimestampMillisecondArray, random.i64() % 253_402_300_800_000)),
        DataType::Utf8 => Arc::new(values!(StringArray, random.text())),
        DataType::Binary => {
            Arc::new(values!(BinaryArray, (0..random.below(20)).map(|_| random.next() as u8).collect::<Vec<_>>()))
        }
        DataType::Decimal128(precision, scale) => {
            // nanoseconds: what an i64 of milliseconds holds
            let bound = if *scale == 9 { 10i128.pow(24) } else { 10i128.pow(u32::from(*precision).min(29)) };
            let values = values!(Decimal128Array, i128::from(random.i64()) * i128::from(random.i64()) % bound);
            Arc::new(values.with_precision_and_scale(*precision, *scale).unwrap())
        }
        other => panic!("{other}"),
    };
    array
}

/// Row types with batches of them. `absent`: whether columns of Arrow type Null occur.
pub(crate) fn batches(types: Vec<LogicalType>, absent: bool) -> impl Strategy<Value = (Vec<LogicalType>, Batch)> {
    let columns = prop::collection::vec(prop::sample::select(types), 0..6);
    (columns, 0usize..70, 0usize..20, 0usize..20, any::<u64>()).prop_map(move |(types, rows, before, behind, seed)| {
        let batch = batch(&types, before + rows + behind, absent, &mut Random(seed));
        (types, batch.slice(before, rows).unwrap())
    })
}

/// A batch of `rows` rows, sometimes with row kinds and a key group.
pub(crate) fn batch(types: &[LogicalType], rows: usize, absent: bool, random: &mut Random) -> Batch {
    let columns = types.iter().map(|ty| column(ty, rows, absent, random)).collect();
    let kinds = (random.below(2) == 0).then(|| (0..rows).map(|_| random.below(4) as u8).collect::<Vec<_>>().into());
    let batch = Batch::try_new(columns, rows, kinds).unwrap();
    if random.below(2) == 0 { batch.with_key_group(random.below(128) as u16) } else { batch }
}

/// The kind of a row; +I without kinds.
pub(crate) fn kind(batch: &Batch, row: usize) -> u8 {
    batch.kinds().map_or(0, |kinds| kinds.value(row))
}

/// Claims that the rows of `batch` are these rows of other batches.
pub(crate) fn assert_rows<'a>(batch: &Batch, expected: impl IntoIterator<Item = (&'a Batch, usize)>) {
    let mut rows = 0;
    for (source, row) in expected {
        assert!(rows < batch.num_rows(), "more rows were expected");
        let (found, wanted) = (batch.slice(rows, 1).unwrap(), source.slice(row, 1).unwrap());
        assert_eq!(found.columns(), wanted.columns(), "row {rows}");
        assert_eq!(kind(batch, rows), kind(source, row), "kind of row {rows}");
        rows += 1;
    }
    assert_eq!(batch.num_rows(), rows);
}
