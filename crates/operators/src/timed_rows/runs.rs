//! Which rows are due: rows that wait, as sorted runs.
//!
//! New rows lie in a tail that is sorted when one of them is due. A run that is not much longer than the one behind it is merged with
//! it, so that there are few, and a row is moved a few times however often time advances. Rows that come in order make one run
//! and are never merged.

use super::TimedRow;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: Vec<Run>,
    tail: Vec<TimedRow>,
    /// The earliest time in the tail.
    tail_first: Option<i64>,
}

/// Rows in order; those in front of `head` are gone.
#[derive(Debug)]
struct Run {
    rows: Vec<TimedRow>,
    head: usize,
}

impl Run {
    fn waiting(&self) -> &[TimedRow] {
        self.rows.get(self.head..).unwrap_or_default()
    }
}

impl Runs {
    #[inline]
    pub(super) fn push(&mut self, row: TimedRow) {
        self.tail_first = Some(self.tail_first.map_or(row.time, |first| first.min(row.time)));
        self.tail.push(row);
    }

    /// The earliest time.
    pub(super) fn first_time(&self) -> Option<i64> {
        let runs = self.runs.iter().filter_map(|run| Some(run.waiting().first()?.time));
        runs.chain(self.tail_first).min()
    }

    /// Appends the rows of times up to `time` to `due`, in order.
    pub(super) fn take_until(&mut self, time: i64, due: &mut Vec<TimedRow>) {
        let mut sources = 0;
        for run in &mut self.runs {
            let waiting = run.waiting();
            let count = waiting.partition_point(|row| row.time <= time);
            sources += usize::from(count > 0);
            due.extend_from_slice(waiting.get(..count).unwrap_or_default());
            run.head += count;
            if run.head * 2 > run.rows.len() {
                run.rows.drain(..run.head);
                run.head = 0;
            }
        }
        self.runs.retain(|run| !run.rows.is_empty());
        if self.tail_first.is_some_and(|first| first <= time) {
            sort(&mut self.tail);
            let count = self.tail.partition_point(|row| row.time <= time);
            sources += 1;
            if count == self.tail.len() && due.is_empty() {
                std::mem::swap(&mut self.tail, due);
            } else {
                due.extend(self.tail.drain(..count));
            }
            self.tail_first = None;
            self.end_tail();
        }
        if sources > 1 {
            sort(due);
        }
    }

    /// Makes a run of the tail, which is sorted.
    fn end_tail(&mut self) {
        let Some(first) = self.tail.first() else { return };
        if let Some(last) = self.runs.last_mut()
            && last.rows.last().is_some_and(|last| last.key() <= first.key())
        {
            last.rows.append(&mut self.tail);
            return;
        }
        self.runs.push(Run { rows: std::mem::take(&mut self.tail), head: 0 });
        while let [.., longer, last] = self.runs.as_slice()
            && longer.waiting().len() < 2 * last.waiting().len()
        {
            if let (Some(last), Some(longer)) = (self.runs.pop(), self.runs.last_mut()) {
                longer.rows.drain(..longer.head);
                longer.head = 0;
                longer.rows.extend_from_slice(last.waiting());
                sort(&mut longer.rows);
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TimedRow> {
        self.runs.iter().flat_map(Run::waiting).chain(&self.tail)
    }

    /// The places of rows may be changed, nothing else.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TimedRow> {
        let runs = self.runs.iter_mut().flat_map(|run| run.rows.iter_mut().skip(run.head));
        runs.chain(&mut self.tail)
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.tail.capacity() + self.runs.iter().map(|run| run.rows.capacity()).sum::<usize>();
        rows * size_of::<TimedRow>()
    }
}

/// Sorts rows. Sorted pieces are recognised, so that merging takes linear time.
fn sort(rows: &mut [TimedRow]) {
    if !rows.is_sorted_by_key(TimedRow::key) {
        rows.sort_by_key(TimedRow::key);
    }
}
