//! Which fields of its input rows a stage reads: the `entry` of a stage.
//!
//! A field that is not read has no buffers at the entry and no place in the column tree; in a batch it keeps its position
//! as a column of Arrow type Null.

use serde_json::{Value, json};

use crate::types::{LogicalType, TypeKind};

/// What a stage reads of one field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryField {
    /// Not read.
    Skip,
    /// Read whole; never used for a ROW.
    Read,
    /// A ROW, read in part or whole: one element per field of its type.
    Row(Vec<EntryField>),
}

impl EntryField {
    /// All of a value of this type.
    pub fn whole(ty: &LogicalType) -> Self {
        match &ty.kind {
            TypeKind::Row(fields) => Self::Row(fields.iter().map(|field| Self::whole(&field.ty)).collect()),
            _ => Self::Read,
        }
    }

    /// Adds what `other` reads; both belong to one type.
    pub fn merge(&mut self, other: &EntryField) {
        match (&mut *self, other) {
            (_, Self::Skip) => {}
            (Self::Row(own), Self::Row(others)) => {
                for (own, other) in own.iter_mut().zip(others) {
                    own.merge(other);
                }
            }
            _ => *self = other.clone(),
        }
    }

    /// Number of columns in its column tree.
    pub fn columns(&self) -> usize {
        match self {
            Self::Skip => 0,
            Self::Read => 1,
            Self::Row(children) => 1 + children.iter().map(Self::columns).sum::<usize>(),
        }
    }
}

/// A tree as the response carries it: `null`, `{}` or `{"children": [..]}` per field.
pub(crate) fn entry_to_json(fields: &[EntryField]) -> Value {
    fields
        .iter()
        .map(|field| match field {
            EntryField::Skip => Value::Null,
            EntryField::Read => json!({}),
            EntryField::Row(children) => json!({"children": entry_to_json(children)}),
        })
        .collect()
}

/// The inverse of [`entry_to_json`]; `None` if the tree does not fit the fields of `ty`.
pub(crate) fn entry_from_json(json: &Value, ty: &LogicalType) -> Option<Vec<EntryField>> {
    let list = json.as_array()?;
    if list.len() != ty.fields().len() {
        return None;
    }
    list.iter()
        .zip(ty.fields())
        .map(|(json, field)| match (json, &field.ty.kind) {
            (Value::Null, _) => Some(EntryField::Skip),
            (Value::Object(map), TypeKind::Row(_)) => {
                entry_from_json(map.get("children")?, &field.ty).map(EntryField::Row)
            }
            (Value::Object(map), _) if map.is_empty() => Some(EntryField::Read),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::EntryField::{Read, Row, Skip};
    use super::*;
    use crate::reader::read_type;
    use crate::reason::Reason;

    #[test]
    fn a_tree_is_written_and_read_back() -> Result<(), Reason> {
        let ty = read_type(&json!("ROW<`a` INT, `b` INT, `r` ROW<`x` INT, `e` ROW<>>>"))?;
        let trees = [
            vec![Skip, Read, Row(vec![Skip, Row(vec![])])],
            vec![Read, Skip, Skip],
            ty.fields().iter().map(|field| EntryField::whole(&field.ty)).collect(),
        ];
        for tree in trees {
            assert_eq!(entry_from_json(&entry_to_json(&tree), &ty), Some(tree));
        }
        Ok(())
    }

    #[test]
    fn a_tree_of_another_type_is_refused() -> Result<(), Reason> {
        let ty = read_type(&json!("ROW<`a` INT, `r` ROW<`x` INT>>"))?;
        let wrong = [
            json!(null),
            json!([{}]),
            json!([{}, {}]),
            json!([{"children": []}, null]),
            json!([{}, {"children": [{}, {}]}]),
            json!([1, null]),
        ];
        for json in wrong {
            assert_eq!(entry_from_json(&json, &ty), None, "{json}");
        }
        Ok(())
    }

    #[test]
    fn merging_reads_what_either_reads() {
        let mut field = Row(vec![Read, Skip, Row(vec![Skip])]);
        field.merge(&Row(vec![Skip, Skip, Row(vec![Read])]));
        assert_eq!(field, Row(vec![Read, Skip, Row(vec![Read])]));
        assert_eq!(field.columns(), 4);
        let mut skipped = Skip;
        skipped.merge(&field);
        assert_eq!(skipped, field);
    }
}
