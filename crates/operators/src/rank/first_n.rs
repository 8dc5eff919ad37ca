//! The first rows of each partition, as they come: Top-N in the order of processing time.
//!
//! Follows: AppendOnlyFirstNFunction, Flink 2.2. Differences: none.

use arrow::datatypes::DataType;
use streamfusion_plan::node;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::codec::Required;
use streamfusion_state::{ColumnId, KeyedState, StateContext};

use super::keyed::Partitions;
use super::output::Output;
use super::{Emission, RankEnds};
use crate::{Operator, OperatorError, Residence};

const TABLE: &str = "first_n";

/// See the [module](self).
#[derive(Debug)]
pub(super) struct FirstN {
    partitions: Partitions,
    ends: RankEnds,
    /// Rows so far.
    counts: ColumnId<i32>,
    emission: Emission,
    output: Output,
}

impl FirstN {
    pub(super) fn try_new(
        spec: &node::Rank,
        input: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let mut partitions = Partitions::try_new(TABLE, spec, input, context)?;
        let codec = Required::new("", DataType::Int32);
        let counts = partitions.table.add_column("count", None, codec, 0);
        let emission = Emission::of(spec);
        Ok(Self {
            ends: RankEnds::new(spec, &mut partitions.table, &context.clock),
            partitions,
            counts,
            emission,
            output: Output::new(emission),
        })
    }
}

impl Operator for FirstN {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if batch.kinds().is_some_and(|kinds| kinds.values().iter().any(|kind| *kind != RowKind::Insert as u8)) {
            return Err(OperatorError::UnexpectedRetraction);
        }
        let Self { partitions, ends, counts, emission, output } = self;
        let batches = std::slice::from_ref(&batch);
        partitions.load(batches)?;
        ends.load(batches, &partitions.touched, &mut partitions.table)?;
        output.begin();
        let Partitions { table, touched, .. } = partitions;
        let column = table.column(*counts)?;
        let mut written = Vec::new();
        for (row, group) in (0..).zip(&touched.groups) {
            let slot = touched.slots.get(*group as usize).copied().unwrap_or_default();
            let (count, end) = (*column.get(slot), ends.of(*group));
            if i64::from(count) >= end {
                continue;
            }
            let count = count.wrapping_add(1);
            column.set(slot, count);
            written.push(slot);
            let rank = i64::from(count);
            if !emission.numbered() || output.in_range(rank, end) {
                output.emit(RowKind::Insert, row, rank);
            }
        }
        let uncounted = touched.slots.iter().copied().filter(|slot| *column.get(*slot) == 0);
        // of these only the last rank is kept, as long as that says
        written.extend(uncounted);
        table.commit(&written);
        output.end_stateless(&batch)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.output.pull()
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.partitions.table)
    }

    fn residence(&self) -> Residence {
        Residence::Cached
    }

    fn bundle_bytes(&self) -> usize {
        self.output.bytes()
    }
}
