//! SEARCH: membership in a set of ranges.

use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Rex, Sarg};

use crate::registry::Kernel;

/// The kernel of a SEARCH, or why it has none.
pub fn kernel(_operand: &Rex, _sarg: &Sarg) -> Result<Kernel, Reason> {
    Err(Reason::new("SEARCH is not supported natively"))
}
