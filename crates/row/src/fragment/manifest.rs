//! The key groups that a batch has rows of.

use std::sync::Arc;

use crate::hash::KeyGroup;

/// A set of key groups, never empty. Two sets are equal if they have the same groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Bytes of groups below the first one that are left out.
    first: u16,
    /// One bit per group, LSB first; the first and the last byte are not 0.
    bits: Arc<[u8]>,
}

impl Manifest {
    /// The set of `groups`, which are ascending and at least one.
    pub(crate) fn of(groups: &[KeyGroup]) -> Self {
        let (first, last) = match groups {
            [] => (0, 0),
            [first, ..] => (first.0 / 8, groups.last().map_or(0, |last| last.0 / 8)),
        };
        let mut bits = vec![0; usize::from(last - first) + 1];
        for group in groups {
            if let Some(byte) = bits.get_mut(usize::from(group.0 / 8 - first)) {
                *byte |= 1 << (group.0 % 8);
            }
        }
        Self { first, bits: bits.into() }
    }

    /// The set in its wire form; `None` if that is not one: empty, longer than it must be, or with groups beyond 2^15.
    pub(crate) fn from_bytes(first: u16, bits: &[u8]) -> Option<Self> {
        let end = usize::from(first) + bits.len();
        match bits {
            [only] if *only != 0 => {}
            [low, .., high] if *low != 0 && *high != 0 => {}
            _ => return None,
        }
        (end * 8 <= KeyGroup::MAX_PARALLELISM as usize).then(|| Self { first, bits: bits.into() })
    }

    /// Groups left out below the bytes, in eights.
    pub(crate) fn first_byte(&self) -> u16 {
        self.first
    }

    /// The bits.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bits
    }

    /// Whether the batch has rows of `group`.
    pub fn contains(&self, group: KeyGroup) -> bool {
        let byte = (group.0 / 8).checked_sub(self.first).and_then(|byte| self.bits.get(usize::from(byte)));
        byte.is_some_and(|byte| byte >> (group.0 % 8) & 1 == 1)
    }

    /// How many of the groups `first..=last` the batch has rows of.
    pub fn count(&self, first: KeyGroup, last: KeyGroup) -> usize {
        // a group is below 2^15
        let low = u32::from(first.0).saturating_sub(u32::from(self.first) * 8);
        let end = (u32::from(last.0) + 1).saturating_sub(u32::from(self.first) * 8);
        let groups = (0u32..).step_by(8).zip(self.bits.iter());
        groups
            .map(|(base, byte)| {
                let mask = |from: u32| if from >= 8 { 0u8 } else { 0xff << from };
                let wanted = mask(low.saturating_sub(base)) & !mask(end.saturating_sub(base));
                (byte & wanted).count_ones() as usize
            })
            .sum()
    }
}
