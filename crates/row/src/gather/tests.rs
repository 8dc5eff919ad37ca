#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::random::{Random, all_types, assert_rows, batch, batches};

fn indices(random: &mut Random, rows: usize, count: usize) -> Vec<u32> {
    if rows == 0 { Vec::new() } else { (0..count).map(|_| random.below(rows) as u32).collect() }
}

proptest! {
    #[test]
    fn a_slice_has_the_rows_of_its_range((_, batch) in batches(all_types(), true), cut in 0usize..100, len in 0usize..100) {
        let offset = cut.min(batch.num_rows());
        let len = len.min(batch.num_rows() - offset);
        let slice = batch.slice(offset, len)?;
        assert_rows(&slice, (offset..offset + len).map(|row| (&batch, row)));
        prop_assert_eq!(slice.key_group(), batch.key_group());
    }

    #[test]
    fn a_filter_keeps_true_rows_in_order((_, batch) in batches(all_types(), true), seed: u64) {
        let mut random = Random(seed);
        let mask: Vec<_> = (0..batch.num_rows()).map(|_| [Some(true), Some(false), None][random.below(3)]).collect();
        let filtered = batch.filter(&mask.clone().into())?;
        assert_rows(&filtered, (0..batch.num_rows()).filter(|row| mask[*row] == Some(true)).map(|row| (&batch, row)));
        prop_assert_eq!(filtered.key_group(), batch.key_group());
    }

    #[test]
    fn taken_rows_come_in_the_order_of_indices((_, batch) in batches(all_types(), true), count in 0usize..50, seed: u64) {
        let rows = indices(&mut Random(seed), batch.num_rows(), count);
        let taken = batch.take(&rows.clone().into())?;
        assert_rows(&taken, rows.iter().map(|row| (&batch, *row as usize)));
    }

    #[test]
    fn concatenated_batches_keep_all_rows((_, batch) in batches(all_types(), true), cuts in prop::collection::vec(0usize..70, 0..4)) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(batch.num_rows())).collect();
        cuts.extend([0, batch.num_rows()]);
        cuts.sort_unstable();
        let parts: Vec<_> = cuts.windows(2).map(|ends| batch.slice(ends[0], ends[1] - ends[0]).unwrap()).collect();
        assert_rows(&Batch::concat(&parts)?, (0..batch.num_rows()).map(|row| (&batch, row)));
    }

    #[test]
    fn interleaved_rows_come_from_their_batches(
        types in prop::collection::vec(prop::sample::select(all_types()), 0..5),
        sizes in prop::collection::vec(1usize..20, 1..4),
        count in 0usize..50,
        seed: u64,
    ) {
        let mut random = Random(seed);
        let sources: Vec<_> = sizes.iter().map(|rows| batch(&types, *rows, false, &mut random)).collect();
        let picks: Vec<_> = (0..count).map(|_| {
            let source = random.below(sources.len());
            (source, random.below(sizes[source]))
        }).collect();
        let result = Batch::interleave(&sources, &picks)?;
        assert_rows(&result, picks.iter().map(|(source, row)| (&sources[*source], *row)));
        let all = Batch::concat(&sources)?;
        let rows = sources.iter().flat_map(|source| (0..source.num_rows()).map(move |row| (source, row)));
        assert_rows(&all, rows);
    }

    #[test]
    fn bytes_grow_with_the_rows((_, batch) in batches(all_types(), true)) {
        let half = batch.slice(0, batch.num_rows() / 2)?;
        prop_assert!(half.bytes() <= batch.bytes());
    }
}

#[test]
fn rows_beyond_the_batch_are_refused() {
    let batch = batch(&all_types(), 3, false, &mut Random(1));
    assert!(matches!(batch.slice(2, 2), Err(GatherError::Row { row: 4, rows: 3 })));
    assert!(matches!(batch.slice(2, usize::MAX), Err(GatherError::Row { .. })));
    assert!(matches!(batch.take(&vec![0, 3].into()), Err(GatherError::Row { row: 3, rows: 3 })));
    assert!(matches!(batch.filter(&vec![true].into()), Err(GatherError::Filter { expected: 3, found: 1 })));
    let batches = [batch];
    assert!(matches!(Batch::interleave(&batches, &[(0, 3)]), Err(GatherError::Row { row: 3, rows: 3 })));
    assert!(matches!(Batch::interleave(&batches, &[(1, 0)]), Err(GatherError::Batch { batch: 1, batches: 1 })));
}

#[test]
fn batches_of_other_columns_are_refused() {
    let types = all_types();
    let batches = [batch(&types[..2], 3, false, &mut Random(1)), batch(&types[..1], 3, false, &mut Random(1))];
    assert!(matches!(Batch::concat(&batches), Err(GatherError::Columns { expected: 2, found: 1 })));
    let batches = [batch(&types[..1], 3, false, &mut Random(1)), batch(&types[1..2], 3, false, &mut Random(1))];
    assert!(matches!(Batch::concat(&batches), Err(GatherError::Arrow(_))));
    assert!(Batch::interleave(&batches, &[(0, 0), (1, 0)]).is_err());
}
