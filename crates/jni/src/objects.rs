//! What is open: entries, stages, batches and snapshots, each behind handles of its own.

use std::sync::{Mutex, OnceLock};

use streamfusion_engine::{Stage, StageSnapshot};
use streamfusion_row::Batch;
use streamfusion_row::entry::EntryBuffers;
use streamfusion_row::export::Export;

use crate::guard::NativeError;
use crate::handles::Handles;

/// A batch with the addresses of its columns, once somebody asked for them.
pub(crate) struct OpenBatch {
    pub batch: Batch,
    pub export: OnceLock<Export>,
}

impl OpenBatch {
    /// Opens `batch` and returns its handle.
    pub(crate) fn open(batch: Batch) -> i64 {
        BATCHES.open(Self { batch, export: OnceLock::new() })
    }
}

pub(crate) static BATCHES: Handles<OpenBatch> = Handles::new("batch");
pub(crate) static ENTRIES: Handles<Mutex<EntryBuffers>> = Handles::new("entry");
/// A panic inside a stage poisons its mutex: later calls fail instead of working on half-changed state.
pub(crate) static STAGES: Handles<Mutex<Stage>> = Handles::new("stage");
/// Snapshots are only read, so that several threads may share one.
pub(crate) static SNAPSHOTS: Handles<StageSnapshot> = Handles::new("snapshot");

/// Handles of all kinds that are open.
pub(crate) fn live() -> i64 {
    let live = BATCHES.live() + ENTRIES.live() + STAGES.live() + SNAPSHOTS.live();
    i64::try_from(live).unwrap_or(i64::MAX)
}

/// Runs `body` on a stage.
pub(crate) fn with_stage<T>(
    handle: i64,
    body: impl FnOnce(&mut Stage) -> Result<T, NativeError>,
) -> Result<T, NativeError> {
    let stage = STAGES.get(handle)?;
    let mut stage = stage.lock().map_err(|_| NativeError::Poisoned)?;
    body(&mut stage)
}

/// Runs `body` on an entry.
pub(crate) fn with_entry<T>(
    handle: i64,
    body: impl FnOnce(&mut EntryBuffers) -> Result<T, NativeError>,
) -> Result<T, NativeError> {
    let entry = ENTRIES.get(handle)?;
    let mut entry = entry.lock().map_err(|_| NativeError::Poisoned)?;
    body(&mut entry)
}
