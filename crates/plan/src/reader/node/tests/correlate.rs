//! Tests of UNNEST.

use super::*;
use crate::node::{Correlate, JoinType, Ordinality};
use crate::rex::Rex;

fn correlate(kind: NodeKind) -> Result<Correlate, Box<dyn std::error::Error>> {
    match kind {
        NodeKind::Correlate(correlate) => Ok(correlate),
        other => Err(format!("{other:?}").into()),
    }
}

#[test]
fn a_field_of_the_correlation_variable_is_a_column_of_the_input() -> TestResult {
    let graph = plan("unnest_left")?;
    let node = first(&graph, "correlate")?;
    let unnest = correlate(node.kind.clone())?;
    assert_eq!((unnest.join_type, unnest.ordinality), (JoinType::Left, Ordinality::Numbered));
    assert!(matches!(unnest.collection, Rex::InputRef { index: 1, .. }), "{:?}", unnest.collection);
    assert_eq!(unnest.condition, None);
    assert_eq!(unnest.element_columns().map(|columns| columns.len()), Some(2));
    assert_eq!(check_node(node, &inputs(&graph, node)), Ok(()));
    Ok(())
}

#[test]
fn a_condition_is_one_on_the_element() -> TestResult {
    let graph = plan("unnest_where")?;
    let node = first(&graph, "correlate")?;
    let unnest = correlate(node.kind.clone())?;
    assert_eq!((unnest.join_type, unnest.ordinality), (JoinType::Inner, Ordinality::Without));
    assert!(unnest.condition.is_some());
    // the element has one column
    let kind = changed("unnest_where", "correlate", &[("/condition/operands/0/inputIndex", json!(1))], &[])?;
    assert!(check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).is_err());
    Ok(())
}

#[test]
fn what_is_no_unnest_of_a_collection_is_refused() -> TestResult {
    let name = "/functionCall/internalName";
    let untyped = [
        ("/joinType", json!("FULL"), "joined as FULL"),
        (name, json!("$UNNEST_ROWS$2"), "the table function UNNEST_ROWS is not supported"),
        (name, json!("$REPLICATE_ROWS$1"), "the table function REPLICATE_ROWS is not supported"),
        ("/functionCall/operands", json!([]), "another number of operands"),
        ("/functionCall/operands/0/name", json!("none"), "no field `none`"),
    ];
    for (pointer, value, reason) in untyped {
        assert_stock(&changed("unnest_left", "correlate", &[(pointer, value)], &[])?, reason);
    }
    let graph = plan("unnest_left")?;
    let node = first(&graph, "correlate")?;
    for column in ["id", "e", "m"] {
        let kind = changed("unnest_left", "correlate", &[("/functionCall/operands/0/name", json!(column))], &[])?;
        assert!(check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).is_err(), "{column}");
    }
    Ok(())
}
