//! Writes put in the order of their keys.
//!
//! Slots are in the order in which keys came. RocksDB takes a key that lies next to the one before at a fraction of the cost, because it goes on
//! searching its sorted list where it is, and the list is in the processor's cache there.

/// Keys and values, one behind the other.
#[derive(Debug, Default)]
pub(super) struct SortedWrites {
    bytes: Vec<u8>,
    writes: Vec<Write>,
}

#[derive(Debug, Clone, Copy)]
struct Write {
    /// The first bytes of the key, big-endian, zeros behind a shorter one: what decides most comparisons.
    head: u128,
    key: usize,
    value: usize,
    end: usize,
}

impl Write {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.key..self.value).unwrap_or_default()
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.value..self.end).unwrap_or_default()
    }
}

impl SortedWrites {
    /// Adds the key and the value that are appended to what is given. After an error the writes are of no use.
    pub(super) fn push<E>(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        key(&mut self.bytes);
        let at = self.bytes.len();
        value(&mut self.bytes)?;
        let mut head = [0; size_of::<u128>()];
        head.iter_mut().zip(&self.bytes[start..at]).for_each(|(head, byte)| *head = *byte);
        let write = Write { head: u128::from_be_bytes(head), key: start, value: at, end: self.bytes.len() };
        self.writes.push(write);
        Ok(())
    }

    /// Keys ascending.
    pub(super) fn sorted(&mut self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes = &self.bytes;
        self.writes.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| a.key(bytes).cmp(b.key(bytes))));
        self.writes.iter().map(|write| (write.key(bytes), write.value(bytes)))
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.writes.clear();
    }

    /// Bytes of keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_leave_in_the_order_of_their_keys() {
        let keys: [&[u8]; 6] =
            [b"the same sixteen bytes, then b", b"b", b"", b"the same sixteen bytes, then a", b"a\0", b"a"];
        let mut writes = SortedWrites::default();
        for round in 0..2 {
            for (number, key) in keys.iter().enumerate() {
                let pushed = writes.push(
                    |out| out.extend_from_slice(key),
                    |out| {
                        out.push(u8::try_from(number).map_err(|_| "too many")?);
                        Ok::<_, &str>(())
                    },
                );
                assert_eq!(pushed, Ok(()), "round {round}");
            }
            let sorted: Vec<_> = writes.sorted().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            let expected: Vec<_> = [2, 5, 4, 1, 3, 0].iter().map(|n| (keys[*n].to_vec(), vec![*n as u8])).collect();
            assert_eq!(sorted, expected);
            writes.clear();
        }
    }
}
