//! What goes down a chain between batches: watermarks, their status, ends of bundles.
//!
//! An event stands in front of a link until that link has ended its bundle and everything that came of it has left the chain.
//! So output stays lazy: a bundle is handed out batch by batch while its event waits.
//!
//! An operator may send one on between its own batches. Then what the links before it have not handed out yet came behind the event, and
//! waits until it has left the chain.

use std::collections::VecDeque;

use streamfusion_operators::bundle::FlushReason;
use streamfusion_operators::{Mark, WatermarkStatus};

use crate::error::EngineError;
use crate::link::Link;
use crate::stage::Output;

/// What goes down a chain between batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A watermark; behind it is why bundles end.
    Watermark(i64, FlushReason),
    /// A status of watermarks, which ends no bundles.
    Status(WatermarkStatus),
    /// Bundles end.
    Flush(FlushReason),
    /// The input is over.
    EndOfInput,
}

impl From<Mark> for Event {
    fn from(mark: Mark) -> Self {
        match mark {
            Mark::Watermark(watermark) => Self::Watermark(watermark, FlushReason::Watermark),
            Mark::Status(status) => Self::Status(status),
        }
    }
}

impl Event {
    /// Why bundles end in front of it, if they do.
    fn flushes(self) -> Option<FlushReason> {
        match self {
            Self::Watermark(_, reason) | Self::Flush(reason) => Some(reason),
            Self::EndOfInput => Some(FlushReason::EndOfInput),
            Self::Status(_) => None,
        }
    }
}

/// Events on their way down a chain, each behind the rows that came before it.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The first one is on its way.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// The link that it stands in front of.
    at: usize,
    /// The first link whose rows came before it.
    behind: usize,
    step: Step,
    event: Event,
}

impl Waiting {
    /// An event that was just sent on by the link before link `at`.
    fn sent(at: usize, event: Event) -> Self {
        Self { at, behind: at, step: Step::Flush, event }
    }
}

/// What the link that an event stands in front of is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Flush,
    Take,
}

impl Events {
    /// Lets `event` go down from link `link`, behind the events that are there already.
    pub fn push(&mut self, link: usize, event: Event) {
        self.waiting.push_back(Waiting::sent(link, event));
    }

    /// Lets a mark of the link before `link` go down, in front of the events that are there already.
    pub fn mark(&mut self, link: usize, mark: Mark) {
        self.waiting.push_front(Waiting::sent(link, mark.into()));
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The first link whose rows came before the event that is on its way.
    pub fn behind(&self) -> usize {
        self.waiting.front().map_or(0, |waiting| waiting.behind)
    }

    /// Moves the first event one step on, when nothing that came before it is left to hand out. One that has gone through, and does
    /// not end here, is returned. There must be an event.
    pub fn step(&mut self, links: &mut [Link]) -> Result<Option<Output>, EngineError> {
        let Some(Waiting { at, behind, step, event }) = self.waiting.pop_front() else { return Ok(None) };
        let Some(link) = links.get_mut(at) else {
            return Ok(match event {
                Event::Watermark(watermark, _) => Some(Output::Watermark(watermark)),
                Event::Status(status) => Some(Output::Status(status)),
                Event::Flush(_) | Event::EndOfInput => None,
            });
        };
        if step == Step::Flush {
            if let Some(reason) = event.flushes() {
                link.run(|operator| operator.flush(reason))?;
            }
            self.waiting.push_front(Waiting { at, behind, step: Step::Take, event });
            return Ok(None);
        }
        let mut goes_on = Some(event);
        let mut before = None;
        match event {
            Event::Watermark(watermark, reason) => {
                let passed = link.run(|operator| operator.watermark(watermark))?;
                goes_on = passed.map(|watermark| Event::Watermark(watermark, reason));
            }
            Event::Status(status) => goes_on = link.run(|operator| operator.status(status))?.map(Event::Status),
            Event::EndOfInput => {
                let last = link.run(|operator| operator.finish())?;
                before = last.map(|watermark| Event::Watermark(watermark, FlushReason::Watermark));
            }
            // of one of two inputs: behind the node that reads them, only a watermark of both counts
            Event::Flush(FlushReason::Watermark) => goes_on = None,
            Event::Flush(_) => {}
        }
        // what the operator handed out for it leaves before the next link is asked
        for event in goes_on.into_iter().chain(before) {
            self.waiting.push_front(Waiting { at: at + 1, behind: at, step: Step::Flush, event });
        }
        Ok(None)
    }
}
