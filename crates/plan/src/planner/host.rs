//! Whether the job's state backend can host native state, and whether the job asks for operators with state that are native.
//!
//! Native state is in Flink's snapshots as keyed state of the operator's backend, in the canonical form. The backends `hashmap` and
//! `rocksdb` read that form back. One that logs changes, or keeps state elsewhere, does not see what the native operator does.
//! With asynchronous state Flink has other operators, which native ones do not follow.

use crate::reader::Config;
use crate::reason::Reason;

/// Flink's options, each with the key that it had before.
const BACKEND: [&str; 2] = ["state.backend.type", "state.backend"];
const CHANGELOG: [&str; 2] = ["state.changelog.enabled", "state.backend.changelog.enabled"];
const ASYNC_STATE: [&str; 1] = ["table.exec.async-state.enabled"];

/// Why a stateful node stays on Flink, whatever it is.
pub(super) fn refuses_state(config: &Config) -> Option<Reason> {
    let set = |keys: &[&str]| keys.iter().find_map(|key| config.get(*key)).map(|value| value.trim());
    let enabled = |keys: &[&str]| set(keys).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if enabled(&ASYNC_STATE) {
        return Some(Reason::new("table.exec.async-state.enabled asks for other operators, with asynchronous state"));
    }
    if enabled(&CHANGELOG) {
        return Some(Reason::new("the job writes a state changelog, which native state has no part in"));
    }
    let backend = set(&BACKEND)?;
    let hosts = ["hashmap", "rocksdb"].iter().any(|name| backend.eq_ignore_ascii_case(name));
    (!hosts)
        .then(|| Reason::new(format!("the state backend {backend} cannot host native state, hashmap and rocksdb can")))
}
