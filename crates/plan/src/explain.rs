//! A plan in words, for EXPLAIN and for the command line.

use std::fmt::Write;

use crate::job::JobPlan;

impl JobPlan {
    /// The summary, then one line per node in plan order: its id, `native` with its stage or `Flink`, and its description.
    /// Below it, indented: why it stays on Flink, or which of its expressions run in the JVM.
    pub fn explain(&self) -> String {
        let mut text = self.summary();
        text.push('\n');
        let width = self.nodes.iter().map(|node| node.id.to_string().len()).max().unwrap_or(0);
        let place = |placement: &Result<usize, _>| match placement {
            Ok(stage) => format!("native, stage {stage}"),
            Err(_) => "Flink".to_owned(),
        };
        let place_width = self.nodes.iter().map(|node| place(&node.placement).len()).max().unwrap_or(0);
        for node in &self.nodes {
            let what = if node.description.is_empty() { &node.type_name } else { &node.description };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:>width$}  {:<place_width$}  {what}", node.id, place(&node.placement));
            let indent = width + 2;
            if let Err(reason) = &node.placement {
                let _ = writeln!(text, "{:indent$}  stays on Flink: {reason}", "");
            }
            for host in &node.hosts {
                let _ = writeln!(text, "{:indent$}  in the JVM: {}: {}", "", host.expression, host.reason);
            }
        }
        text
    }
}
