//! The result of planning a job: what runs natively, in which stages, and why the rest does not.

use serde_json::Value;

use crate::capability::Host;
use crate::entry::EntryField;
use crate::node::Distribution;
use crate::reason::Reason;

/// The plan of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPlan {
    /// One element per node of the graph, in plan order.
    pub nodes: Vec<PlannedNode>,
    /// The stages, each behind the stages that it reads from; a stage's id is its position.
    pub stages: Vec<Stage>,
}

/// What becomes of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedNode {
    /// Its id.
    pub id: i64,
    /// Its type without the version.
    pub type_name: String,
    /// Flink's own description.
    pub description: String,
    /// The stage that runs it, or why it stays on Flink.
    pub placement: Result<usize, Reason>,
    /// Sub-expressions that run in the JVM; empty for a node on Flink.
    pub hosts: Vec<Host>,
}

/// One Flink operator that runs native nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Ids of its nodes in order, an exchange last. Empty for a stage that only enters or only exits.
    pub nodes: Vec<i64>,
    /// The node whose Flink uid and description the operator keeps.
    pub anchor: i64,
    /// What comes in: one input, or two for a join, the left one first.
    pub inputs: Vec<StageInput>,
    /// What it hands on.
    pub output: Form,
    /// How its output is distributed.
    pub exchange: Option<Distribution>,
    /// Whether its output travels as fragments, one per key group: behind a hash exchange of a job with unaligned checkpoints.
    pub fragments_out: bool,
    /// What is there of each field of the output; everything where it hands on rows.
    pub writes: Vec<EntryField>,
    /// Sub-expressions that run in the JVM, with their nodes; the position is the host's number.
    pub hosts: Vec<(i64, Host)>,
    /// Whether one of its nodes keeps state.
    pub stateful: bool,
    /// Whether one of its nodes collects rows without keeping state.
    pub collects: bool,
    /// What the engine needs to open the stage; read it with [`StageSpec`](crate::spec::StageSpec).
    pub spec: Value,
}

/// One input of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageInput {
    /// Where it comes from, merged: all rows or all batches. More than one only in front of a union.
    pub sources: Vec<Source>,
    /// The node whose output type is the type of its rows.
    pub row_type: i64,
    /// What is there of each field. For rows: what the entry reads. For batches: what the stages in front wrote.
    pub reads: Vec<EntryField>,
    /// Whether it may arrive as fragments: behind any hash exchange, as the job may be restored from an unaligned checkpoint
    /// that it would not take itself.
    pub fragments: bool,
}

/// Where rows or batches come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The node that produces it.
    pub node: i64,
    /// The stage that hands it on as batches; `None`: rows from Flink.
    pub stage: Option<usize>,
}

/// The form in which rows travel between two operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Flink's rows.
    Rows,
    /// Native batches.
    Batches,
}

impl StageInput {
    /// Whether rows or batches come in.
    pub fn form(&self) -> Form {
        if self.sources.iter().any(|source| source.stage.is_some()) { Form::Batches } else { Form::Rows }
    }
}

impl JobPlan {
    /// One line for the log, for example `3 of 5 nodes run natively in 2 stages`.
    pub fn summary(&self) -> String {
        let native = self.nodes.iter().filter(|node| node.placement.is_ok()).count();
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let (all, stages) = (self.nodes.len(), self.stages.len());
        let verb = if native == 1 { "runs" } else { "run" };
        let head = format!("{native} of {all} node{} {verb} natively", plural(all));
        if native == 0 { head } else { format!("{head} in {stages} stage{}", plural(stages)) }
    }
}
