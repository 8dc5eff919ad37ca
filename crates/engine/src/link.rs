//! An operator in its place in a stage, and chains of them.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use streamfusion_operators::bundle::FlushReason;
use streamfusion_operators::{Operator, OperatorError};
use streamfusion_row::Batch;

use crate::error::{EngineError, NodeName};
use crate::metrics::NodeMetrics;

/// An operator with the name of its node.
pub(crate) struct Link {
    pub node: NodeName,
    pub operator: Box<dyn Operator>,
    pub metrics: NodeMetrics,
}

impl Link {
    pub fn new(node: NodeName, operator: Box<dyn Operator>) -> Self {
        Self { node, operator, metrics: NodeMetrics::default() }
    }

    /// Gives it a batch of the input of this number.
    pub fn push(&mut self, input: usize, batch: Batch) -> Result<(), EngineError> {
        self.metrics.entered(batch.num_rows());
        self.run(|operator| match input {
            0 => operator.push(batch),
            _ => operator.push_second(batch),
        })
    }

    pub fn pull(&mut self) -> Result<Option<Batch>, EngineError> {
        let pulled = self.run(|operator| operator.pull())?;
        if let Some(batch) = &pulled {
            self.metrics.left(batch.num_rows());
        }
        Ok(pulled)
    }

    /// Runs the operator; what it fails with, a panic included, gets the node's name.
    pub fn run<T>(
        &mut self,
        body: impl FnOnce(&mut dyn Operator) -> Result<T, OperatorError>,
    ) -> Result<T, EngineError> {
        catch(&self.node, || body(self.operator.as_mut()))?
            .map_err(|source| EngineError::Operator { node: self.node.clone(), source })
    }
}

/// The next batch out of link `last`, which is fed from the links before it as needed.
pub(crate) fn pull_from(links: &mut [Link], last: usize) -> Result<Option<Batch>, EngineError> {
    loop {
        let Some(link) = links.get_mut(last) else { return Ok(None) };
        if let Some(batch) = link.pull()? {
            return Ok(Some(batch));
        }
        let Some(before) = last.checked_sub(1) else { return Ok(None) };
        let Some(batch) = pull_from(links, before)? else { return Ok(None) };
        if let Some(link) = links.get_mut(last) {
            link.push(0, batch)?;
        }
    }
}

/// What goes down a chain between batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A watermark; behind it is why bundles end.
    Watermark(i64, FlushReason),
    /// Bundles end.
    Flush(FlushReason),
    /// The input is over.
    EndOfInput,
}

/// Events on their way down a chain, each behind the rows that came before it.
///
/// An event stands in front of a link until that link has ended its bundle and everything that came of it has left the chain.
/// So output stays lazy: a bundle is handed out batch by batch while its event waits.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The first one is on its way; each with the link that it stands in front of.
    waiting: VecDeque<(usize, Step, Event)>,
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
        self.waiting.push_back((link, Step::Flush, event));
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Moves the first event one step on, when the chain has nothing left to hand out. A watermark that has gone through is
    /// returned. There must be an event.
    pub fn step(&mut self, links: &mut [Link]) -> Result<Option<i64>, EngineError> {
        let Some((at, step, event)) = self.waiting.pop_front() else { return Ok(None) };
        let Some(link) = links.get_mut(at) else {
            return Ok(match event {
                Event::Watermark(watermark, _) => Some(watermark),
                Event::Flush(_) | Event::EndOfInput => None,
            });
        };
        let reason = match event {
            Event::Watermark(_, reason) | Event::Flush(reason) => reason,
            Event::EndOfInput => FlushReason::EndOfInput,
        };
        if step == Step::Flush {
            link.run(|operator| operator.flush(reason))?;
            self.waiting.push_front((at, Step::Take, event));
            return Ok(None);
        }
        let mut goes_on = Some(event);
        let mut before = None;
        match event {
            Event::Watermark(watermark, reason) => {
                let passed = link.run(|operator| operator.watermark(watermark))?;
                goes_on = passed.map(|watermark| Event::Watermark(watermark, reason));
            }
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
            self.waiting.push_front((at + 1, Step::Flush, event));
        }
        Ok(None)
    }
}

/// Runs `body`; a panic becomes an error of `node`.
///
/// A stage is not used after a failure, so that nobody sees what a panic left half done.
pub(crate) fn catch<T>(node: &NodeName, body: impl FnOnce() -> T) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(body))
        .map_err(|payload| EngineError::Panic { node: node.clone(), message: panic_text(payload.as_ref()) })
}

/// The text of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

/// Panics at its next batch.
pub(crate) struct Panicking;

impl Operator for Panicking {
    #[expect(clippy::panic, reason = "this is what it is for")]
    fn push(&mut self, _: Batch) -> Result<(), OperatorError> {
        panic!("on purpose");
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(None)
    }
}
