#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, NullArray};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::exchange::FragmentSplitter;
use streamfusion_row::fragment;

use super::*;

fn bigint() -> LogicalType {
    LogicalType { kind: TypeKind::BigInt, nullable: true }
}

fn batch(from: i64, rows: usize) -> Batch {
    let column: ArrayRef = Arc::new((from..).take(rows).collect::<Int64Array>());
    Batch::try_new(vec![column], rows, None).unwrap()
}

fn values(batch: &Batch) -> Vec<i64> {
    batch.columns()[0].as_primitive::<Int64Type>().values().to_vec()
}

fn gathering(rows: usize) -> Input {
    let mut input = Input::new(vec![bigint()]);
    input.configure(&InputParameters { gather_rows: rows, receiver: None });
    input
}

fn ready(input: &mut Input) -> Vec<usize> {
    std::iter::from_fn(|| input.next()).map(|batch| batch.num_rows()).collect()
}

proptest! {
    #[test]
    fn rows_keep_their_order_whatever_is_gathered(
        sizes in prop::collection::vec(0usize..30, 0..30), bound in 0usize..100, flushes in prop::collection::vec(any::<bool>(), 30),
    ) {
        let mut input = gathering(bound);
        let (mut next, mut seen) = (0, Vec::new());
        for (size, flush) in sizes.iter().zip(flushes) {
            input.push(batch(next, *size))?;
            next += *size as i64;
            if flush {
                input.flush()?;
                prop_assert_eq!(input.waiting_rows(), 0);
            }
            prop_assert!(input.waiting_rows() < bound.max(1));
            while let Some(batch) = input.next() {
                prop_assert!(batch.num_rows() <= bound.max(30));
                seen.extend(values(&batch));
            }
            prop_assert_eq!(seen.len() + input.waiting_rows(), next as usize);
        }
        input.flush()?;
        seen.extend(std::iter::from_fn(|| input.next()).flat_map(|batch| values(&batch)));
        prop_assert_eq!(seen, (0..next).collect::<Vec<_>>());
    }
}

#[test]
fn small_batches_wait_until_there_are_enough_rows() {
    let mut input = gathering(100);
    for _ in 0..4 {
        input.push(batch(0, 20)).unwrap();
    }
    assert_eq!((ready(&mut input), input.waiting_rows()), (vec![], 80));
    assert!(input.bytes() > 0);
    input.push(batch(0, 20)).unwrap();
    assert_eq!((ready(&mut input), input.waiting_rows(), input.bytes()), (vec![100], 0, 0));
}

#[test]
fn a_large_batch_goes_through_at_once_behind_what_waits() {
    let mut input = gathering(100);
    let large = batch(0, 25);
    input.push(batch(0, 3)).unwrap();
    input.push(batch(0, 4)).unwrap();
    input.push(large.clone()).unwrap();
    let out: Vec<_> = std::iter::from_fn(|| input.next()).collect();
    assert_eq!(out.iter().map(Batch::num_rows).collect::<Vec<_>>(), [7, 25]);
    assert!(Arc::ptr_eq(&out[1].columns()[0], &large.columns()[0]));
}

#[test]
fn rows_do_not_wait_for_more_than_are_enough() {
    let mut input = gathering(8192);
    for _ in 0..5 {
        input.push(batch(0, 255)).unwrap();
    }
    assert_eq!((ready(&mut input), input.waiting_rows()), (vec![4 * 255], 255));
    input.push(batch(0, 256)).unwrap();
    assert_eq!((ready(&mut input), input.waiting_rows()), (vec![255, 256], 0));
}

#[test]
fn batches_of_other_columns_are_not_joined() {
    let mut input = gathering(100);
    let absent = Batch::try_new(vec![Arc::new(NullArray::new(2))], 2, None).unwrap();
    input.push(batch(0, 3)).unwrap();
    input.push(absent.clone()).unwrap();
    input.push(absent).unwrap();
    input.flush().unwrap();
    assert_eq!(ready(&mut input), [3, 4]);
}

#[test]
fn without_a_bound_nothing_waits() {
    let mut input = Input::new(vec![bigint()]);
    input.push(batch(0, 1)).unwrap();
    assert_eq!(ready(&mut input), [1]);
}

fn receiving(epoch: u64, gather_rows: usize) -> Input {
    let mut input = Input::new(vec![bigint()]);
    let receiver = Receiver { epoch, first_key_group: 0, last_key_group: 127 };
    input.configure(&InputParameters { gather_rows, receiver: Some(receiver) });
    input
}

fn fragments(rows: usize) -> Vec<Buffer> {
    let mut splitter = FragmentSplitter::try_new(&[0], &[bigint()], 128, Epoch { order: 3, attempt: 1 }).unwrap();
    splitter.split(&batch(0, rows)).unwrap().iter().map(|batch| fragment::encode(batch).unwrap().into()).collect()
}

#[test]
fn fragments_are_put_together_before_they_are_gathered() {
    let mut input = receiving(3, 100);
    let fragments = fragments(20);
    for bytes in &fragments {
        assert_eq!(input.waiting_rows(), 0);
        input.push_encoded(bytes).unwrap();
    }
    assert_eq!((input.is_pending(), input.waiting_rows()), (false, 20));
    input.flush().unwrap();
    assert_eq!(values(&input.next().unwrap()), (0..20).collect::<Vec<_>>());
}

#[test]
fn fragments_out_of_a_checkpoint_are_ready_alone() {
    let mut input = receiving(3, 0);
    let fragments = fragments(20);
    for bytes in &fragments[1..] {
        input.push_encoded(bytes).unwrap();
    }
    assert!(input.is_pending());
    let mut restored = receiving(4, 0);
    let mut rows = 0;
    for group in input.pending_key_groups() {
        restored.restore_pending(group, &input.snapshot_pending(group).unwrap()).unwrap();
        rows += ready(&mut restored).iter().sum::<usize>();
    }
    restored.push_encoded(&fragments[0]).unwrap();
    rows += ready(&mut restored).iter().sum::<usize>();
    assert_eq!((rows, restored.is_pending()), (20, false));
}

#[test]
fn a_fragment_where_none_was_expected_is_an_error() {
    let mut input = Input::new(vec![bigint()]);
    assert!(matches!(input.push_encoded(&fragments(3)[0]), Err(InputError::UnexpectedFragment)));
}

#[test]
fn parameters_are_read_from_json() {
    let text = r#"{"gatherRows": 8192, "receiver": {"epoch": 5, "firstKeyGroup": 1, "lastKeyGroup": 2},
        "second": {"gatherRows": 7, "receiver": null}, "sender": {"epoch": 5, "attempt": 9223372036854775807}}"#;
    let receiver = Receiver { epoch: 5, first_key_group: 1, last_key_group: 2 };
    let expected = ShuffleParameters {
        first: InputParameters { gather_rows: 8192, receiver: Some(receiver) },
        second: Some(InputParameters { gather_rows: 7, receiver: None }),
        sender: Some(Sender { epoch: 5, attempt: i64::MAX as u64 }),
    };
    assert_eq!(ShuffleParameters::read(text).unwrap(), expected);
    assert_eq!(ShuffleParameters::read("{}").unwrap(), ShuffleParameters::default());
    assert!(ShuffleParameters::read(r#"{"gatherRows": -1}"#).is_err());
    assert!(ShuffleParameters::read(r#"{"unknown": 1}"#).is_err());
}
