//! An operator in its place in a stage, and chains of them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use streamfusion_operators::{Mark, Operator, OperatorError};
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

/// What came out of a chain.
pub(crate) enum Pulled {
    Batch(Batch),
    /// It goes on from behind the link of this position, before anything else is pulled from it.
    Mark(usize, Mark),
    Nothing,
}

/// The next thing out of link `last`, which is fed from the links before it, down to link `first`, as needed.
pub(crate) fn pull_from(links: &mut [Link], first: usize, last: usize) -> Result<Pulled, EngineError> {
    if last < first {
        return Ok(Pulled::Nothing);
    }
    loop {
        let Some(link) = links.get_mut(last) else { return Ok(Pulled::Nothing) };
        if let Some(batch) = link.pull()? {
            return Ok(Pulled::Batch(batch));
        }
        if let Some(mark) = link.run(|operator| Ok(operator.mark()))? {
            return Ok(Pulled::Mark(last, mark));
        }
        let Some(before) = last.checked_sub(1) else { return Ok(Pulled::Nothing) };
        match pull_from(links, first, before)? {
            Pulled::Batch(batch) => {
                if let Some(link) = links.get_mut(last) {
                    link.push(0, batch)?;
                }
            }
            other => return Ok(other),
        }
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
