//! A stage: a chain of native operators behind one call per batch.
//!
//! [`plan`] answers the planner's question what runs natively; [`Stage`] runs what it answered. Operators live in
//! `streamfusion_operators`, expressions in `streamfusion_expr`; this crate wires them and says whose fault a failure is.

#![forbid(unsafe_code)]

mod build;
pub mod capabilities;
pub mod error;
#[cfg(test)]
mod event_tests;
mod events;
mod exchange;
pub mod input;
mod link;
mod metrics;
pub mod stage;
pub mod state;

pub use capabilities::capabilities;
pub use error::{EngineError, NodeName};
pub use exchange::Edge;
pub use input::{InputError, InputParameters, Receiver, Sender, ShuffleParameters};
pub use stage::{HostFactory, Output, Stage, open_entry};
pub use state::{EncodedGroup, StageMemory, StageSnapshot, StateParameters};
pub use streamfusion_operators::bundle::FlushReason;
pub use streamfusion_operators::{DroppedRows, WatermarkStatus};

use streamfusion_plan::{Graph, plan_job};

/// Plans a job: takes the request's JSON and returns the response's (see `docs/design/boundary.md`).
///
/// Errors only if the request as a whole cannot be read; whatever in it is not known stays on Flink, with a reason.
pub fn plan(request: &str) -> Result<String, EngineError> {
    let graph = Graph::read(request)?;
    Ok(plan_job(&graph, &capabilities()).to_json().to_string())
}
