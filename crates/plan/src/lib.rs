//! Reads Flink compiled plans and decides what runs natively.
//!
//! The input is the JSON that Flink writes for `COMPILE PLAN`. Whatever is not known here, a node, a function, a type or a
//! property, is never an error: it becomes a [`Reason`] tied to its node, and that node stays on Flink.
//!
//! [`Graph::read`] reads a plan, [`plan_job`] cuts it into stages, [`JobPlan::to_json`] answers the Java side, and
//! [`StageSpec::read`] reads one stage back where it is to run.
#![forbid(unsafe_code)]

pub mod capability;
pub mod check;
pub mod entry;
mod explain;
pub mod job;
pub mod node;
pub mod planner;
pub mod reader;
pub mod reason;
mod response;
pub mod rex;
pub mod spec;
pub mod types;
pub mod zone;

pub use capability::{Capabilities, Host, NativeNode};
pub use entry::EntryField;
pub use job::{Form, JobPlan};
pub use planner::plan_job;
pub use reader::{Graph, PlanError};
pub use reason::Reason;
pub use spec::StageSpec;
