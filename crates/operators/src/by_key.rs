//! The rows of a batch, key by key.

/// The numbers of rows, sorted by the number of their key; those of one key ascend.
#[derive(Debug, Default)]
pub(crate) struct ByKey {
    rows: Vec<u32>,
    /// Per key, behind its last row.
    ends: Vec<u32>,
}

impl ByKey {
    /// Takes the rows of a batch: `groups` has per row the number of its key, of which there are so many. There are less than 2^32 rows.
    pub(crate) fn sort(&mut self, groups: &[u32], keys: usize) {
        self.ends.clear();
        self.ends.resize(keys, 0);
        for key in groups {
            self.ends[*key as usize] += 1;
        }
        let mut start = 0;
        for end in &mut self.ends {
            start += std::mem::replace(end, start);
        }
        self.rows.resize(groups.len(), 0);
        for (row, key) in (0..).zip(groups) {
            let place = &mut self.ends[*key as usize];
            self.rows[*place as usize] = row;
            *place += 1;
        }
    }

    /// The rows of each key.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let rows = std::mem::replace(&mut start, *end)..*end;
            self.rows.get(rows.start as usize..rows.end as usize).unwrap_or_default()
        })
    }

    /// Bytes taken.
    pub(crate) fn bytes(&self) -> usize {
        (self.rows.capacity() + self.ends.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_with_those_of_their_key_in_order() {
        let mut by_key = ByKey::default();
        for (groups, keys, expected) in [
            (vec![0, 1, 0, 2, 1, 0], 4, vec![vec![0, 2, 5], vec![1, 4], vec![3], vec![]]),
            (vec![], 0, vec![]),
            (vec![0, 1, 2], 3, vec![vec![0], vec![1], vec![2]]),
        ] {
            by_key.sort(&groups, keys);
            assert_eq!(by_key.keys().collect::<Vec<_>>(), expected);
        }
    }
}
