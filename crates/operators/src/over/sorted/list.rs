//! The rows of a partition in sort order, and what a row that comes or goes changes.
//!
//! Rows with equal sort keys stand in the order in which they came. Values are not kept: those of a list are had by folding it, which is
//! noted in a [`Fold`] and done for many changes at once. Only behind the last row of a list its accumulators are kept, so that a row that
//! comes last costs one step.

use std::ops::Range;

/// Where a row lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In state, at this position.
    State(u32),
    /// In the batch that is being taken.
    Batch(u32),
}

/// No value is known of a row.
pub(super) const NONE: u32 = u32::MAX;

/// A row of a list.
#[derive(Debug, Clone)]
pub(super) struct Node<K> {
    pub(super) key: K,
    pub(super) place: Place,
    /// The step of the [`Fold`] that has its value, or [`NONE`].
    pub(super) value: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct List<K> {
    pub(super) nodes: Vec<Node<K>>,
    /// The accumulators behind the last row, if they are kept.
    pub(super) tail: Option<Tail>,
    /// Positions in state of rows that were taken back since the batch began.
    pub(super) removed: Vec<u32>,
    /// Whether rows came or went since the batch began.
    pub(super) changed: bool,
    /// How often the rows of its slot had been [cleared](streamfusion_state::RowEntries::clearings) when it was made.
    pub(super) clearings: u32,
    /// Bytes that were counted last.
    pub(super) measured: usize,
}

/// Accumulators of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) slot: u32,
    /// Their number in the fold, if they have one already.
    pub(super) group: Option<u32>,
}

/// What rows are accumulated into which group, in order. The groups have slots, by number.
#[derive(Debug, Default)]
pub(super) struct Fold {
    pub(super) places: Vec<Place>,
    pub(super) groups: Vec<u32>,
    /// Steps with equal ones have one value, if values are shared.
    pub(super) runs: Vec<i64>,
    /// The slots of groups.
    pub(super) slots: Vec<u32>,
    run: i64,
}

impl Fold {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.groups.clear();
        self.runs.clear();
        self.slots.clear();
    }

    fn group(&mut self, slot: u32) -> u32 {
        self.slots.push(slot);
        // no more groups than slots, which are counted in 32 bits
        (self.slots.len() - 1) as u32
    }

    /// Adds the step of a row, and returns its number.
    fn step(&mut self, place: Place, group: u32) -> u32 {
        self.places.push(place);
        self.groups.push(group);
        self.runs.push(self.run);
        // a fold is run long before it has as many steps as 32 bits count
        (self.places.len() - 1) as u32
    }

    pub(super) fn bytes(&self) -> usize {
        self.places.capacity() * (size_of::<Place>() + size_of::<u32>() + size_of::<i64>())
            + self.slots.capacity() * size_of::<u32>()
    }
}

/// What becomes of a row of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// It is new, of this kind.
    Insert(u8),
    Delete,
    /// It is updated, if its value changed.
    Update,
}

/// A row of the output, or two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) place: Place,
    pub(super) what: What,
    /// The steps of its value before and behind the change.
    pub(super) old: u32,
    pub(super) new: u32,
    /// Whether it stands in the order with the row that came or went: if its value stays, those behind may change all the same.
    pub(super) beside: bool,
    /// Which row of the batch it comes from.
    pub(super) row: u32,
}

/// What a change is made with.
pub(super) struct Folding<'a> {
    pub(super) fold: &'a mut Fold,
    pub(super) changes: &'a mut Vec<Change>,
    /// Makes a slot without accumulators.
    pub(super) slots: &'a mut dyn FnMut() -> Result<u32, crate::OperatorError>,
    /// Slots that nothing needs once the fold was run.
    pub(super) freed: &'a mut Vec<u32>,
    /// Whether rows with equal sort keys share a value.
    pub(super) shares: bool,
}

impl<K: Ord + Clone> List<K> {
    pub(super) fn new(clearings: u32) -> Self {
        Self { nodes: Vec::new(), tail: None, removed: Vec::new(), changed: false, clearings, measured: 0 }
    }

    /// Bytes that its nodes take.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<K>>()
    }

    /// The rows with this sort key.
    pub(super) fn equal(&self, key: &K) -> Range<usize> {
        let start = self.nodes.partition_point(|node| node.key < *key);
        let equal = self.nodes.get(start..).unwrap_or_default().partition_point(|node| node.key == *key);
        start..start + equal
    }

    /// Takes in row `row` of the batch, of this kind.
    pub(super) fn insert(
        &mut self,
        key: K,
        row: u32,
        kind: u8,
        with: &mut Folding<'_>,
    ) -> Result<(), crate::OperatorError> {
        let equal = self.equal(&key);
        let at = equal.end;
        let beside = if with.shares { equal.clone() } else { at..at };
        let place = Place::Batch(row);
        self.changed = true;
        if at == self.nodes.len() && beside.is_empty() {
            self.nodes.push(Node { key, place, value: NONE });
            self.append(with)?;
            let new = self.nodes.last().map_or(NONE, |node| node.value);
            with.changes.push(Change { place, what: What::Insert(kind), old: NONE, new, beside: true, row });
            return Ok(());
        }
        self.know_values(beside.start..self.nodes.len(), with)?;
        let old: Vec<u32> = self.nodes.iter().skip(beside.start).map(|node| node.value).collect();
        self.nodes.insert(at, Node { key, place, value: NONE });
        self.refold(with)?;
        let mut old = old.into_iter();
        for (number, node) in self.nodes.iter().enumerate().skip(beside.start) {
            let (what, old) = match number == at {
                true => (What::Insert(kind), NONE),
                false => (What::Update, old.next().unwrap_or(NONE)),
            };
            let change = Change { place: node.place, what, old, new: node.value, beside: number <= at, row };
            with.changes.push(change);
        }
        Ok(())
    }

    /// Takes back the row at `at`; row `row` of the batch does.
    pub(super) fn remove(&mut self, at: usize, row: u32, with: &mut Folding<'_>) -> Result<(), crate::OperatorError> {
        let Some(node) = self.nodes.get(at) else { return Ok(()) };
        let equal = self.equal(&node.key.clone());
        let first = if with.shares { equal.start } else { at };
        let end = if with.shares { equal.end } else { at + 1 };
        self.changed = true;
        self.know_values(first..self.nodes.len(), with)?;
        let old: Vec<u32> = self.nodes.iter().skip(first).map(|node| node.value).collect();
        let gone = self.nodes.remove(at);
        if let Place::State(position) = gone.place {
            self.removed.push(position);
        }
        if self.nodes.len() == first {
            // nobody behind it: what comes next has to begin anew
            self.drop_tail(with);
        } else {
            self.refold(with)?;
        }
        let mut left = self.nodes.iter().skip(first);
        for (number, old) in (first..).zip(old) {
            let beside = number < end;
            let change = if number == at {
                Change { place: gone.place, what: What::Delete, old, new: NONE, beside, row }
            } else {
                let Some(node) = left.next() else { break };
                Change { place: node.place, what: What::Update, old, new: node.value, beside, row }
            };
            with.changes.push(change);
        }
        Ok(())
    }

    /// Forgets which steps have values, and groups accumulators: the fold was run.
    pub(super) fn forget_values(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.value = NONE);
        if let Some(tail) = &mut self.tail {
            tail.group = None;
        }
    }

    fn drop_tail(&mut self, with: &mut Folding<'_>) {
        if let Some(tail) = self.tail.take() {
            with.freed.push(tail.slot);
        }
    }

    /// Accumulates the last row behind the others.
    fn append(&mut self, with: &mut Folding<'_>) -> Result<(), crate::OperatorError> {
        if self.tail.is_none() && self.nodes.len() > 1 {
            return self.refold(with);
        }
        let slot = match self.tail {
            Some(tail) => tail.slot,
            None => (with.slots)()?,
        };
        let group = self.tail.and_then(|tail| tail.group).unwrap_or_else(|| with.fold.group(slot));
        self.tail = Some(Tail { slot, group: Some(group) });
        with.fold.run += 1;
        if let Some(last) = self.nodes.last_mut() {
            last.value = with.fold.step(last.place, group);
        }
        Ok(())
    }

    /// Accumulates all rows anew.
    fn refold(&mut self, with: &mut Folding<'_>) -> Result<(), crate::OperatorError> {
        self.drop_tail(with);
        let slot = (with.slots)()?;
        let group = with.fold.group(slot);
        self.tail = Some(Tail { slot, group: Some(group) });
        let mut before: Option<&K> = None;
        for node in &mut self.nodes {
            if before != Some(&node.key) {
                with.fold.run += 1;
            }
            node.value = with.fold.step(node.place, group);
            before = Some(&node.key);
        }
        Ok(())
    }

    /// Sees to it that the values of these rows are known.
    fn know_values(&mut self, rows: Range<usize>, with: &mut Folding<'_>) -> Result<(), crate::OperatorError> {
        match self.nodes.get(rows).is_some_and(|rows| rows.iter().any(|node| node.value == NONE)) {
            true => self.refold(with),
            false => Ok(()),
        }
    }
}
