//! The version record: what the entries of a key group are, checked before one of them is read.
//!
//! ```text
//! u32 big-endian: version of the metadata, 4 | u64 big-endian: digest of the sections | operator identifier, UTF-8
//! ```
//!
//! The digest is the 64-bit FNV-1a hash of names, types and definitions of all columns of all sections, key included.

use arrow::datatypes::SchemaRef;

/// Version of what lies in the database.
const VERSION: u32 = 4;

fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    hash
}

/// The digest of sections in their order.
fn digest<'a>(sections: impl Iterator<Item = (&'a str, &'a SchemaRef)>) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325;
    let mut add = |text: &str| {
        hash = fnv(hash, &text.len().to_le_bytes());
        hash = fnv(hash, text.as_bytes());
    };
    for (name, schema) in sections {
        add(name);
        for field in schema.fields() {
            add(field.name());
            add(&format!("{:?} {}", field.data_type(), field.is_nullable()));
            let mut metadata: Vec<_> = field.metadata().iter().collect();
            metadata.sort();
            metadata.into_iter().for_each(|(key, value)| {
                add(key);
                add(value);
            });
        }
        add("");
    }
    hash
}

/// The record of an operator's sections.
pub(super) fn record<'a>(operator_id: &str, sections: impl Iterator<Item = (&'a str, &'a SchemaRef)>) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(VERSION.to_be_bytes());
    record.extend(digest(sections).to_be_bytes());
    record.extend(operator_id.as_bytes());
    record
}

/// A record in words.
pub(super) fn describe(record: &[u8]) -> String {
    let Some((version, rest)) = record.split_first_chunk() else { return "of no version".to_owned() };
    let Some((digest, operator)) = rest.split_first_chunk() else { return "of no version".to_owned() };
    format!(
        "of version {}, columns {:016x}, of the operator `{}`",
        u32::from_be_bytes(*version),
        u64::from_be_bytes(*digest),
        String::from_utf8_lossy(operator)
    )
}
