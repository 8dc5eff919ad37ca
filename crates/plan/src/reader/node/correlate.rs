//! UNNEST from JSON.

use super::{Inputs, NodeJson, NodeType};
use crate::node::{Correlate, JoinType, NodeKind, Ordinality};
use crate::reader::json::{array, malformed, object, optional, required, text};
use crate::reader::rex::{read_correlated_rex, read_function, read_rex};
use crate::reason::Reason;
use crate::rex::Function;

pub(super) const CORRELATE: NodeType = NodeType {
    name: "stream-exec-correlate",
    properties: &["joinType", "functionCall", "condition"],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_correlate(node).map(NodeKind::Correlate),
};

fn read_correlate(node: &NodeJson<'_>) -> Result<Correlate, Reason> {
    let join_type = match text(node.map, "joinType")? {
        "INNER" => JoinType::Inner,
        "LEFT" => JoinType::Left,
        other => return Err(malformed(format_args!("a table function is joined as {other}"))),
    };
    let call = object(required(node.map, "functionCall")?, "`functionCall`")?;
    let ordinality = match read_function(call)? {
        Function::BuiltIn { name, version: 1 } if name == "UNNEST_ROWS" => Ordinality::Without,
        Function::BuiltIn { name, version: 1 } if name == "UNNEST_ROWS_WITH_ORDINALITY" => Ordinality::Numbered,
        Function::BuiltIn { name, .. } | Function::User(name) => {
            return Err(Reason::new(format!("the table function {name} is not supported natively")));
        }
    };
    let [collection] = array(call, "operands")? else {
        return Err(malformed("UNNEST has another number of operands than one"));
    };
    Ok(Correlate {
        join_type,
        collection: read_correlated_rex(collection)?,
        ordinality,
        condition: optional(node.map, "condition").map(read_rex).transpose()?,
    })
}
