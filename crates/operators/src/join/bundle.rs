//! Bundles of a join whose sides have at most one row per join key.
//!
//! Both inputs share one boundary and have a fold each. What a bundle leaves of a key is a retraction, an accumulation, or one
//! followed by the other; that, and nothing else, goes through the join, side by side. The two rows of an update are marked as
//! suppressed: the retraction leaves the row where it is, and neither pads a row of the other side.
//!
//! Rows keep their kinds, which an inner join sends on. Equal updates are replayed like others. All bundles that end in one batch
//! are one frame: what they leave is replayed in one go, since the second and all further ones have rows of one input alone.
//!
//! Follows: MiniBatchStreamingJoinOperator, JoinKeyContainsUniqueKeyBundle, Flink 2.2. Differences: keys go in first-touch order;
//! Flink's is that of a hash map.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt8Array};
use arrow::datatypes::UInt8Type;
use streamfusion_plan::node::JoinType;
use streamfusion_row::Batch;

use super::Input;
use super::bundle_keys::BundleKeys;
use super::limits::Limits;
use super::probe::Arrived;
use crate::bundle::{Boundary, BundleMetrics, FlushReason, Split};
use crate::changelog::{BatchNumber, BundleRows, Fold, Preimages, RowRef, Transitions};
use crate::keys::Keys;
use crate::{OUTPUT_BATCH_BYTES, OperatorError};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Bundle {
    boundary: Boundary,
    /// The sides in the order in which they are replayed.
    order: [Input; 2],
    left: Half,
    right: Half,
    /// The batch that is being cut.
    split: Option<Cut>,
    replays: VecDeque<Replay>,
    /// Whether the frame has ended: it is to be replayed.
    ended: bool,
    transitions: Transitions,
    limits: Limits,
    bytes: usize,
}

/// The rows of one input in the open frame.
#[derive(Debug)]
struct Half {
    keys: Keys,
    numbering: BundleKeys,
    /// With the row kinds as the last column.
    rows: BundleRows,
    fold: Fold,
}

/// A batch on its way into bundles.
#[derive(Debug)]
struct Cut {
    side: Input,
    split: Split,
    /// The batch in the rows of the frame, once its keys are numbered.
    batch: Option<BatchNumber>,
    /// Key numbers of the rows from `first` on.
    numbers: Vec<u32>,
    first: usize,
}

/// Rows of one side that go through the join.
#[derive(Debug)]
struct Replay {
    side: Input,
    rows: Vec<RowRef>,
    suppressed: Vec<bool>,
    done: usize,
}

impl Half {
    fn new(keys: Keys) -> Self {
        Self { keys, numbering: BundleKeys::default(), rows: BundleRows::new(), fold: Fold::new(Preimages::Retracted) }
    }

    fn end_frame(&mut self) {
        self.fold.end_frame();
        self.numbering.clear();
        self.rows.clear();
    }

    fn bytes(&mut self) -> usize {
        self.rows.bytes() + self.fold.bytes() + self.numbering.memory()
    }
}

impl Bundle {
    /// No bundle is open. The keys are those of the two sides.
    pub(super) fn new(join_type: JoinType, size: NonZeroU64, left: Keys, right: Keys, limits: Limits) -> Self {
        let order = match join_type {
            JoinType::Right => [Input::Left, Input::Right],
            _ => [Input::Right, Input::Left],
        };
        Self {
            boundary: Boundary::new(size),
            order,
            left: Half::new(left),
            right: Half::new(right),
            split: None,
            replays: VecDeque::new(),
            ended: false,
            transitions: Transitions::new(),
            limits,
            bytes: 0,
        }
    }

    fn half(&mut self, side: Input) -> &mut Half {
        match side {
            Input::Left => &mut self.left,
            Input::Right => &mut self.right,
        }
    }

    pub(super) fn push(&mut self, side: Input, batch: Batch) {
        self.split = Some(Cut { side, split: Split::new(batch), batch: None, numbers: Vec::new(), first: 0 });
    }

    /// The next rows to join, once those before are done; `None` when the batch is used up.
    pub(super) fn next(&mut self) -> Result<Option<Arrived>, OperatorError> {
        loop {
            if self.ended {
                if let Some(replayed) = self.replay()? {
                    self.measure();
                    return Ok(Some(replayed));
                }
                self.left.end_frame();
                self.right.end_frame();
                self.ended = false;
                if let Some(cut) = &mut self.split {
                    cut.batch = None;
                }
            }
            if !self.fold()? {
                self.measure();
                return Ok(None);
            }
        }
    }

    fn measure(&mut self) {
        let numbers = self.split.as_ref().map_or(0, |cut| cut.numbers.capacity() * size_of::<u32>());
        let of_replay = |replay: &Replay| {
            replay.rows.capacity() * size_of::<RowRef>() + replay.suppressed.capacity() * size_of::<bool>()
        };
        self.bytes = self.left.bytes()
            + self.right.bytes()
            + numbers
            + self.replays.iter().map(of_replay).sum::<usize>()
            + self.transitions.bytes();
    }

    /// Folds the rows of the batch up to the next end of a bundle. False if there are none.
    fn fold(&mut self) -> Result<bool, OperatorError> {
        let Self { split, left, right, boundary, .. } = self;
        let Some(Cut { side, split, batch, numbers, first }) = split else { return Ok(false) };
        let half = match side {
            Input::Left => left,
            Input::Right => right,
        };
        let frame = split.frame(boundary);
        let Some(part) = split.next_part(boundary) else {
            half.fold.compact(&mut half.rows)?;
            self.split = None;
            return Ok(false);
        };
        let number = match batch {
            Some(number) => *number,
            None => {
                let columns = half.keys.columns(split.batch())?;
                let columns: Vec<_> = columns.iter().map(|column| column.slice(frame.start, frame.len())).collect();
                half.numbering.number(half.keys.encode(&columns, frame.len())?, numbers);
                *first = frame.start;
                *batch.insert(half.rows.add(&with_kinds_as_column(split.batch())?)?)
            }
        };
        let rows = part.rows.start - *first..part.rows.end - *first;
        let keys = numbers.get(rows).ok_or_else(|| OperatorError::Internal("a row without a key".to_owned()))?;
        let kinds = split.batch().kinds().map(|kinds| &kinds.values()[part.rows.clone()]);
        let first_row = u32::try_from(part.rows.start)
            .map_err(|_| OperatorError::Internal("a batch of more than 2^32 rows".to_owned()))?;
        half.fold.push(number, first_row, keys, kinds)?;
        if part.ends_bundle {
            self.end_bundle(FlushReason::Count);
        }
        self.ended = part.ends_frame;
        Ok(true)
    }

    /// Ends the open bundle, if there is one.
    pub(super) fn flush(&mut self, reason: FlushReason) {
        if self.boundary.is_open() {
            self.end_bundle(reason);
            self.ended = true;
        }
    }

    fn end_bundle(&mut self, reason: FlushReason) {
        let keys = self.left.fold.touched().len() + self.right.fold.touched().len();
        self.boundary.end(reason, keys);
        let mut transitions = std::mem::take(&mut self.transitions);
        let mut changes = 0;
        for side in self.order {
            transitions.clear();
            self.half(side).fold.end_bundle(&mut transitions);
            if transitions.as_slice().is_empty() {
                continue;
            }
            if self.replays.back().is_none_or(|last| last.side != side) {
                self.replays.push_back(Replay { side, rows: Vec::new(), suppressed: Vec::new(), done: 0 });
            }
            let Some(replay) = self.replays.back_mut() else { continue };
            for transition in transitions.as_slice() {
                let update = transition.before.is_some() && transition.after.is_some();
                for row in [transition.before, transition.after].into_iter().flatten() {
                    replay.rows.push(row);
                    replay.suppressed.push(update);
                    changes += 1;
                }
            }
        }
        if transitions.bytes() <= OUTPUT_BATCH_BYTES {
            self.transitions = transitions;
        }
        self.boundary.emitted(changes, 0);
    }

    /// The next rows of the frame to join.
    fn replay(&mut self) -> Result<Option<Arrived>, OperatorError> {
        let Some(Replay { side, rows, suppressed, done }) = self.replays.front_mut() else { return Ok(None) };
        let side = *side;
        let half = match side {
            Input::Left => &self.left,
            Input::Right => &self.right,
        };
        let fitting = *done..*done + half.rows.fitting(&rows[*done..])?.min(self.limits.replayed_rows);
        let gathered = half.rows.gather(&rows[fitting.clone()])?;
        let suppressed = suppressed[fitting.clone()].to_vec();
        *done = fitting.end;
        if *done == rows.len() {
            self.replays.pop_front();
        }
        let Some((kinds, columns)) = gathered.columns().split_last() else {
            return Err(OperatorError::Internal("a row without its kind".to_owned()));
        };
        let kinds = kinds.as_primitive_opt::<UInt8Type>().cloned();
        let batch = Batch::try_new(columns.to_vec(), gathered.num_rows(), kinds)?;
        Ok(Some(Arrived { side, batch, suppressed: Some(suppressed) }))
    }

    /// Notes rows that went out.
    pub(super) fn emitted(&mut self, rows: usize) {
        self.boundary.emitted(0, rows);
    }

    pub(super) fn metrics(&self) -> &BundleMetrics {
        self.boundary.metrics()
    }

    /// Bytes that the open bundle takes, or what is left of it to replay.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The batch with its row kinds as the last column.
fn with_kinds_as_column(batch: &Batch) -> Result<Batch, OperatorError> {
    let rows = batch.num_rows();
    let kinds = batch.kinds().cloned().unwrap_or_else(|| UInt8Array::from_value(0, rows));
    debug_assert_eq!(kinds.len(), rows);
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(kinds) as ArrayRef);
    Ok(Batch::try_new(columns, rows, None)?)
}
