//! Batches that leave: their kinds and their sizes.

use super::*;
use crate::changelog::*;
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError};
use streamfusion_row::RowKind;

fn pull_all(changes: &mut Changes, rows: &BundleRows) -> Result<Vec<Batch>, OperatorError> {
    std::iter::from_fn(|| changes.pull(rows).transpose()).collect()
}

#[test]
fn inserts_leave_without_kinds() -> Result<(), OperatorError> {
    let mut rows = BundleRows::new();
    let number = rows.add(&batch(&["-D 1 1 a", "-D 2 2 b"].map(change)))?;
    let mut out = Changes::new();
    out.push(RowKind::Insert, RowRef::new(number, 1));
    let batches = pull_all(&mut out, &rows)?;
    assert!(batches[0].kinds().is_none());
    // and the same changelog is used for the next bundle
    out.push(RowKind::Delete, RowRef::new(number, 0));
    let batches = pull_all(&mut out, &rows)?;
    assert_eq!(batches[0].kinds().map(|kinds| kinds.values().to_vec()), Some(vec![3]));
    assert_eq!(changes(&batches[0]).iter().map(line).collect::<Vec<_>>(), ["-D 1 1 a"]);
    Ok(())
}

#[test]
fn update_of_a_key_that_nobody_looked_up_is_update_after() -> Result<(), OperatorError> {
    let mut rows = BundleRows::new();
    let number = rows.add(&batch(&["+I 1 1 a"].map(change)))?;
    let mut fold = Fold::new(Preimages::Loaded);
    fold.push(number, 0, &[0], None)?;
    let (mut transitions, mut out) = (Transitions::new(), Changes::new());
    fold.end_bundle(&mut transitions);
    transitions.emit(Emission { update_before: UpdateBefore::Omit, unseen: Unseen::UpdateAfter }, &mut out);
    assert_eq!(changes(&pull_all(&mut out, &rows)?[0]).iter().map(line).collect::<Vec<_>>(), ["+U 1 1 a"]);
    Ok(())
}

#[test]
fn many_rows_leave_in_batches_of_the_usual_size() -> Result<(), OperatorError> {
    let input: Vec<Change> = (0..100).map(|number| change(&format!("+I {number} 1 a"))).collect();
    let mut rows = BundleRows::new();
    let numbers = [rows.add(&batch(&input))?, rows.add(&batch(&input))?];
    let mut out = Changes::new();
    let total = 2 * OUTPUT_BATCH_ROWS + 1;
    for row in 0..total {
        out.push(RowKind::UpdateAfter, RowRef::new(numbers[row % 2], row as u32 % 100));
    }
    assert_eq!(out.len(), total);
    let sizes: Vec<usize> = pull_all(&mut out, &rows)?.iter().map(Batch::num_rows).collect();
    assert_eq!(sizes, [OUTPUT_BATCH_ROWS, OUTPUT_BATCH_ROWS, 1]);
    Ok(())
}

#[test]
fn large_text_leaves_in_small_batches() -> Result<(), OperatorError> {
    let text = "x".repeat(OUTPUT_BATCH_BYTES / 3);
    let large = "x".repeat(OUTPUT_BATCH_BYTES + 1);
    let texts = [&text, &text, &text, &text, &large, &text];
    let input = texts.map(|text| Change { kind: 0, key: None, content: (0, Some(text.clone())) });
    let mut rows = BundleRows::new();
    let number = rows.add(&batch(&input))?;
    let mut out = Changes::new();
    (0..6).for_each(|row| out.push(RowKind::Insert, RowRef::new(number, row)));
    let sizes: Vec<usize> = pull_all(&mut out, &rows)?.iter().map(Batch::num_rows).collect();
    assert_eq!(sizes, [3, 1, 1, 1]);
    Ok(())
}

#[test]
fn compaction_is_wanted_when_few_of_many_rows_are_live() -> Result<(), OperatorError> {
    let input: Vec<Change> = (0..4096).map(|number| change(&format!("+U 1 {number} a"))).collect();
    let (mut rows, mut fold) = (BundleRows::new(), Fold::new(Preimages::Loaded));
    for _ in 0..40 {
        let number = rows.add(&batch(&input))?;
        fold.push(number, 0, &[0; 4096], None)?;
        fold.compact(&mut rows)?;
        assert!(rows.num_rows() <= (1 << 16) + 4096);
    }
    let mut transitions = Transitions::new();
    fold.end_bundle(&mut transitions);
    let postimages: Vec<RowRef> = transitions.postimages().collect();
    assert_eq!(changes(&rows.gather(&postimages)?).iter().map(line).collect::<Vec<_>>(), ["+I 1 4095 a"]);
    Ok(())
}

#[test]
fn row_of_another_bundle_is_refused() -> Result<(), OperatorError> {
    let (mut rows, mut other) = (BundleRows::new(), BundleRows::new());
    rows.add(&batch(&["+I 1 1 a"].map(change)))?;
    other.add(&batch(&[]))?;
    let elsewhere = other.add(&batch(&["+I 1 1 a"].map(change)))?;
    let stale = RowRef::new(elsewhere, 0);
    assert!(rows.gather(&[stale]).is_err());
    let pair = RowPair { left: stale, right: stale };
    assert!(equal_pairs(&rows, [pair], 0..3, Floats::Bits).is_err());
    Ok(())
}
