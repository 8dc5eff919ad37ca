//! Slot numbers: handed out densely, reused after release.

use crate::StateError;

/// No slot: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Slots {
    free: Vec<u32>,
    next: u32,
}

impl Slots {
    /// A slot that nobody uses, and whether it was never used before.
    #[inline]
    pub(crate) fn acquire(&mut self, what: &'static str) -> Result<(u32, bool), StateError> {
        if let Some(slot) = self.free.pop() {
            return Ok((slot, false));
        }
        if self.next == NONE {
            return Err(StateError::Full { what, limit: u64::from(NONE) });
        }
        self.next += 1;
        Ok((self.next - 1, true))
    }

    pub(crate) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// One more than the highest slot ever handed out.
    pub(crate) fn bound(&self) -> usize {
        self.next as usize
    }

    pub(crate) fn bytes(&self) -> usize {
        self.free.capacity() * size_of::<u32>()
    }
}
