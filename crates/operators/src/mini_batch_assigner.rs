//! Marks where bundles end; rows pass unchanged.

use std::collections::VecDeque;

use streamfusion_plan::node::MiniBatchAssigner as Spec;
use streamfusion_plan::types::TimeDomain;
use streamfusion_row::Batch;

use crate::bundle::{ProcTimeMiniBatchAssigner, RowTimeMiniBatchAssigner};
use crate::{Operator, OperatorError};

/// When it comes first, [`Operator::processing_time`] only sets the timer, as Flink does when the operator is opened.
const AT_ONCE: i64 = 0;

/// Sends watermarks on that end bundles, see [`crate::bundle::assigner`].
#[derive(Debug)]
pub struct MiniBatchAssigner {
    mode: Mode,
    passed: VecDeque<Batch>,
}

#[derive(Debug)]
enum Mode {
    ProcTime { assigner: ProcTimeMiniBatchAssigner, timer_ms: Option<i64> },
    RowTime(RowTimeMiniBatchAssigner),
}

impl MiniBatchAssigner {
    /// For a node of a plan.
    pub fn new(spec: &Spec) -> Self {
        let mode = match spec.mode {
            TimeDomain::Proctime => {
                Mode::ProcTime { assigner: ProcTimeMiniBatchAssigner::new(spec.interval_ms), timer_ms: None }
            }
            TimeDomain::Rowtime => Mode::RowTime(RowTimeMiniBatchAssigner::new(spec.interval_ms)),
        };
        Self { mode, passed: VecDeque::new() }
    }
}

impl Operator for MiniBatchAssigner {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.passed.push_back(batch);
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(self.passed.pop_front())
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        Ok(match &mut self.mode {
            Mode::ProcTime { assigner, .. } => assigner.on_watermark(watermark_ms),
            Mode::RowTime(assigner) => assigner.on_watermark(watermark_ms),
        })
    }

    fn finish(&mut self) -> Result<Option<i64>, OperatorError> {
        Ok(match &mut self.mode {
            Mode::ProcTime { .. } => None,
            Mode::RowTime(assigner) => Some(assigner.finish()),
        })
    }

    fn timer(&self) -> Option<i64> {
        match &self.mode {
            Mode::ProcTime { timer_ms, .. } => Some(timer_ms.unwrap_or(AT_ONCE)),
            Mode::RowTime(_) => None,
        }
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        let Mode::ProcTime { assigner, timer_ms } = &mut self.mode else { return Ok(None) };
        Ok(match timer_ms {
            None => {
                *timer_ms = Some(assigner.first_timer(now_ms));
                None
            }
            Some(due) if *due <= now_ms => {
                let fired = assigner.on_timer(now_ms);
                *timer_ms = Some(fired.next_timer_ms);
                fired.watermark_ms
            }
            Some(_) => assigner.on_rows(now_ms),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigner(mode: TimeDomain) -> MiniBatchAssigner {
        MiniBatchAssigner::new(&Spec { mode, interval_ms: 100 })
    }

    #[test]
    fn by_processing_time_the_clock_marks_and_watermarks_are_swallowed() -> Result<(), OperatorError> {
        let mut assigner = assigner(TimeDomain::Proctime);
        assert_eq!(assigner.processing_time(1_010)?, None);
        assert_eq!(assigner.timer(), Some(1_110));
        assert_eq!(assigner.processing_time(1_020)?, Some(1_000));
        assert_eq!(assigner.processing_time(1_099)?, None);
        assert_eq!(assigner.processing_time(1_115)?, Some(1_100));
        assert_eq!(assigner.timer(), Some(1_200));
        assert_eq!(assigner.watermark(5_000)?, None);
        assert_eq!(assigner.finish()?, None);
        assert_eq!(assigner.watermark(i64::MAX)?, Some(i64::MAX));
        Ok(())
    }

    #[test]
    fn by_row_time_watermarks_are_thinned_out_and_the_clock_does_nothing() -> Result<(), OperatorError> {
        let mut assigner = assigner(TimeDomain::Rowtime);
        assert_eq!((assigner.timer(), assigner.processing_time(1_000)?), (None, None));
        assert_eq!(assigner.watermark(98)?, None);
        assert_eq!(assigner.watermark(99)?, Some(99));
        assert_eq!(assigner.watermark(150)?, None);
        assert_eq!(assigner.finish()?, Some(150));
        Ok(())
    }
}
