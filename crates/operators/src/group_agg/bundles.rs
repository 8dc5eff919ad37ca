//! GROUP BY in mini-batch mode: where bundles end and what is kept of them until then.
//!
//! Rows are folded into the accumulators of their groups as they come, so that nothing of them is kept. Of each group that is new in
//! the frame its key is; all else that a bundle needs is with the calls (see `results`) and in the [`Frontier`]. When the frame ends, its
//! transitions make one changelog.
//!
//! With a state time-to-live Flink decides when a bundle ends whether a group that it touched has expired, which cannot be
//! taken back. So rows are kept until then, and folded at that moment.

use std::num::NonZeroU64;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{concat, take};
use streamfusion_row::Batch;
use streamfusion_state::{StateTtl, Touched};

use super::frontier::Frontier;
use super::output::Changelog;
use super::support::Retraction;
use super::{CallState, Groups};
use crate::OperatorError;
use crate::bundle::{Boundary, BundleMetrics, FlushReason, Split};

/// The bundles of one operator.
#[derive(Debug)]
pub(super) struct Bundles {
    boundary: Boundary,
    /// A batch with rows that are left.
    split: Option<Split>,
    frontier: Frontier,
    /// The key columns of the groups of the frame, piece by piece; none before its first row is folded.
    keys: Vec<Vec<ArrayRef>>,
    /// The rows of the open frame; absent where they are folded as they come.
    kept: Option<Vec<Batch>>,
    /// Bytes of `keys` and `kept`.
    bytes: usize,
    /// Rows that were folded behind those of the first batch of the frame.
    more_rows: usize,
}

impl Bundles {
    /// Bundles of `size` rows. Rows are kept if there is a time-to-live.
    pub(super) fn new(size: NonZeroU64, retraction: Retraction, ttl: Option<StateTtl>) -> Self {
        Self {
            boundary: Boundary::new(size),
            split: None,
            frontier: Frontier::new(retraction),
            keys: Vec::new(),
            kept: ttl.map(|_| Vec::new()),
            bytes: 0,
            more_rows: 0,
        }
    }

    /// Takes a batch with rows.
    pub(super) fn push(&mut self, batch: Batch) {
        self.split = Some(Split::new(batch));
    }

    /// Whether rows of the batch are left.
    pub(super) fn has_rows(&self) -> bool {
        self.split.is_some()
    }

    /// Takes the rows of the batch that belong to the open frame. Returns the changelog if the frame ends with them.
    pub(super) fn advance(&mut self, groups: &mut Groups) -> Result<Option<Changelog>, OperatorError> {
        let Some(mut split) = self.split.take() else { return Ok(None) };
        let frame = split.frame(&self.boundary);
        let whole = frame.len() == split.batch().num_rows();
        let batch = if whole { split.batch().clone() } else { split.batch().slice(frame.start, frame.len())? };
        if let Some(kept) = &mut self.kept
            && self.boundary.complete(frame.len()) == 0
        {
            self.bytes += batch.bytes();
            kept.push(batch);
            split.next_part(&mut self.boundary);
            return Ok(None);
        }
        self.fold_kept(groups)?;
        self.load(groups, &batch)?;
        let mut ends = false;
        while !ends && let Some(part) = split.next_part(&mut self.boundary) {
            let rows = part.rows.start - frame.start..part.rows.end - frame.start;
            self.frontier.count(&mut groups.rows, kinds(&batch), rows)?;
            if part.ends_bundle {
                self.end_bundle(groups, FlushReason::Count);
            }
            ends = part.ends_frame;
        }
        self.fold(groups, &batch)?;
        if frame.end < split.batch().num_rows() {
            self.split = Some(split);
        }
        if ends { self.end_frame(groups).map(Some) } else { Ok(None) }
    }

    /// Ends the open bundle and its frame, if there is one.
    pub(super) fn flush(
        &mut self,
        groups: &mut Groups,
        reason: FlushReason,
    ) -> Result<Option<Changelog>, OperatorError> {
        if !self.boundary.is_open() {
            return Ok(None);
        }
        self.fold_kept(groups)?;
        self.frontier.begin_batch();
        self.end_bundle(groups, reason);
        for CallState { aggregate, .. } in &mut groups.calls {
            aggregate.fold_bundles(&mut groups.table, &groups.rows, &self.frontier, None, None)?;
        }
        self.end_frame(groups).map(Some)
    }

    /// Folds the rows that were kept, all of which belong to the open bundle.
    fn fold_kept(&mut self, groups: &mut Groups) -> Result<(), OperatorError> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        for batch in std::mem::take(kept) {
            self.load(groups, &batch)?;
            self.frontier.count(&mut groups.rows, kinds(&batch), 0..batch.num_rows())?;
            self.fold(groups, &batch)?;
        }
        Ok(())
    }

    /// Loads the groups of rows that come next in the frame, and keeps the keys of those that are new in it.
    fn load(&mut self, groups: &mut Groups, batch: &Batch) -> Result<(), OperatorError> {
        let Groups { keys, table, rows, .. } = groups;
        let columns = keys.columns(batch)?;
        if self.keys.is_empty() {
            rows.counts.clear();
            keys.load(&columns, batch.num_rows(), table, &mut rows.touched)?;
        } else {
            keys.load_more(&columns, batch.num_rows(), table, &mut rows.touched)?;
            self.more_rows += batch.num_rows();
        }
        let first_rows = first_rows(&rows.touched, rows.counts.len());
        if !first_rows.is_empty() {
            let columns =
                columns.iter().map(|column| take(column, &first_rows, None)).collect::<Result<Vec<_>, _>>()?;
            self.bytes += columns.iter().map(|column| column.get_array_memory_size()).sum::<usize>();
            self.keys.push(columns);
        }
        groups.count_loaded()?;
        groups.rows.actions.clear();
        self.frontier.begin_batch();
        Ok(())
    }

    fn end_bundle(&mut self, groups: &Groups, reason: FlushReason) {
        self.boundary.end(reason, self.frontier.touched());
        self.frontier.end_bundle(&groups.rows);
    }

    /// Folds the rows that were counted.
    fn fold(&mut self, groups: &mut Groups, batch: &Batch) -> Result<(), OperatorError> {
        groups.restrict(batch)?;
        let Groups { calls, table, rows, retraction, .. } = groups;
        for state in calls {
            let argument = state.argument(batch)?;
            let actions = match (state.is_restricted(), *retraction) {
                (true, _) => Some(&state.actions),
                (false, Retraction::Applied) => Some(&rows.actions),
                (false, Retraction::None) => None,
            };
            let actions = actions.map(Vec::as_slice);
            state.aggregate.fold_bundles(table, rows, &self.frontier, argument, actions)?;
        }
        Ok(())
    }

    /// Ends the frame: commits its groups and returns their changelog.
    fn end_frame(&mut self, groups: &mut Groups) -> Result<Changelog, OperatorError> {
        let keys = self.gather_keys()?;
        let Groups { calls, table, rows, changed, ttl, update_before, .. } = groups;
        let actions = self.frontier.actions();
        changed.clear();
        // with a time-to-live, operators behind this one need the refresh
        changed.resize(actions.len(), ttl.is_some());
        let versions = calls
            .iter_mut()
            .map(|state| state.aggregate.end_frame(table, rows, &self.frontier, changed))
            .collect::<Result<Vec<_>, _>>()?;
        let changelog = Changelog::new(keys, versions, actions, changed, *update_before);
        groups.commit()?;
        if groups.ttl.is_some() {
            groups.table.expire(self.more_rows)?;
        }
        self.boundary.emitted(changelog.changes(), changelog.len());
        self.frontier.end_frame();
        (self.bytes, self.more_rows) = (0, 0);
        Ok(changelog)
    }

    /// The key columns, row by row those of the transitions of the frame.
    fn gather_keys(&mut self) -> Result<Vec<ArrayRef>, OperatorError> {
        let pieces = std::mem::take(&mut self.keys);
        let mut columns = match <[_; 1]>::try_from(pieces) {
            Ok([columns]) => columns,
            Err(pieces) => {
                let columns = 0..pieces.first().map_or(0, Vec::len);
                let column = |column: usize| {
                    let pieces = pieces.iter().filter_map(|piece| piece.get(column));
                    concat(&pieces.map(AsRef::as_ref).collect::<Vec<&dyn Array>>())
                };
                columns.map(column).collect::<Result<Vec<_>, _>>()?
            }
        };
        if let Some(groups) = self.frontier.gathered() {
            let groups = UInt32Array::from_iter_values(groups.iter().copied());
            for column in &mut columns {
                *column = take(column, &groups, None)?;
            }
        }
        Ok(columns)
    }

    /// What the bundles came to.
    pub(super) fn metrics(&self) -> &BundleMetrics {
        self.boundary.metrics()
    }

    /// Bytes that the open frame takes, without what the calls have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.frontier.bytes()
    }
}

/// The row kinds of a batch; absent if all are +I.
fn kinds(batch: &Batch) -> Option<&[u8]> {
    batch.kinds().map(|kinds| &**kinds.values())
}

/// The first rows of the groups that follow the first `known` ones, in their order.
fn first_rows(touched: &Touched, known: usize) -> UInt32Array {
    let new = touched.slots.len() - known;
    let mut rows = Vec::with_capacity(new);
    for (row, group) in (0_u32..).zip(&touched.groups) {
        if rows.len() == new {
            break;
        }
        if *group as usize == known + rows.len() {
            rows.push(row);
        }
    }
    UInt32Array::from(rows)
}
