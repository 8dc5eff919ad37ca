//! What the engine can run: the planner's view of operators and expressions.

use crate::node::Node;
use crate::reader::Config;
use crate::reason::Reason;
use crate::types::LogicalType;

/// Says of each node whether it can run natively. Asked for nodes that are well-formed: column numbers are in range, and
/// types agree with those of the inputs.
pub trait Capabilities {
    /// How `node` would run over rows of the types `inputs`, or why it stays on Flink. `config` holds the session's options.
    fn node(&self, node: &Node, inputs: &[&LogicalType], config: &Config) -> Result<NativeNode, Reason>;

    /// Whether stages with two inputs can run; without it no node that tells two inputs apart is native.
    fn two_inputs(&self) -> bool {
        false
    }
}

/// A node that can run natively.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NativeNode {
    /// Sub-expressions that run in the JVM.
    pub hosts: Vec<Host>,
    /// Whether it keeps keyed state.
    pub stateful: bool,
    /// Whether it collects rows of several batches without keyed state, so that its stage needs managed memory as well.
    pub collects: bool,
}

/// A sub-expression that runs in the JVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// JSON pointer inside its node's JSON, for example `/projection/2/operands/0`.
    pub pointer: String,
    /// Columns of the node's input that it reads, ascending, without duplicates.
    pub inputs: Vec<usize>,
    /// What it is, in words for EXPLAIN, for example `LOWER`.
    pub expression: String,
    /// Why it is not native.
    pub reason: Reason,
}
