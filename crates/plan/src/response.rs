//! The response of planning: a [`JobPlan`] as the JSON that `docs/design/boundary.md` describes.

use serde_json::{Value, json};

use crate::entry::entry_to_json;
use crate::job::{Form, JobPlan, PlannedNode, Stage};
use crate::spec::{distribution_keys, form_name};

impl JobPlan {
    /// The response for the Java side.
    pub fn to_json(&self) -> Value {
        json!({
            "summary": self.summary(),
            "explain": self.explain(),
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
            "stages": self.stages.iter().enumerate().map(stage).collect::<Vec<_>>(),
        })
    }
}

fn node(node: &PlannedNode) -> Value {
    let hosts: Vec<Value> = node
        .hosts
        .iter()
        .map(|host| json!({"expression": host.expression, "reason": host.reason.to_string()}))
        .collect();
    let mut json = json!({
        "id": node.id,
        "type": node.type_name,
        "description": node.description,
        "native": node.placement.is_ok(),
        "reasons": node.placement.as_ref().err().map(ToString::to_string).into_iter().collect::<Vec<_>>(),
        "jvmExpressions": hosts,
    });
    if let (Ok(stage), Some(map)) = (&node.placement, json.as_object_mut()) {
        map.insert("stage".to_owned(), json!(stage));
    }
    json
}

fn stage((id, stage): (usize, &Stage)) -> Value {
    let inputs: Vec<Value> =
        stage.inputs.iter().map(|input| json!({"node": input.node, "stage": input.stage})).collect();
    let hosts: Vec<Value> = stage
        .hosts
        .iter()
        .map(|(node, host)| json!({"node": node, "pointer": host.pointer, "inputs": host.inputs}))
        .collect();
    let entry = match stage.input_form() {
        Form::Rows => entry_to_json(&stage.reads),
        Form::Batches => Value::Null,
    };
    json!({
        "id": id,
        "nodes": stage.nodes,
        "anchor": stage.anchor,
        "inputs": inputs,
        "rowType": stage.row_type,
        "output": form_name(stage.output),
        "exchange": stage.exchange.as_ref().map(|distribution| {
            json!({"keys": distribution_keys(distribution), "fragments": stage.fragments_out})
        }),
        "fragmentInput": stage.fragments_in,
        "entry": entry,
        "hosts": hosts,
        "stateful": stage.stateful,
        "spec": stage.spec.to_string(),
    })
}
