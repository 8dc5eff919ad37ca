//! Joins of several streams at once.

use std::collections::BTreeMap;

use super::{InputSide, InputSideKey};
use crate::reason::Reason;
use crate::rex::Rex;

/// A join of two or more inputs on a key that all of them have. Input `n` is joined to what the inputs before it came to.
///
/// The output has the columns of all inputs, one behind the other. No plan is read into this yet.
///
/// Follows: StreamExecMultiJoin, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiJoin {
    /// The inputs in order. The first joins nothing: its key columns equal nothing before it, it has no condition, and is not outer.
    pub inputs: Vec<MultiJoinInput>,
}

/// One input of a [`MultiJoin`].
#[derive(Debug, Clone, PartialEq)]
pub struct MultiJoinInput {
    /// Whether rows of the inputs before it that match nothing here go on beside NULLs: LEFT, else INNER.
    pub is_outer: bool,
    /// Its columns that must equal columns of inputs before it; of the first input those that others must equal.
    pub keys: Vec<KeyColumn>,
    /// What must be TRUE, the equality of the keys included: an expression over the columns of all inputs before it and, behind
    /// them, its own.
    pub condition: Option<Rex>,
    /// Every set of columns that identifies a row of this input; a set may be empty: at most one row.
    pub unique_keys: Vec<Vec<usize>>,
    /// Time to live of this input's state in milliseconds; 0 is off.
    pub ttl_ms: i64,
}

/// A key column of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyColumn {
    /// Which column.
    pub column: usize,
    /// The column of an input before it that it must equal.
    pub equals: Option<Attribute>,
}

/// The number of an input, and a column of it.
pub type Attribute = (usize, usize);

impl MultiJoinInput {
    /// The columns that tell rows of the same [common key](MultiJoin::common_keys) apart in state. `None` is the whole row, which
    /// may be there several times; no columns are at most one row.
    ///
    /// Follows: MultiJoinStateViews, Flink 2.2. Its state has the columns that must equal others in its key, and a unique key behind
    /// them.
    pub fn identity(&self) -> Option<Vec<usize>> {
        let keys: Vec<usize> = self.keys.iter().map(|key| key.column).collect();
        let side = InputSide { keys, upsert_keys: self.unique_keys.clone(), ttl_ms: self.ttl_ms };
        let unique = match side.unique_key() {
            InputSideKey::NoUniqueKey => return None,
            InputSideKey::JoinKeyContainsUniqueKey(columns) | InputSideKey::HasUniqueKey(columns) => columns,
        };
        let joined = self.keys.iter().filter(|key| key.equals.is_some()).map(|key| key.column);
        let mut identity: Vec<usize> = joined.chain(unique.iter().copied()).collect();
        identity.sort_unstable();
        identity.dedup();
        Some(identity)
    }
}

impl MultiJoin {
    /// Per input the columns of the key that all inputs have in common, in the same order for each: what rows are partitioned by.
    ///
    /// A column of the key is a set of columns that equal each other, directly or by way of others, and of which each step of the
    /// join has one. Fails where there is none, and where what Flink partitions by depends on the order of a hash set or
    /// differs between inputs, so that rows that match may not meet there.
    ///
    /// Follows: AttributeBasedJoinKeyExtractor, Flink 2.2.
    pub fn common_keys(&self) -> Result<Vec<Vec<usize>>, Reason> {
        let roots = self.roots();
        let mut sets: BTreeMap<Attribute, Vec<Attribute>> = BTreeMap::new();
        for (attribute, root) in &roots {
            sets.entry(*root).or_default().push(*attribute);
        }
        sets.retain(|root, _| {
            let in_set = |attribute| roots.get(&attribute) == Some(root);
            self.inputs.iter().enumerate().skip(1).all(|(input, joined)| {
                // with a column, the one that it equals is in the set too
                joined.keys.iter().any(|key| in_set((input, key.column)))
            })
        });
        let mut roots_by_column: Vec<Attribute> = sets.keys().map(|(input, column)| (*column, *input)).collect();
        roots_by_column.sort_unstable();
        if roots_by_column.windows(2).any(|pair| matches!(pair, [a, b] if a.0 == b.0)) {
            return Err(Reason::new("the order of the columns of its common key differs between its inputs in Flink"));
        }
        let mut keys = vec![Vec::with_capacity(sets.len()); self.inputs.len()];
        for (column, input) in roots_by_column {
            let set = sets.get(&(input, column)).map_or(&[][..], Vec::as_slice);
            for (input, key) in keys.iter_mut().enumerate() {
                let mut of_input = set.iter().filter(|attribute| attribute.0 == input);
                match (of_input.next(), of_input.next()) {
                    (Some((_, column)), None) => key.push(*column),
                    (Some(_), Some(_)) => {
                        return Err(Reason::new(format!(
                            "input {input} has two columns for one column of the common key, of which Flink takes either"
                        )));
                    }
                    (None, _) => {
                        return Err(Reason::new(format!("input {input} has no column for a column of the common key")));
                    }
                }
            }
        }
        if sets.is_empty() { Err(Reason::new("its inputs have no key in common")) } else { Ok(keys) }
    }

    /// Per key column the one that stands for all that equal it. Which one that is decides the order of the key's columns.
    fn roots(&self) -> BTreeMap<Attribute, Attribute> {
        let mut parents: BTreeMap<Attribute, Attribute> = BTreeMap::new();
        let mut ranks: BTreeMap<Attribute, u32> = BTreeMap::new();
        for (input, joined) in self.inputs.iter().enumerate().skip(1) {
            for (column, equals) in joined.keys.iter().filter_map(|key| Some((key.column, key.equals?))) {
                let [a, b] = [equals, (input, column)].map(|attribute| {
                    parents.entry(attribute).or_insert(attribute);
                    root(&parents, attribute)
                });
                if a == b {
                    continue;
                }
                let rank = |attribute| ranks.get(&attribute).copied().unwrap_or(0);
                let (rank_a, rank_b) = (rank(a), rank(b));
                let (above, below) = if rank_a < rank_b { (b, a) } else { (a, b) };
                parents.insert(below, above);
                if rank_a == rank_b {
                    ranks.insert(above, rank_a + 1);
                }
            }
        }
        parents.keys().map(|attribute| (*attribute, root(&parents, *attribute))).collect()
    }
}

fn root(parents: &BTreeMap<Attribute, Attribute>, mut attribute: Attribute) -> Attribute {
    while let Some(parent) = parents.get(&attribute).filter(|parent| **parent != attribute) {
        attribute = *parent;
    }
    attribute
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input with keys `(other_input, other_column, column)`.
    fn input(keys: &[(usize, usize, usize)], unique_keys: &[&[usize]]) -> MultiJoinInput {
        let key = |(other, other_column, column): &(usize, usize, usize)| KeyColumn {
            column: *column,
            equals: Some((*other, *other_column)),
        };
        MultiJoinInput {
            is_outer: false,
            keys: keys.iter().map(key).collect(),
            condition: None,
            unique_keys: unique_keys.iter().map(|key| key.to_vec()).collect(),
            ttl_ms: 0,
        }
    }

    fn common_keys(keys: &[&[(usize, usize, usize)]]) -> Result<Vec<Vec<usize>>, String> {
        let inputs = keys.iter().map(|keys| input(keys, &[])).collect();
        MultiJoin { inputs }.common_keys().map_err(|reason| reason.to_string())
    }

    #[test]
    fn columns_that_are_equal_by_way_of_others_are_one_column_of_the_key() {
        assert_eq!(common_keys(&[&[], &[(0, 2, 1)], &[(1, 1, 4)]]), Ok(vec![vec![2], vec![1], vec![4]]));
    }

    #[test]
    fn columns_that_a_step_does_not_join_are_not_in_the_key() {
        let keys = common_keys(&[&[], &[(0, 2, 1), (0, 3, 0)], &[(0, 2, 4)]]);
        assert_eq!(keys, Ok(vec![vec![2], vec![1], vec![4]]));
    }

    #[test]
    fn columns_of_the_key_have_the_order_of_those_that_stand_for_them() {
        let keys = common_keys(&[&[], &[(0, 3, 0), (0, 2, 1)], &[(1, 0, 5), (1, 1, 4)]]);
        assert_eq!(keys, Ok(vec![vec![2, 3], vec![1, 0], vec![4, 5]]));
    }

    #[test]
    fn keys_that_flink_does_not_decide_are_refused() {
        let no_key = common_keys(&[&[], &[(0, 0, 0)], &[(1, 1, 0)]]);
        assert_eq!(no_key, Err("its inputs have no key in common".to_owned()));
        let twice = common_keys(&[&[], &[(0, 0, 0), (0, 1, 0)], &[(0, 1, 0)]]);
        assert!(twice.is_err_and(|reason| reason.contains("input 0 has two columns")));
    }

    #[test]
    fn rows_are_told_apart_by_the_key_of_the_join_and_a_unique_key() {
        assert_eq!(input(&[(0, 0, 1)], &[]).identity(), None);
        assert_eq!(input(&[(0, 0, 1), (0, 2, 3)], &[&[1]]).identity(), Some(vec![1, 3]));
        assert_eq!(input(&[(0, 0, 1)], &[&[2, 0], &[4]]).identity(), Some(vec![1, 4]));
        let first = |keys: &[usize], unique_keys| {
            let keys = keys.iter().map(|column| KeyColumn { column: *column, equals: None }).collect();
            MultiJoinInput { keys, ..input(&[], unique_keys) }.identity()
        };
        assert_eq!(first(&[0], &[&[2, 0]]), Some(vec![0, 2]));
        assert_eq!(first(&[0, 1], &[&[4], &[0, 1]]), Some(vec![0, 1]));
        assert_eq!(input(&[], &[&[]]).identity(), Some(vec![]));
    }
}
