//! Preimages from state: a bundle is the difference of the tables before and after it.

use std::num::NonZeroU64;

use arrow::buffer::BooleanBuffer;
use proptest::prelude::*;

use super::*;
use crate::OperatorError;
use crate::bundle::{Boundary, FlushReason, Split};
use crate::changelog::*;

type Table = HashMap<Option<i64>, Content>;

/// An operator that keeps the last row per key, made of nothing but this module and the boundary.
struct KeepLast {
    /// Absent: every row is a bundle.
    boundary: Option<Boundary>,
    rows: BundleRows,
    fold: Fold,
    transitions: Transitions,
    numbers: Numbers,
    table: Table,
    emission: Emission,
    /// Whether rows are compacted after each batch.
    compacts: bool,
    lines: Vec<String>,
}

impl KeepLast {
    fn new(size: Option<u64>, emission: Emission, compacts: bool) -> Self {
        Self {
            boundary: size.map(|size| Boundary::new(NonZeroU64::new(size).unwrap())),
            rows: BundleRows::new(),
            fold: Fold::new(Preimages::Loaded),
            transitions: Transitions::new(),
            numbers: Numbers::default(),
            table: Table::new(),
            emission,
            compacts,
            lines: Vec::new(),
        }
    }

    fn push(&mut self, input: &[Change]) -> Result<(), OperatorError> {
        let batch = batch(input);
        let Some(mut boundary) = self.boundary.take() else { return self.push_each(input, &batch) };
        let mut split = Split::new(batch);
        let mut number = None;
        while let Some(part) = split.next_part(&mut boundary) {
            // once per frame
            let batch = match number {
                Some(batch) => batch,
                None => *number.insert(self.rows.add(split.batch())?),
            };
            let keys = self.numbers.assign(&input[part.rows.clone()]);
            let kinds = split.batch().kinds().map(|kinds| &kinds.values()[part.rows.clone()]);
            self.fold.push(batch, part.rows.start as u32, &keys, kinds)?;
            if part.ends_bundle {
                self.flush(&mut boundary, FlushReason::Count)?;
            }
            if part.ends_frame {
                self.end_frame(&mut boundary)?;
                number = None;
            }
        }
        // in front of its first end the frame has no transitions, which would refer to rows as well
        if self.compacts {
            assert!(self.transitions.as_slice().is_empty());
            self.fold.compact_now(&mut self.rows)?;
        }
        self.boundary = Some(boundary);
        Ok(())
    }

    fn push_each(&mut self, input: &[Change], batch: &Batch) -> Result<(), OperatorError> {
        let number = self.rows.add(batch)?;
        let keys = self.numbers.assign(input);
        self.load()?;
        let kinds = batch.kinds().map(|kinds| kinds.values().as_ref());
        self.fold.push_each(number, 0, &keys, kinds, &mut self.transitions)?;
        self.emit()?;
        Ok(())
    }

    /// Ends the input.
    fn finish(&mut self) -> Result<(), OperatorError> {
        if let Some(mut boundary) = self.boundary.take() {
            if boundary.is_open() {
                self.flush(&mut boundary, FlushReason::EndOfInput)?;
                self.end_frame(&mut boundary)?;
            }
            self.boundary = Some(boundary);
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), OperatorError> {
        let rows: Vec<Option<Change>> = self.numbers.keys[self.fold.to_load().start..]
            .iter()
            .map(|key| self.table.get(key).map(|content| Change { kind: 0, key: *key, content: content.clone() }))
            .collect();
        let preimages = self.rows.add(&batch(rows.iter().flatten()))?;
        let mut places = (0..).map(|row| RowRef::new(preimages, row));
        self.fold.load(rows.iter().map(|row| row.as_ref().and_then(|_| places.next())));
        Ok(())
    }

    fn flush(&mut self, boundary: &mut Boundary, reason: FlushReason) -> Result<(), OperatorError> {
        self.load()?;
        boundary.end(reason, self.fold.touched().len());
        self.fold.end_bundle(&mut self.transitions);
        Ok(())
    }

    fn end_frame(&mut self, boundary: &mut Boundary) -> Result<(), OperatorError> {
        let rows_out = self.lines.len();
        let changes = self.emit()?;
        boundary.emitted(changes, self.lines.len() - rows_out);
        Ok(())
    }

    /// Commits and emits all transitions.
    fn emit(&mut self) -> Result<usize, OperatorError> {
        self.transitions.cancel_equal(&self.rows, 0..self.rows.num_columns(), Floats::Bits)?;
        for transition in self.transitions.composed().as_slice() {
            let key = self.numbers.keys[transition.key as usize];
            let loaded = transition.before.is_some();
            match transition.after {
                Some(row) => {
                    let content = changes(&self.rows.gather(&[row])?).remove(0).content;
                    assert_eq!(self.table.insert(key, content).is_some(), loaded);
                }
                None => assert!(self.table.remove(&key).is_some()),
            }
        }
        let mut out = Changes::new();
        self.transitions.emit(self.emission, &mut out);
        while let Some(batch) = out.pull(&self.rows)? {
            self.lines.extend(changes(&batch).iter().map(line));
        }
        let changes = self.transitions.as_slice().len();
        self.transitions.clear();
        self.fold.end_frame();
        self.rows.clear();
        self.numbers = Numbers::default();
        Ok(changes)
    }
}

const RETRACTING: Emission = Emission { update_before: UpdateBefore::Emit, unseen: Unseen::Insert };

/// The operator after all of the input. `cuts` are the sizes of physical batches.
fn run(
    input: &[Change],
    size: Option<u64>,
    cuts: &[usize],
    emission: Emission,
    compacts: bool,
) -> Result<KeepLast, OperatorError> {
    let mut operator = KeepLast::new(size, emission, compacts);
    let mut rest = input;
    for cut in cuts.iter().chain([&usize::MAX]) {
        let (part, behind) = rest.split_at((*cut).min(rest.len()));
        operator.push(part)?;
        rest = behind;
    }
    operator.finish()?;
    Ok(operator)
}

/// The same from two tables.
fn model(input: &[Change], size: u64) -> (Vec<String>, Table) {
    let mut table = Table::new();
    let bundles = input.chunks(size as usize).map(|bundle| {
        let before = table.clone();
        let mut touched = Vec::new();
        for row in bundle {
            if !touched.contains(&row.key) {
                touched.push(row.key);
            }
            if row.kind == 0 || row.kind == 2 {
                table.insert(row.key, row.content.clone());
            } else {
                table.remove(&row.key);
            }
        }
        let mut lines = Vec::new();
        for key in touched {
            let mut emit = |kind, content: &Content| lines.push(line(&Change { kind, key, content: content.clone() }));
            match (before.get(&key), table.get(&key)) {
                (None, Some(new)) => emit(0, new),
                (Some(old), Some(new)) if old != new => {
                    emit(1, old);
                    emit(2, new);
                }
                (Some(old), None) => emit(3, old),
                _ => {}
            }
        }
        lines
    });
    (bundles.collect::<Vec<_>>().concat(), table)
}

fn input() -> impl Strategy<Value = Vec<Change>> {
    let text = prop::sample::select(vec![None, Some("a"), Some("bc")]);
    let key = prop_oneof![4 => (0_i64..5).prop_map(Some), 1 => Just(None)];
    let row = (prop::sample::select(vec![0_u8, 0, 2, 1, 3]), key, 0_i64..2, text)
        .prop_map(|(kind, key, number, text)| Change { kind, key, content: (number, text.map(str::to_owned)) });
    prop::collection::vec(row, 0..60)
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0_usize..12, 0..10)
}

/// Replays a changelog that must fit at every row.
fn replay(lines: &[String]) -> Table {
    let mut table = Table::new();
    for text in lines {
        let Change { kind, key, content } = change(text);
        match kind {
            0 => assert_eq!(table.insert(key, content), None, "{text}"),
            2 => drop(table.insert(key, content)),
            _ => assert_eq!(table.remove(&key), Some(content), "{text}"),
        }
    }
    table
}

proptest! {
    #[test]
    fn bundle_is_the_difference_of_the_tables(input in input(), size in 1_u64..20, cuts in cuts()) {
        let operator = run(&input, Some(size), &cuts, RETRACTING, false)?;
        let (lines, table) = model(&input, size);
        prop_assert_eq!(&operator.lines, &lines);
        prop_assert_eq!(&operator.table, &table);
        prop_assert_eq!(replay(&lines), table);
        let boundary = operator.boundary.unwrap();
        let metrics = boundary.metrics();
        let changes = lines.iter().filter(|line| !line.starts_with("-U")).count() as u64;
        prop_assert_eq!(metrics.rows_in, input.len() as u64);
        prop_assert_eq!(metrics.bundles, metrics.rows_in.div_ceil(size));
        prop_assert_eq!(metrics.rows_out, lines.len() as u64);
        prop_assert_eq!(metrics.cancelled_changes, metrics.rows_in - changes);
    }

    #[test]
    fn batch_cuts_and_compaction_do_not_matter(input in input(), size in 1_u64..20, cuts in cuts()) {
        let whole = run(&input, Some(size), &[], RETRACTING, false)?;
        prop_assert_eq!(run(&input, Some(size), &cuts, RETRACTING, true)?.lines, whole.lines);
    }

    #[test]
    fn without_mini_batch_every_row_is_a_bundle(input in input(), cuts in cuts()) {
        let operator = run(&input, None, &cuts, RETRACTING, false)?;
        let (lines, table) = model(&input, 1);
        prop_assert_eq!(operator.lines, lines);
        prop_assert_eq!(operator.table, table);
    }

    #[test]
    fn without_update_before_only_that_is_missing(input in input(), size in 1_u64..20) {
        let omit = Emission { update_before: UpdateBefore::Omit, unseen: Unseen::Insert };
        let mut expected = run(&input, Some(size), &[], RETRACTING, false)?.lines;
        expected.retain(|line| !line.starts_with("-U"));
        prop_assert_eq!(run(&input, Some(size), &[], omit, false)?.lines, expected);
    }

    #[test]
    fn fold_is_associative_over_cuts(input in input(), size in 1_u64..30) {
        // folding what is left of the parts leaves what is left of the whole
        let parts = run(&input, Some(size), &[], RETRACTING, false)?;
        let left: Vec<Change> = parts.lines.iter().map(|line| change(line)).collect();
        let mut refolded = run(&left, Some(1000), &[], RETRACTING, false)?;
        let mut whole = run(&input, Some(1000), &[], RETRACTING, false)?;
        prop_assert_eq!(&refolded.table, &whole.table);
        // a key may be touched first by a change that left nothing
        refolded.lines.sort();
        whole.lines.sort();
        prop_assert_eq!(refolded.lines, whole.lines);
    }
}

#[test]
fn changes_leave_in_first_touch_order() -> Result<(), OperatorError> {
    let input = ["+I 7 1 a", "+I null 1 b", "+I 3 1 c", "+U 7 2 d", "+I 9 1 e", "-D 9 1 e", "-D 4 1 never"].map(change);
    assert_eq!(run(&input, Some(100), &[], RETRACTING, false)?.lines, ["+I 7 2 d", "+I null 1 b", "+I 3 1 c"]);
    Ok(())
}

#[test]
fn order_is_that_of_the_bundle_and_not_of_the_frame() -> Result<(), OperatorError> {
    let input = ["+I 1 1 a", "+I 2 1 a", "+U 2 2 b", "+U 1 2 b"].map(change);
    let expected = ["+I 1 1 a", "+I 2 1 a", "-U 2 1 a", "+U 2 2 b", "-U 1 1 a", "+U 1 2 b"];
    assert_eq!(run(&input, Some(2), &[], RETRACTING, false)?.lines, expected);
    Ok(())
}

#[test]
fn storm_of_replacements_leaves_one_change_per_key() -> Result<(), OperatorError> {
    let row = |number: i64| change(&format!("+U {} {number} a", number % 64));
    let input: Vec<Change> = (0..4096).map(row).collect();
    let operator = run(&input, Some(4096), &[256; 15], RETRACTING, false)?;
    let boundary = operator.boundary.unwrap();
    let metrics = boundary.metrics();
    assert_eq!((metrics.rows_out, metrics.touched_keys, metrics.cancelled_changes), (64, 64, 4032));
    Ok(())
}

#[test]
fn postimage_that_does_not_pass_deletes_or_vanishes() -> Result<(), OperatorError> {
    let mut rows = BundleRows::new();
    let state = rows.add(&batch(&["+I 1 10 a", "+I 2 20 b"].map(change)))?;
    let input = rows.add(&batch(&["+U 1 11 a", "+U 3 30 c", "-D 2 20 b", "+I 4 40 d"].map(change)))?;
    let mut fold = Fold::new(Preimages::Loaded);
    fold.push(input, 0, &[0, 1, 2, 3], Some(&[2, 2, 3, 0]))?;
    fold.load([Some(RowRef::new(state, 0)), None, Some(RowRef::new(state, 1)), None]);
    let mut transitions = Transitions::new();
    fold.end_bundle(&mut transitions);
    assert_eq!(transitions.postimages().count(), 3);
    transitions.retain_postimages(&BooleanBuffer::from(vec![false, false, true]))?;
    let mut out = Changes::new();
    transitions.emit(RETRACTING, &mut out);
    let batch = out.pull(&rows)?.ok_or(OperatorError::Internal("no output".into()))?;
    assert_eq!(changes(&batch).iter().map(line).collect::<Vec<_>>(), ["-D 1 10 a", "-D 2 20 b", "+I 4 40 d"]);
    Ok(())
}

#[test]
fn winner_stays_against_rows_that_do_not_win() -> Result<(), OperatorError> {
    let mut rows = BundleRows::new();
    let times = [5, 3, 7, 4, 6];
    let input = times.map(|time| Change { kind: 0, key: Some(time % 2), content: (time, None) });
    let number = rows.add(&batch(&input))?;
    let mut best = Vec::new();
    let mut fold = Fold::new(Preimages::Loaded);
    let keys = [0, 0, 0, 1, 0];
    // keep last
    fold.push_winners(number, 0, &keys, |row, current| {
        let time = |row| changes(&rows.gather(&[row]).unwrap())[0].content.0;
        let wins = time(row) >= time(current);
        best.push((row.row(), wins));
        wins
    })?;
    assert_eq!(best, [(1, false), (2, true), (4, false)]);
    let mut transitions = Transitions::new();
    fold.end_bundle(&mut transitions);
    let afters: Vec<RowRef> = transitions.postimages().collect();
    assert_eq!(afters, [RowRef::new(number, 2), RowRef::new(number, 3)]);
    Ok(())
}

#[test]
fn bundle_that_loses_against_the_preimage_leaves_it_to_the_next() -> Result<(), OperatorError> {
    let mut rows = BundleRows::new();
    let times = [3, 6, 4];
    let input = rows.add(&batch(&times.map(|time| Change { kind: 0, key: None, content: (time, None) })))?;
    let state = rows.add(&batch(&["+I null 5 a"].map(change)))?;
    let mut fold = Fold::new(Preimages::Loaded);
    fold.load([Some(RowRef::new(state, 0))]);
    let (mut transitions, mut current) = (Transitions::new(), 5);
    for (row, time) in (0..).zip(times) {
        fold.push_winners(input, row, &[0], |_, _| true)?;
        fold.end_bundle_if(&mut transitions, |_| time >= current);
        current = current.max(time);
    }
    let (before, after) = (Some(RowRef::new(state, 0)), Some(RowRef::new(input, 1)));
    assert_eq!(transitions.as_slice(), [Transition { key: 0, before, after }]);
    Ok(())
}

#[test]
fn key_number_that_is_skipped_is_refused() -> Result<(), OperatorError> {
    let mut rows = BundleRows::new();
    let number = rows.add(&batch(&["+I 1 1 a"].map(change)))?;
    let mut fold = Fold::new(Preimages::Loaded);
    assert!(matches!(fold.push(number, 0, &[1], None), Err(OperatorError::Internal(_))));
    Ok(())
}
