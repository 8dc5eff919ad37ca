#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, NullArray, StringArray};
use proptest::prelude::*;
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::*;
use crate::binary::{KeyEncoder, KeyRows};
use crate::hash::{KeyGroup, hash_bytes_by_words};
use crate::random::{Random, all_types, assert_rows, batch as random_batch, batches, flat_types, row, string, ty};

/// Key group of one row of the batch.
fn group(keys: &[usize], types: &[LogicalType], batch: &Batch, row: usize, max_parallelism: u32) -> KeyGroup {
    let key_types: Vec<_> = keys.iter().map(|key| types[*key].clone()).collect();
    let columns: Vec<_> = keys.iter().map(|key| batch.columns()[*key].slice(row, 1)).collect();
    let mut rows = KeyRows::new();
    KeyEncoder::try_new(&key_types).unwrap().encode(&columns, 1, &mut rows).unwrap();
    KeyGroup::of_hash(hash_bytes_by_words(rows.row(0)), max_parallelism)
}

fn splitter(keys: &[usize], types: &[LogicalType], channels: u32, max_parallelism: u32) -> KeySplitter {
    let key_types: Vec<_> = keys.iter().map(|key| types[*key].clone()).collect();
    KeySplitter::try_new(keys, &key_types, channels, max_parallelism).unwrap()
}

/// Every flat column is a key, every other one is carried along.
fn keys(types: &[LogicalType]) -> Vec<usize> {
    (0..types.len()).filter(|i| types[*i].fields().is_empty()).collect()
}

proptest! {
    #[test]
    fn rows_go_where_flink_sends_them_and_keep_their_order(
        (types, batch) in batches(all_types(), false),
        max_parallelism in 1u32..300,
        share in 1u32..=100,
    ) {
        let keys = keys(&types);
        let channels = (max_parallelism * share / 100).max(1);
        let mut splitter = splitter(&keys, &types, channels, max_parallelism);
        let groups: Vec<_> =
            (0..batch.num_rows()).map(|row| group(&keys, &types, &batch, row, max_parallelism)).collect();
        let mut parts = splitter.split(&batch)?.into_iter();
        for channel in 0..channels {
            let mine = |row: &usize| groups[*row].subtask(channels, max_parallelism) == channel;
            let rows: Vec<_> = (0..batch.num_rows()).filter(mine).collect();
            if let Some(first) = rows.first() {
                let part = parts.next().unwrap();
                prop_assert_eq!(part.channel, channel);
                prop_assert_eq!(part.batch.key_group(), Some(groups[*first].0));
                assert_rows(&part.batch, rows.iter().map(|row| (&batch, *row)));
            }
        }
        prop_assert!(parts.next().is_none());
    }

    #[test]
    fn parts_that_are_held_do_not_change(
        (types, batch) in batches(all_types(), false),
        seeds in prop::collection::vec(any::<u64>(), 1..6),
    ) {
        let keys = keys(&types);
        let mut splitter = splitter(&keys, &types, 3, 128);
        let mut held: Vec<(Batch, Vec<Part>)> = Vec::new();
        for seed in seeds {
            let mut random = Random(seed);
            let other = random_batch(&types, 1 + random.below(60), false, &mut random);
            let batch = if random.below(2) == 0 { other } else { batch.clone() };
            let parts = splitter.split(&batch)?;
            if random.below(2) == 0 {
                held.push((batch, parts));
            }
        }
        for (batch, parts) in held {
            for (part, expected) in parts.iter().zip(self::splitter(&keys, &types, 3, 128).split(&batch)?) {
                prop_assert_eq!(part.batch.columns(), expected.batch.columns());
            }
        }
    }

    #[test]
    fn batch_cuts_do_not_matter((types, batch) in batches(flat_types(), false), cut in 0usize..70) {
        let keys = keys(&types);
        let mut splitter = splitter(&keys, &types, 4, 128);
        let cut = cut.min(batch.num_rows());
        let mut halves = splitter.split(&batch.slice(0, cut)?)?;
        halves.extend(splitter.split(&batch.slice(cut, batch.num_rows() - cut)?)?);
        for part in splitter.split(&batch)? {
            let mine: Vec<_> = halves.iter().filter(|h| h.channel == part.channel).map(|h| h.batch.clone()).collect();
            let joined = Batch::concat(&mine)?;
            assert_rows(&part.batch, (0..joined.num_rows()).map(|row| (&joined, row)));
        }
    }
}

#[test]
fn a_single_channel_gets_the_columns_themselves() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![42, 43]));
    let batch = Batch::try_new(vec![ids.clone()], 2, None).unwrap();
    let parts = splitter(&[0], &[ty(TypeKind::BigInt)], 1, 128).split(&batch).unwrap();
    assert_eq!(parts.len(), 1);
    assert_eq!((parts[0].channel, parts[0].batch.key_group()), (0, Some(69)));
    assert!(Arc::ptr_eq(&parts[0].batch.columns()[0], &ids));
}

#[test]
fn a_batch_of_one_key_is_passed_on_whole() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![42, 42]));
    let batch = Batch::try_new(vec![ids.clone()], 2, None).unwrap();
    let parts = splitter(&[0], &[ty(TypeKind::BigInt)], 4, 128).split(&batch).unwrap();
    assert_eq!((parts.len(), parts[0].channel, parts[0].batch.key_group()), (1, 2, Some(69)));
    assert!(Arc::ptr_eq(&parts[0].batch.columns()[0], &ids));
}

#[test]
fn without_keys_everything_goes_to_one_destination() {
    let batch = Batch::try_new(vec![Arc::new(Int64Array::from(vec![1, 2, 3]))], 3, None).unwrap();
    let parts = splitter(&[], &[], 4, 128).split(&batch).unwrap();
    assert_eq!((parts.len(), parts[0].channel, parts[0].batch.key_group()), (1, 0, Some(11)));
}

#[test]
fn columns_that_nothing_reads_survive() {
    let columns: Vec<ArrayRef> = vec![Arc::new(NullArray::new(3)), Arc::new(StringArray::from(vec!["a", "b", "c"]))];
    let batch = Batch::try_new(columns, 3, None).unwrap();
    let parts = splitter(&[1], &[ty(TypeKind::BigInt), string()], 128, 128).split(&batch).unwrap();
    assert_eq!(parts.len(), 3);
    assert!(parts.iter().all(|p| p.batch.columns()[0].as_any().is::<NullArray>()));
}

#[test]
fn no_rows_have_no_parts() {
    let batch = Batch::try_new(vec![Arc::new(Int64Array::from(Vec::<i64>::new()))], 0, None).unwrap();
    assert!(splitter(&[0], &[ty(TypeKind::BigInt)], 4, 128).split(&batch).unwrap().is_empty());
}

#[test]
fn impossible_exchanges_are_a_reason() {
    let key = [ty(TypeKind::BigInt)];
    for (channels, max_parallelism) in [(0, 128), (129, 128), (1, 32769), (1, 0)] {
        assert!(KeySplitter::try_new(&[0], &key, channels, max_parallelism).is_err());
    }
    assert!(KeySplitter::try_new(&[0], &[], 1, 128).is_err());
    assert!(KeySplitter::try_new(&[0], &[row(&[("a", string())])], 1, 128).is_err());
}

#[test]
fn a_batch_without_the_key_column_is_an_error() {
    let batch = Batch::try_new(vec![Arc::new(Int64Array::from(vec![1]))], 1, None).unwrap();
    let split = splitter(&[1], &[string(), string()], 4, 128).split(&batch);
    assert!(matches!(split, Err(ExchangeError::Column { column: 1, columns: 1 })));
    let split = splitter(&[0], &[string()], 4, 128).split(&batch);
    assert!(matches!(split, Err(ExchangeError::Key(_))));
}
