//! Preimages from the changelog: against the lists that Flink's join bundles keep.

use proptest::prelude::*;

use super::*;
use crate::OperatorError;
use crate::changelog::*;

/// Per key in first-touch order, what is left of it: "- 1 2 a", "+ 1 3 a".
type Left = Vec<(Option<i64>, Vec<String>)>;

fn accumulates(change: &Change) -> bool {
    change.kind == 0 || change.kind == 2
}

/// What Flink's bundle of a side with a unique key holds in the end.
fn model(input: &[Change]) -> Left {
    let mut bundle: Vec<(Option<i64>, Vec<Change>)> = Vec::new();
    for row in input {
        let known = bundle.iter().position(|(key, _)| *key == row.key).unwrap_or_else(|| {
            bundle.push((row.key, Vec::new()));
            bundle.len() - 1
        });
        let list = &mut bundle[known].1;
        let mut folded = false;
        if let Some(last) = list.last() {
            if accumulates(last) {
                folded = !accumulates(row);
                list.pop();
            } else if !accumulates(row) {
                list.pop();
            }
        }
        if !folded {
            list.push(row.clone());
        }
    }
    let lines = |list: Vec<Change>| list.iter().map(content).collect();
    bundle
        .into_iter()
        .map(|(key, list)| (key, lines(list)))
        .filter(|(_, list): &(_, Vec<_>)| !list.is_empty())
        .collect()
}

/// A change with its direction alone: a transition does not keep +I and +U apart.
fn content(change: &Change) -> String {
    let line = line(change);
    format!("{}{}", if accumulates(change) { '+' } else { '-' }, &line[2..])
}

fn fold(input: &[Change], cut: usize) -> Result<Left, OperatorError> {
    let (mut rows, mut fold, mut numbers) = (BundleRows::new(), Fold::new(Preimages::Retracted), Numbers::default());
    for part in input.chunks(cut) {
        let batch = batch(part);
        let number = rows.add(&batch)?;
        fold.push(number, 0, &numbers.assign(part), batch.kinds().map(|kinds| kinds.values().as_ref()))?;
        fold.compact_now(&mut rows)?;
    }
    let mut transitions = Transitions::new();
    fold.end_bundle(&mut transitions);
    transitions
        .as_slice()
        .iter()
        .map(|transition| {
            let side = |row: Option<RowRef>, sign: char| {
                row.map(|row| Ok(format!("{sign}{}", &line(&changes(&rows.gather(&[row])?)[0])[2..]))).transpose()
            };
            let before: Result<Option<String>, OperatorError> = side(transition.before, '-');
            Ok((
                numbers.keys[transition.key as usize],
                before?.into_iter().chain(side(transition.after, '+')?).collect(),
            ))
        })
        .collect()
}

fn input() -> impl Strategy<Value = Vec<Change>> {
    let key = prop_oneof![3 => (0_i64..3).prop_map(Some), 1 => Just(None)];
    let row = (0_u8..4, key, 0_i64..4).prop_map(|(kind, key, number)| Change { kind, key, content: (number, None) });
    prop::collection::vec(row, 0..50)
}

/// Makes a changelog of it that retracts what is there and inserts where nothing is.
fn well_formed(input: Vec<Change>) -> Vec<Change> {
    let mut table: HashMap<Option<i64>, Content> = HashMap::new();
    let turn = |row: Change| match table.remove(&row.key) {
        Some(content) => Change { kind: 3, content, ..row },
        None => {
            table.insert(row.key, row.content.clone());
            Change { kind: 0, ..row }
        }
    };
    input.into_iter().map(turn).collect()
}

proptest! {
    #[test]
    fn any_changelog_is_folded_as_in_flink(input in input(), cut in 1_usize..9) {
        prop_assert_eq!(fold(&input, cut)?, model(&input));
    }

    #[test]
    fn fold_of_a_changelog_is_associative_over_cuts(
        input in input().prop_map(well_formed),
        at in any::<prop::sample::Index>(),
    ) {
        let (first, second) = input.split_at(at.index(input.len() + 1));
        let left = [fold(first, 9)?, fold(second, 9)?].concat();
        let left: Vec<Change> = left
            .iter()
            .flat_map(|(_, lines)| lines)
            .map(|line| change(&line.replacen('+', "+I", 1).replacen('-', "-D", 1)))
            .collect();
        let (mut refolded, mut whole) = (fold(&left, 9)?, fold(&input, 9)?);
        // a key may be touched first by a change that left nothing
        refolded.sort();
        whole.sort();
        prop_assert_eq!(refolded, whole);
    }
}

#[test]
fn each_rule_of_the_table_holds() -> Result<(), OperatorError> {
    let cases: [(&[&str], &[&str]); 6] = [
        (&["+I 1 1 a", "+U 1 2 a"], &["+ 1 2 a"]),
        (&["+I 1 1 a", "-D 1 1 a"], &[]),
        (&["-U 1 1 a", "-D 1 2 a"], &["- 1 2 a"]),
        (&["-U 1 1 a", "+U 1 2 a"], &["- 1 1 a", "+ 1 2 a"]),
        (&["-U 1 1 a", "+U 1 2 a", "-U 1 2 a", "+U 1 3 a"], &["- 1 1 a", "+ 1 3 a"]),
        (&["-U 1 1 a", "+U 1 2 a", "-D 1 2 a"], &["- 1 1 a"]),
    ];
    for (input, expected) in cases {
        let input: Vec<Change> = input.iter().map(|line| change(line)).collect();
        let found: Vec<String> = fold(&input, 1)?.into_iter().flat_map(|(_, lines)| lines).collect();
        assert_eq!(found, expected, "{input:?}");
    }
    Ok(())
}

#[test]
fn equal_rows_of_a_pair_stay_until_they_are_compared() -> Result<(), OperatorError> {
    let input = ["-U 1 1 a", "+U 1 1 a"].map(change);
    assert_eq!(fold(&input, 9)?, model(&input));
    assert_eq!(fold(&input, 9)?.len(), 1);
    Ok(())
}
