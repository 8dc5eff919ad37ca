//! Changelog normalization and deduplication from JSON.

use super::options::{MINI_BATCH_ENABLED, MINI_BATCH_SIZE};
use super::{Inputs, NodeJson, NodeType};
use crate::node::{ChangelogNormalize, Deduplicate, KeepRow, NodeKind};
use crate::reader::json::{boolean, indices, malformed, optional};
use crate::reader::rex::read_rex;
use crate::reason::Reason;
use crate::types::TimeDomain;

const GENERATE_INSERT: &str = "table.exec.deduplicate.insert-update-after-sensitive-enabled";
const COMPACT_CHANGES: &str = "table.exec.deduplicate.mini-batch.compact-changes-enabled";

pub(super) const CHANGELOG_NORMALIZE: NodeType = NodeType {
    name: "stream-exec-changelog-normalize",
    properties: &["uniqueKeys", "generateUpdateBefore", "filterCondition", "state"],
    options: &[MINI_BATCH_ENABLED, MINI_BATCH_SIZE],
    inputs: Inputs::One,
    read: |node| read_normalize(node).map(NodeKind::ChangelogNormalize),
};

pub(super) const DEDUPLICATE: NodeType = NodeType {
    name: "stream-exec-deduplicate",
    properties: &["uniqueKeys", "isRowtime", "keepLastRow", "outputInsertOnly", "generateUpdateBefore", "state"],
    options: &[MINI_BATCH_ENABLED, MINI_BATCH_SIZE, GENERATE_INSERT, COMPACT_CHANGES],
    inputs: Inputs::One,
    read: |node| read_deduplicate(node).map(NodeKind::Deduplicate),
};

fn read_normalize(node: &NodeJson<'_>) -> Result<ChangelogNormalize, Reason> {
    let [ttl_ms] = node.options.state_ttl_ms(node.map)?;
    Ok(ChangelogNormalize {
        unique_keys: indices(node.map, "uniqueKeys")?,
        generate_update_before: boolean(node.map, "generateUpdateBefore")?,
        filter: optional(node.map, "filterCondition").map(read_rex).transpose()?,
        ttl_ms,
        mini_batch_size: node.options.mini_batch()?,
    })
}

fn read_deduplicate(node: &NodeJson<'_>) -> Result<Deduplicate, Reason> {
    let [ttl_ms] = node.options.state_ttl_ms(node.map)?;
    let mini_batch_size = node.options.mini_batch()?;
    // A plan from before this property existed means false.
    let output_insert_only = match optional(node.map, "outputInsertOnly") {
        Some(_) => boolean(node.map, "outputInsertOnly")?,
        None => false,
    };
    if output_insert_only && mini_batch_size.is_some() {
        return Err(malformed("a deduplication that hands on insertions only has no mini-batch form"));
    }
    Ok(Deduplicate {
        unique_keys: indices(node.map, "uniqueKeys")?,
        time: if boolean(node.map, "isRowtime")? { TimeDomain::Rowtime } else { TimeDomain::Proctime },
        keep: if boolean(node.map, "keepLastRow")? { KeepRow::Last } else { KeepRow::First },
        output_insert_only,
        generate_update_before: boolean(node.map, "generateUpdateBefore")?,
        generate_insert: node.options.flag(GENERATE_INSERT, true)?,
        compact_changes: node.options.flag(COMPACT_CHANGES, false)?,
        ttl_ms,
        mini_batch_size,
    })
}
