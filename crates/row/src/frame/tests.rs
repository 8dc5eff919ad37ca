#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, NullArray};
use arrow::buffer::Buffer;
use arrow::datatypes::Decimal128Type;
use proptest::prelude::*;
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::*;
use crate::batch::Batch;
use crate::random::{Random, all_types, batch, batches, decimal, string, ty};

/// Claims that a batch can be used without any danger, whatever it holds.
fn assert_valid(batch: &Batch) {
    for column in batch.columns() {
        assert_eq!(column.len(), batch.num_rows());
        column.to_data().validate_full().unwrap();
    }
}

fn refused(frame: &[u8], types: &[LogicalType]) -> FrameError {
    decode(frame, types).unwrap_err()
}

proptest! {
    #[test]
    fn batches_arrive_as_they_were_sent((types, batch) in batches(all_types(), true)) {
        let frame = encode(&batch)?;
        let info = peek(&frame)?;
        prop_assert_eq!(info.rows as usize, batch.num_rows());
        prop_assert_eq!(info.key_group, batch.key_group().map(KeyGroup));
        let arrived = decode(&frame, &types)?;
        prop_assert_eq!(arrived.columns(), batch.columns());
        prop_assert_eq!(arrived.num_rows(), batch.num_rows());
        prop_assert_eq!(arrived.kinds(), batch.kinds());
        prop_assert_eq!(arrived.key_group(), batch.key_group());
        assert_valid(&arrived);
    }

    #[test]
    fn a_truncated_frame_is_refused((types, batch) in batches(all_types(), true), longer in 1usize..20) {
        let mut frame = encode(&batch)?;
        for len in 0..frame.len() {
            prop_assert!(decode(&frame[..len], &types).is_err());
        }
        frame.resize(frame.len() + longer, 0);
        prop_assert!(decode(&frame, &types).is_err());
    }

    #[test]
    fn flipped_bits_never_yield_an_invalid_batch((types, batch) in batches(all_types(), true), seed: u64) {
        let frame = encode(&batch)?;
        let mut random = Random(seed);
        for _ in 0..100 {
            let mut damaged = frame.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len());
                damaged[at] = if random.below(2) == 0 { damaged[at] ^ 1 << random.below(8) } else { random.next() as u8 };
            }
            if let Ok(batch) = decode(&damaged, &types) {
                assert_valid(&batch);
            }
            let _ = peek(&damaged);
        }
    }

    #[test]
    fn a_frame_of_other_columns_never_yields_an_invalid_batch(
        (_, batch) in batches(all_types(), true),
        types in prop::collection::vec(prop::sample::select(all_types()), 0..6),
    ) {
        if let Ok(batch) = decode(&encode(&batch)?, &types) {
            assert_valid(&batch);
            prop_assert_eq!(batch.columns().len(), types.len());
        }
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&noise, &[ty(TypeKind::BigInt)]).is_err());
        prop_assert!(peek(&noise).is_err());
    }
}

#[test]
fn every_byte_of_a_frame_may_take_any_value() {
    let types = [string(), ty(TypeKind::BigInt), ty(TypeKind::Boolean)];
    let frame = encode(&batch(&types, 5, false, &mut Random(3))).unwrap();
    for at in 0..frame.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, frame[at].wrapping_add(1), frame[at].wrapping_sub(1), !frame[at]] {
            let mut damaged = frame.clone();
            damaged[at] = value;
            if let Ok(batch) = decode(&damaged, &types) {
                assert_valid(&batch);
            }
        }
    }
}

#[test]
fn the_header_is_checked_first() {
    let types = [ty(TypeKind::BigInt)];
    let batch = Batch::try_new(vec![Arc::new(Int64Array::from(vec![1]))], 1, None).unwrap();
    let frame = encode(&batch.with_key_group(7)).unwrap();
    let damaged = |at: usize, value: u8| {
        let mut frame = frame.clone();
        frame[at] = value;
        refused(&frame, &types)
    };
    assert!(matches!(damaged(0, b'X'), FrameError::Magic));
    assert!(matches!(damaged(4, 2), FrameError::Version { found: 2 }));
    assert!(matches!(damaged(5, 4), FrameError::Flags { found: 4 }));
    assert!(matches!(damaged(8, 2), FrameError::Message { .. }));
    assert!(matches!(damaged(12, 9), FrameError::Length { .. }));
    assert!(matches!(damaged(23, 1), FrameError::Length { .. }));
    assert!(matches!(damaged(24, 2), FrameError::Tree));
    assert_eq!(peek(&frame).unwrap(), FrameInfo { rows: 1, key_group: Some(KeyGroup(7)) });
}

#[test]
fn a_slice_travels_without_the_rest() {
    let batch = Batch::try_new(vec![Arc::new(Int64Array::from(vec![7; 10_000]))], 10_000, None).unwrap();
    assert!(encode(&batch.slice(5_000, 10).unwrap()).unwrap().len() < 1_000);
}

#[test]
fn rows_without_columns_keep_their_number() {
    let batch = Batch::try_new(vec![], 17, None).unwrap();
    assert_eq!(decode(&encode(&batch).unwrap(), &[]).unwrap().num_rows(), 17);
    let batch = Batch::try_new(vec![Arc::new(NullArray::new(17))], 17, None).unwrap();
    let arrived = decode(&encode(&batch).unwrap(), &[string()]).unwrap();
    assert_eq!((arrived.num_rows(), arrived.columns()[0].len()), (17, 17));
}

#[test]
fn columns_share_the_bytes_of_a_frame_in_parts() {
    for columns in 1..=8 {
        let column: ArrayRef = Arc::new(Decimal128Array::from(vec![7; 100]).with_precision_and_scale(38, 0).unwrap());
        let batch = Batch::try_new(vec![column; columns], 100, None).unwrap();
        let types = vec![decimal(38, 0); columns];
        let bytes = Buffer::from(encode_parts(&batch).unwrap().concat());
        let shared = bytes.as_ptr_range();
        let values = |batch: &Batch| batch.columns()[0].as_primitive::<Decimal128Type>().values().inner().as_ptr();
        assert!(shared.contains(&values(&decode_shared(&bytes, &types).unwrap())), "{columns} columns");
        assert!(!shared.contains(&values(&decode(&bytes, &types).unwrap())));
    }
}
