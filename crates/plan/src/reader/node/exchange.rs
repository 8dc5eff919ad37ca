//! Exchanges from JSON: the distribution stands in the input property.

use super::{Inputs, NodeJson, NodeType};
use crate::node::{Distribution, NodeKind};
use crate::reader::json::{array, indices, malformed, object, required, text, unknown_key};
use crate::reason::Reason;

pub(super) const EXCHANGE: NodeType = NodeType {
    name: "stream-exec-exchange",
    properties: &[],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_distribution(node).map(NodeKind::Exchange),
};

fn read_distribution(node: &NodeJson<'_>) -> Result<Distribution, Reason> {
    let [property] = array(node.map, "inputProperties")? else {
        return Err(malformed("an exchange has not exactly one input property"));
    };
    let property = object(property, "an input property")?;
    let distribution = object(required(property, "requiredDistribution")?, "`requiredDistribution`")?;
    let unknown = unknown_key(property, &["requiredDistribution", "damBehavior", "priority"])
        .or_else(|| unknown_key(distribution, &["type", "keys"]));
    if let Some(key) = unknown {
        return Err(Reason::new(format!("its property `{key}` is not known here")));
    }
    match text(distribution, "type")? {
        "HASH" => match indices(distribution, "keys")? {
            keys if keys.is_empty() => Err(malformed("an exchange hashes no columns")),
            keys => Ok(Distribution::Hash(keys)),
        },
        "SINGLETON" => Ok(Distribution::Singleton),
        other => Err(Reason::new(format!("an exchange of type {other} is not supported natively"))),
    }
}
