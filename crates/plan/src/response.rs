//! The response of planning: a [`JobPlan`] as the JSON that `docs/design/boundary.md` describes.

use serde_json::{Map, Value, json};

use crate::entry::entry_to_json;
use crate::job::{Form, JobPlan, PlannedNode, Stage, StageInput};
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
    let hosts: Vec<Value> = stage
        .hosts
        .iter()
        .map(|(node, host)| json!({"node": node, "pointer": host.pointer, "inputs": host.inputs}))
        .collect();
    let mut json = json!({
        "id": id,
        "nodes": stage.nodes,
        "anchor": stage.anchor,
        "output": form_name(stage.output),
        "exchange": stage.exchange.as_ref().map(|distribution| {
            json!({"keys": distribution_keys(distribution), "fragments": stage.fragments_out})
        }),
        "hosts": hosts,
        "stateful": stage.stateful,
        "collects": stage.collects,
        "spec": stage.spec.to_string(),
    });
    // The first input stands among the members of the stage itself: hardly any stage has another.
    let mut inputs = stage.inputs.iter().map(input);
    if let Some(map) = json.as_object_mut() {
        map.extend(inputs.next().unwrap_or_default());
        map.extend(inputs.next().map(|second| ("second".to_owned(), Value::Object(second))));
    }
    json
}

fn input(input: &StageInput) -> Map<String, Value> {
    let sources: Vec<Value> =
        input.sources.iter().map(|source| json!({"node": source.node, "stage": source.stage})).collect();
    let entry = match input.form() {
        Form::Rows => entry_to_json(&input.reads),
        Form::Batches => Value::Null,
    };
    let members = [
        ("inputs", json!(sources)),
        ("rowType", json!(input.row_type)),
        ("fragmentInput", json!(input.fragments)),
        ("entry", entry),
    ];
    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
