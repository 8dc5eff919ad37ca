//! The operator around the buffers: batches in, changelog out.

use streamfusion_plan::node::{self, RankRange, RankStrategy};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::codec::Required;
use streamfusion_state::{Identity, KeyedState, PackedRows, RowEntriesId, RowLayout, StateContext};

use arrow::datatypes::DataType;

use super::buffer::{Arrival, Buffer, Partition};
use super::keyed::Partitions;
use super::output::Output;
use super::sort_key::SortKeys;
use super::update::KeysAt;
use super::{Emission, RankEnds, definitions};
use crate::{Operator, OperatorError};

/// How the input changes, and what is made of it.
#[derive(Debug)]
enum Strategy<K> {
    Append,
    Top1,
    Update(KeysAt<K>),
    Retract,
}

impl<K: Clone> Strategy<K> {
    fn of(spec: &node::Rank) -> Self {
        let is_top1 = spec.range == RankRange::Constant { start: 1, end: 1 };
        match spec.strategy {
            RankStrategy::AppendFast | RankStrategy::UpdateFast { .. } if is_top1 => Self::Top1,
            RankStrategy::AppendFast => Self::Append,
            RankStrategy::UpdateFast { .. } => Self::Update(KeysAt::new()),
            RankStrategy::Retract => Self::Retract,
        }
    }

    /// Name of the table: state of one is not that of another.
    fn table(&self) -> &'static str {
        match self {
            Self::Append => "append_top_n",
            Self::Top1 => "top_1",
            Self::Update(_) => "update_top_n",
            Self::Retract => "retract_top_n",
        }
    }
}

/// Top-N over a buffer per partition.
#[derive(Debug)]
pub(super) struct TopN<S: SortKeys> {
    partitions: Partitions,
    ends: RankEnds,
    rows: RowEntriesId<u32>,
    keys: S,
    strategy: Strategy<S::Key>,
    /// By slot; none where the rows of the slot were not asked for yet.
    buffers: Vec<Option<Buffer<S>>>,
    emission: Emission,
    output: Output,
    packed: PackedRows,
    buffer_bytes: usize,
}

impl<S: SortKeys> TopN<S> {
    pub(super) fn try_new(
        spec: &node::Rank,
        input: &LogicalType,
        keys: S,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let strategy = Strategy::of(spec);
        let mut partitions = Partitions::try_new(strategy.table(), spec, input, context)?;
        let ends = RankEnds::new(spec.range, &mut partitions.table);
        let identity = match (&strategy, &spec.strategy) {
            (Strategy::Update(_), RankStrategy::UpdateFast { primary_keys }) => Identity::Columns(primary_keys.clone()),
            _ => Identity::None,
        };
        let layout = RowLayout::try_new(&partitions.types)?;
        let codec = Required::new("unmatched", DataType::UInt32);
        let definitions = definitions(&spec.order_by, input);
        let rows = partitions.table.add_row_entries("ranked_rows", definitions, layout, identity, codec, 0)?;
        let emission = Emission::of(spec);
        Ok(Self {
            partitions,
            ends,
            rows,
            keys,
            strategy,
            buffers: Vec::new(),
            emission,
            output: Output::new(emission),
            packed: PackedRows::default(),
            buffer_bytes: 0,
        })
    }

    /// Makes the buffers of the partitions of the batch that have none yet.
    fn load_buffers(&mut self) -> Result<(), OperatorError> {
        let slots = &self.partitions.touched.slots;
        if let Some(most) = slots.iter().copied().max()
            && most as usize >= self.buffers.len()
        {
            self.buffers.resize_with(most as usize + 1, || None);
        }
        let (rows, _) = self.partitions.table.row_entries(self.rows)?;
        let (mut positions, mut of_slot) = (Vec::new(), Vec::new());
        for slot in slots {
            let Some(buffer) = self.buffers.get_mut(*slot as usize).filter(|buffer| buffer.is_none()) else { continue };
            *buffer = Some(Buffer::new());
            positions.extend(rows.walk(*slot));
            of_slot.resize(positions.len(), *slot);
        }
        if positions.is_empty() {
            return Ok(());
        }
        let encoded = self.keys.encode(&rows.gather(&positions)?, positions.len())?;
        for (row, (position, slot)) in positions.iter().zip(&of_slot).enumerate() {
            let Some(Some(buffer)) = self.buffers.get_mut(*slot as usize) else { continue };
            let key = S::key(&encoded, row);
            if let Strategy::Update(keys) = &mut self.strategy {
                keys.set(*position, &key);
            }
            buffer.restore(key, *position, *rows.value(*position))?;
        }
        of_slot.dedup();
        for slot in of_slot {
            if let Some(Some(buffer)) = self.buffers.get(slot as usize) {
                buffer.restored()?;
                self.buffer_bytes += buffer.bytes();
            }
        }
        Ok(())
    }

    /// The rows that may change something.
    fn candidates(&self, encoded: &S::Encoded) -> Result<Vec<u32>, OperatorError> {
        let size = match self.strategy {
            Strategy::Append => self.ends.size(),
            Strategy::Top1 => 1,
            Strategy::Update(_) | Strategy::Retract => {
                return Ok((0..).take(self.partitions.touched.groups.len()).collect());
            }
        };
        // once a buffer is full it stays so, and its last row can only become a better one
        let bound = |slot: &u32| {
            let buffer = self.buffers.get(*slot as usize)?.as_ref().filter(|buffer| buffer.total >= size)?;
            buffer.groups.last_key_value().map(|(key, _)| key)
        };
        let bounds: Vec<Option<&S::Key>> = self.partitions.touched.slots.iter().map(bound).collect();
        let mut candidates = Vec::new();
        for (row, group) in self.partitions.touched.groups.iter().enumerate() {
            let bound = bounds.get(*group as usize).copied().flatten();
            if bound.is_none_or(|bound| S::compare(encoded, row, bound).is_lt()) {
                candidates.push(u32::try_from(row).map_err(|_| OperatorError::TooLarge)?);
            }
        }
        Ok(candidates)
    }

    fn process(&mut self, batch: &Batch, encoded: &S::Encoded, candidates: &[u32]) -> Result<(), OperatorError> {
        let numbered = self.emission.numbered();
        let size = self.ends.size();
        let touched = &self.partitions.touched;
        let (rows, slots) = self.partitions.table.row_entries(self.rows)?;
        rows.pack(batch.columns(), candidates, &mut self.packed)?;
        let kinds = batch.kinds().map(|kinds| &kinds.values()[..]);
        for (number, row) in candidates.iter().enumerate() {
            let group = touched.groups.get(*row as usize).copied().unwrap_or_default();
            let slot = touched.slots.get(group as usize).copied().unwrap_or_default();
            let Some(Some(buffer)) = self.buffers.get_mut(slot as usize) else {
                return Err(OperatorError::Internal("a partition without its buffer".to_owned()));
            };
            let before = buffer.bytes();
            let key = S::key(encoded, *row as usize);
            let arrival = Arrival { packed: &self.packed, number, row: *row };
            let takes = buffer.takes(&key, size);
            let mut partition =
                Partition { slot, end: self.ends.of(group), buffer, rows, slots, out: &mut self.output };
            match &mut self.strategy {
                Strategy::Append if takes => partition.append(&key, arrival, numbered)?,
                Strategy::Append => {}
                Strategy::Top1 => partition.top1(&key, arrival)?,
                Strategy::Update(keys) => partition.update(&key, arrival, numbered, size, keys)?,
                Strategy::Retract => {
                    let kind = kinds.and_then(|kinds| kinds.get(*row as usize)).copied().unwrap_or_default();
                    if RowKind::from_byte(kind).is_none_or(RowKind::is_accumulate) {
                        partition.accumulate(&key, arrival, numbered)?;
                    } else {
                        partition.retract(&key, arrival, numbered);
                    }
                }
            }
            let after = partition.buffer.bytes();
            self.buffer_bytes = self.buffer_bytes + after - before;
        }
        self.output.end(batch, rows)
    }

    /// Keeps the partitions of the batch, and forgets those without rows.
    fn commit(&mut self) -> Result<(), OperatorError> {
        self.partitions.table.commit(&self.partitions.touched.slots);
        if self.ends.outlives_rows() {
            return Ok(());
        }
        for slot in &self.partitions.touched.slots {
            let Some(buffer) = self.buffers.get_mut(*slot as usize) else { continue };
            if buffer.as_ref().is_some_and(|buffer| buffer.groups.is_empty()) {
                *buffer = None;
                self.partitions.table.remove(*slot)?;
            }
        }
        Ok(())
    }
}

impl<S: SortKeys> Operator for TopN<S>
where
    S::Encoded: Send,
{
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let retracts = |kind: &u8| RowKind::from_byte(*kind).is_none_or(|kind| !kind.is_accumulate());
        if matches!(self.strategy, Strategy::Append)
            && batch.kinds().is_some_and(|kinds| kinds.values().iter().any(retracts))
        {
            return Err(OperatorError::UnexpectedRetraction);
        }
        self.partitions.load(&batch)?;
        self.ends.load(&batch, &self.partitions.touched, &mut self.partitions.table)?;
        self.load_buffers()?;
        self.output.begin();
        let encoded = self.keys.encode(batch.columns(), batch.num_rows())?;
        let candidates = self.candidates(&encoded)?;
        self.process(&batch, &encoded, &candidates)?;
        self.commit()
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.output.pull()
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.partitions.table)
    }

    fn bundle_bytes(&self) -> usize {
        let keys = match &self.strategy {
            Strategy::Update(keys) => keys.bytes(),
            _ => 0,
        };
        self.buffer_bytes
            + self.buffers.capacity() * size_of::<Option<Buffer<S>>>()
            + keys
            + self.output.bytes()
            + self.packed.bytes()
    }
}
