//! The buffers of all partitions, and what a frame of rows does to them.
//!
//! Without mini-batch each row emits what it changes, as Flink's does. In a bundle rows only change the buffers; what goes out
//! is what the ranks of the touched partitions differ in at its end ([`Net`]).

use std::ops::Range;

use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;
use streamfusion_plan::node::{self, RankStrategy};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::codec::Required;
use streamfusion_state::{Identity, KeyedTable, PackedRows, RowEntriesId, RowLayout, StateContext};

use super::buffer::{Arrival, Buffer, Partition};
use super::keyed::{Partitions, RankEnds};
use super::net::{Key, Net};
use super::output::Output;
use super::sort_key::SortKeys;
use super::update::KeysAt;
use super::{Emission, definitions, is_top1};
use crate::OperatorError;
use crate::bundle::{Emitted, FrameFold};

/// How the input changes, and what is made of it.
#[derive(Debug)]
enum Strategy<K> {
    Append,
    Top1,
    Update(KeysAt<K>),
    Retract,
    /// The same with a state time-to-live.
    Expiring,
}

impl<K: Clone> Strategy<K> {
    fn of(spec: &node::Rank) -> Self {
        match spec.strategy {
            _ if is_top1(spec) => Self::Top1,
            RankStrategy::AppendFast => Self::Append,
            RankStrategy::UpdateFast { .. } => Self::Update(KeysAt::new()),
            RankStrategy::Retract if spec.ttl_ms > 0 => Self::Expiring,
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
            Self::Expiring => "expiring_top_n",
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Ranked<S: SortKeys> {
    partitions: Partitions,
    ends: RankEnds,
    rows: RowEntriesId<u32>,
    keys: S,
    strategy: Strategy<S::Key>,
    /// By slot; none where the rows of the slot were not asked for yet.
    buffers: Vec<Option<Buffer<S>>>,
    emission: Emission,
    /// The batches of the frame.
    inputs: Vec<Input<S::Encoded>>,
    net: Net,
    output: Output,
    candidates: Vec<u32>,
    packed: PackedRows,
    buffer_bytes: usize,
}

/// Groups of each partition of a frame that are looked at for rows that have expired, at least.
const SWEPT_GROUPS: usize = 8;

/// A batch of the frame.
#[derive(Debug)]
struct Input<E> {
    batch: Batch,
    kinds: Option<ScalarBuffer<u8>>,
    /// Its rows, numbered through all batches of the frame.
    rows: Range<usize>,
    /// Their sort keys.
    encoded: E,
}

impl<S: SortKeys> Ranked<S> {
    pub(super) fn try_new(
        spec: &node::Rank,
        input: &LogicalType,
        keys: S,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let strategy = Strategy::of(spec);
        let mut partitions = Partitions::try_new(strategy.table(), spec, input, context)?;
        let ends = RankEnds::new(spec, &mut partitions.table, &context.clock);
        let identity = match (&strategy, &spec.strategy) {
            (Strategy::Update(_), RankStrategy::UpdateFast { primary_keys }) => Identity::Columns(primary_keys.clone()),
            _ => Identity::None,
        };
        let layout = RowLayout::try_new(&partitions.types)?;
        let codec = Required::new("unmatched", DataType::UInt32);
        let definitions = definitions(&spec.order_by, input);
        let rows = partitions.table.add_row_entries("ranked_rows", definitions, layout, identity, codec, 0)?;
        if matches!(strategy, Strategy::Expiring) {
            partitions.table.row_entries(rows)?.0.keep_expired();
        }
        let emission = Emission::of(spec);
        let key = if emission.row_number || matches!(strategy, Strategy::Top1) { Key::Rank } else { Key::Row };
        Ok(Self {
            partitions,
            ends,
            rows,
            keys,
            strategy,
            buffers: Vec::new(),
            emission,
            inputs: Vec::new(),
            net: Net::new(key),
            output: Output::new(emission),
            candidates: Vec::new(),
            packed: PackedRows::default(),
            buffer_bytes: 0,
        })
    }

    pub(super) fn state(&mut self) -> &mut KeyedTable {
        &mut self.partitions.table
    }

    /// Makes the buffers of the partitions of the frame that have none yet, or whose rows left memory.
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
            let Some(buffer) = self.buffers.get_mut(*slot as usize) else { continue };
            let clearings = rows.clearings(*slot);
            if let Some(buffer) = buffer {
                if buffer.clearings == clearings {
                    continue;
                }
                self.buffer_bytes -= buffer.measured;
            }
            *buffer = Some(Buffer::new(clearings));
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
        if matches!(self.strategy, Strategy::Expiring) {
            return Ok(());
        }
        of_slot.dedup();
        for slot in of_slot {
            if let Some(Some(buffer)) = self.buffers.get(slot as usize) {
                buffer.restored()?;
            }
        }
        Ok(())
    }

    /// The batches that have rows of the frame among these, and which of their rows those are.
    fn runs(inputs: &[Input<S::Encoded>], rows: &Range<usize>) -> Vec<(usize, Range<usize>)> {
        let first = inputs.partition_point(|input| input.rows.end <= rows.start);
        let inputs = inputs.iter().enumerate().skip(first).take_while(|(_, input)| input.rows.start < rows.end);
        let within = |(number, input): (usize, &Input<S::Encoded>)| {
            let start = rows.start.max(input.rows.start) - input.rows.start;
            (number, start..rows.end.min(input.rows.end) - input.rows.start)
        };
        inputs.map(within).collect()
    }

    /// Finds the rows of a batch that may change something.
    fn find_candidates(&mut self, input: usize, rows: Range<usize>) -> Result<(), OperatorError> {
        self.candidates.clear();
        let Some(input) = self.inputs.get(input) else { return Ok(()) };
        let (Ok(start), Ok(end)) = (u32::try_from(rows.start), u32::try_from(rows.end)) else {
            return Err(OperatorError::TooLarge);
        };
        let size = match self.strategy {
            Strategy::Append => self.ends.size(),
            Strategy::Top1 => 1,
            Strategy::Update(_) | Strategy::Retract | Strategy::Expiring => {
                self.candidates.extend(start..end);
                return Ok(());
            }
        };
        // once a buffer is full it stays so, and its last row can only become a better one
        let touched = &self.partitions.touched;
        let bound = |slot: &u32| {
            let buffer = self.buffers.get(*slot as usize)?.as_ref().filter(|buffer| buffer.total >= size)?;
            buffer.groups.last().map(|(key, _)| key)
        };
        let groups = touched.groups.get(input.rows.clone()).unwrap_or_default();
        let may = |row: u32, bound: Option<&S::Key>| {
            bound.is_none_or(|bound| S::compare(&input.encoded, row as usize, bound).is_lt())
        };
        if rows.len() < touched.slots.len() {
            for row in start..end {
                let slot = groups.get(row as usize).and_then(|group| touched.slots.get(*group as usize));
                if may(row, slot.and_then(bound)) {
                    self.candidates.push(row);
                }
            }
            return Ok(());
        }
        let bounds: Vec<Option<&S::Key>> = touched.slots.iter().map(bound).collect();
        let top1 = matches!(self.strategy, Strategy::Top1);
        // per group: the row of this batch that is its first one by now
        let mut firsts = vec![None; if top1 { bounds.len() } else { 0 }];
        for row in start..end {
            let Some(group) = groups.get(row as usize) else { continue };
            let mut first = firsts.get_mut(*group as usize);
            let may = match first.as_deref().copied().flatten() {
                Some(first) => S::order(&input.encoded, row as usize, first).is_lt(),
                None => may(row, bounds.get(*group as usize).copied().flatten()),
            };
            if may {
                self.candidates.push(row);
                if let Some(first) = &mut first {
                    **first = Some(row as usize);
                }
            }
        }
        Ok(())
    }

    /// Works off the candidates of a batch.
    fn process(&mut self, input: usize, mode: Mode) -> Result<(), OperatorError> {
        let numbered = self.emission.numbered();
        let size = self.ends.size();
        let touched = &self.partitions.touched;
        let Some(Input { batch, kinds, rows: of_batch, encoded }) = self.inputs.get(input) else { return Ok(()) };
        let (rows, slots) = self.partitions.table.row_entries(self.rows)?;
        rows.pack(batch.columns(), &self.candidates, &mut self.packed)?;
        let groups = touched.groups.get(of_batch.clone()).unwrap_or_default();
        for (number, row) in self.candidates.iter().enumerate() {
            let group = groups.get(*row as usize).copied().unwrap_or_default();
            let slot = touched.slots.get(group as usize).copied().unwrap_or_default();
            let Some(Some(buffer)) = self.buffers.get_mut(slot as usize) else {
                return Err(OperatorError::Internal("a partition without its buffer".to_owned()));
            };
            let end = self.ends.of(group);
            if mode == Mode::Bundle {
                self.net.touch(group, slot, self.emission.ranks(end), rows);
            }
            let key = S::key(encoded, *row as usize);
            let arrival = Arrival { packed: &self.packed, number };
            let mut partition = Partition { slot, end, buffer, rows, slots, out: &mut self.output };
            match &mut self.strategy {
                Strategy::Append if !partition.buffer.takes(&key, size) => {}
                Strategy::Append if mode == Mode::Bundle => partition.append_silently(&key, arrival, numbered)?,
                Strategy::Append => partition.append(&key, arrival, numbered)?,
                Strategy::Top1 => partition.top1(&key, arrival)?,
                Strategy::Update(keys) => partition.update(&key, arrival, numbered, size, keys)?,
                Strategy::Expiring if accumulates(kinds.as_ref(), *row) => {
                    partition.accumulate_expiring(&key, arrival, numbered)?;
                }
                Strategy::Expiring => partition.retract_expiring(&key, arrival, numbered),
                Strategy::Retract => match (accumulates(kinds.as_ref(), *row), mode) {
                    (true, Mode::EachRow) => partition.accumulate(&key, arrival, numbered)?,
                    (true, Mode::Bundle) => partition.accumulate_silently(&key, arrival)?,
                    (false, Mode::EachRow) => partition.retract(&key, arrival, numbered),
                    (false, Mode::Bundle) => partition.retract_silently(&key, arrival),
                },
            }
        }
        Ok(())
    }

    /// Frees some of what has expired in the partitions of the frame.
    fn sweep(&mut self) -> Result<(), OperatorError> {
        let touched = &self.partitions.touched;
        // faster than groups come
        let groups = SWEPT_GROUPS + 2 * touched.groups.len() / touched.slots.len().max(1);
        let (rows, slots) = self.partitions.table.row_entries(self.rows)?;
        for slot in &touched.slots {
            if let Some(Some(buffer)) = self.buffers.get_mut(*slot as usize) {
                Partition { slot: *slot, end: 0, buffer, rows, slots, out: &mut self.output }.sweep(groups);
            }
        }
        Ok(())
    }

    /// Keeps the partitions of the frame, and forgets those without rows.
    fn commit(&mut self) -> Result<(), OperatorError> {
        self.partitions.table.commit(&self.partitions.touched.slots);
        for slot in &self.partitions.touched.slots {
            let Some(place) = self.buffers.get_mut(*slot as usize) else { continue };
            let Some(buffer) = place else { continue };
            self.buffer_bytes = self.buffer_bytes + buffer.bytes() - buffer.measured;
            buffer.measured = buffer.bytes();
            if buffer.groups.is_empty() && !self.ends.outlives_rows() {
                self.buffer_bytes -= buffer.measured;
                *place = None;
                self.partitions.table.remove(*slot)?;
            }
        }
        Ok(())
    }
}

/// Whether a row of a batch of these kinds is +I or +U.
#[inline]
fn accumulates(kinds: Option<&ScalarBuffer<u8>>, row: u32) -> bool {
    let kind = kinds.and_then(|kinds| kinds.get(row as usize)).copied().unwrap_or_default();
    RowKind::from_byte(kind).is_none_or(RowKind::is_accumulate)
}

/// When changes go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// With each row.
    EachRow,
    /// At the end of a bundle.
    Bundle,
}

impl<S: SortKeys> FrameFold for Ranked<S> {
    fn begin(&mut self, batches: &[Batch]) -> Result<(), OperatorError> {
        self.partitions.load(batches)?;
        self.ends.load(batches, &self.partitions.touched, &mut self.partitions.table)?;
        self.load_buffers()?;
        self.output.begin();
        self.net.begin(self.partitions.touched.slots.len());
        self.inputs.clear();
        let mut first = 0;
        for batch in batches {
            let rows = first..first + batch.num_rows();
            first = rows.end;
            let encoded = self.keys.encode(batch.columns(), batch.num_rows())?;
            let kinds = batch.kinds().map(|kinds| kinds.values().clone());
            self.inputs.push(Input { batch: batch.clone(), kinds, rows, encoded });
        }
        Ok(())
    }

    fn bundle(&mut self, rows: Range<usize>) -> Result<usize, OperatorError> {
        let groups = self.partitions.touched.groups.get(rows.clone()).unwrap_or_default();
        let touched = self.net.begin_bundle(groups);
        self.output.mute(true);
        for (input, rows) in Self::runs(&self.inputs, &rows) {
            self.find_candidates(input, rows)?;
            self.process(input, Mode::Bundle)?;
        }
        self.output.mute(false);
        let (rows, _) = self.partitions.table.row_entries(self.rows)?;
        let (slots, ends, emission) = (&self.partitions.touched.slots, &self.ends, self.emission);
        let partition = |group: u32| {
            let slot = slots.get(group as usize).copied().unwrap_or_default();
            (slot, emission.ranks(ends.of(group)))
        };
        self.net.end_bundle(partition, rows, &mut self.output);
        Ok(touched)
    }

    fn each_row(&mut self) -> Result<(), OperatorError> {
        for input in 0..self.inputs.len() {
            let rows = self.inputs.get(input).map_or(0, |input| input.batch.num_rows());
            self.find_candidates(input, 0..rows)?;
            self.process(input, Mode::EachRow)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Emitted, OperatorError> {
        self.inputs.clear();
        if matches!(self.strategy, Strategy::Expiring) {
            self.sweep()?;
        }
        let (rows, _) = self.partitions.table.row_entries(self.rows)?;
        self.output.end(rows)?;
        self.commit()?;
        Ok(Emitted { changes: self.net.changes(), rows: self.output.len() })
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.output.pull()
    }

    fn survivors(&mut self) -> Result<Option<Vec<Batch>>, OperatorError> {
        Ok(None)
    }

    fn bytes(&self) -> usize {
        let keys = match &self.strategy {
            Strategy::Update(keys) => keys.bytes(),
            _ => 0,
        };
        self.buffer_bytes
            + self.buffers.capacity() * size_of::<Option<Buffer<S>>>()
            + keys
            + self.net.bytes()
            + self.output.bytes()
            + self.packed.bytes()
            + self.candidates.capacity() * size_of::<u32>()
    }
}
