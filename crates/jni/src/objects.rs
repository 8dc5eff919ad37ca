//! What is open: entries, stages, batches and snapshots, each behind handles of its own.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use streamfusion_engine::{EncodedGroup, Stage, StageSnapshot};
use streamfusion_row::entry::EntryBuffers;
use streamfusion_row::export::Export;
use streamfusion_row::{Batch, KeyGroup};

use crate::guard::NativeError;
use crate::handles::Handles;

/// A batch with the addresses of its columns and the parts of its encoded form, once somebody asked for them.
pub(crate) struct OpenBatch {
    pub batch: Batch,
    pub export: OnceLock<Export>,
    pub encoded: OnceLock<[Vec<u8>; 2]>,
}

impl OpenBatch {
    /// Opens `batch` and returns its handle.
    pub(crate) fn open(batch: Batch) -> i64 {
        BATCHES.open(Self { batch, export: OnceLock::new(), encoded: OnceLock::new() })
    }
}

/// A stage with the watermark that was pulled last, until it is handed out.
pub(crate) struct OpenStage {
    pub stage: Stage,
    pub pulled_watermark: Option<i64>,
}

impl OpenStage {
    /// Opens `stage` and returns its handle.
    pub(crate) fn open(stage: Stage) -> i64 {
        STAGES.open(Mutex::new(Self { stage, pulled_watermark: None }))
    }
}

/// A snapshot with the key group that was encoded last, until its parts have been read.
pub(crate) struct OpenSnapshot {
    pub snapshot: StageSnapshot,
    encoded: Mutex<Option<Arc<(KeyGroup, EncodedGroup)>>>,
}

impl OpenSnapshot {
    /// Opens `snapshot` and returns its handle.
    pub(crate) fn open(snapshot: StageSnapshot) -> i64 {
        SNAPSHOTS.open(Self { snapshot, encoded: Mutex::new(None) })
    }

    /// Encodes a key group and keeps it in the place of the one before. Returns the number of its chunks.
    pub(crate) fn encode(&self, group: KeyGroup) -> Result<usize, NativeError> {
        self.keep(None); // there is never room taken for two of them
        let encoded = self.snapshot.encode(group)?;
        let chunks = encoded.chunks().len();
        self.keep(Some(Arc::new((group, encoded))));
        Ok(chunks)
    }

    /// The key group that was encoded last, which must be `group`.
    pub(crate) fn encoded(&self, group: KeyGroup) -> Result<Arc<(KeyGroup, EncodedGroup)>, NativeError> {
        self.lock()
            .clone()
            .filter(|encoded| encoded.0 == group)
            .ok_or(NativeError::Argument { name: "group", value: i64::from(group.0) })
    }

    fn keep(&self, encoded: Option<Arc<(KeyGroup, EncodedGroup)>>) {
        *self.lock() = encoded;
    }

    /// What is kept is replaced as a whole, so that a panic cannot leave half of it.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<(KeyGroup, EncodedGroup)>>> {
        self.encoded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) static BATCHES: Handles<OpenBatch> = Handles::new("batch");
pub(crate) static ENTRIES: Handles<Mutex<EntryBuffers>> = Handles::new("entry");
/// A panic inside a stage poisons its mutex: later calls fail instead of working on half-changed state.
pub(crate) static STAGES: Handles<Mutex<OpenStage>> = Handles::new("stage");
/// Snapshots are only read, so that several threads may share one.
pub(crate) static SNAPSHOTS: Handles<OpenSnapshot> = Handles::new("snapshot");

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
    with_open_stage(handle, |open| body(&mut open.stage))
}

/// Runs `body` on a stage and what is kept beside it.
pub(crate) fn with_open_stage<T>(
    handle: i64,
    body: impl FnOnce(&mut OpenStage) -> Result<T, NativeError>,
) -> Result<T, NativeError> {
    let open = STAGES.get(handle)?;
    let mut open = open.lock().map_err(|_| NativeError::Poisoned)?;
    body(&mut open)
}

/// The number of an input.
pub(crate) fn input(number: i32) -> Result<usize, NativeError> {
    usize::try_from(number).map_err(|_| NativeError::Argument { name: "input", value: i64::from(number) })
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
