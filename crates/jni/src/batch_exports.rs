//! Native methods on batches.

use jni::EnvUnowned;
use jni::objects::{JByteBuffer, JClass, JLongArray};
use jni::sys::{jint, jlong};
use streamfusion_row::export::Export;
use streamfusion_row::{Batch, fragment, frame};

use crate::guard::{NativeError, guard};
use crate::objects::{BATCHES, OpenBatch, with_stage};

/// `int batchRows(long batch)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_batchRows<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    batch: jlong,
) -> jint {
    guard(env, |_| int("rows", BATCHES.get(batch)?.batch.num_rows()))
}

/// `long batchBytes(long batch)`: the memory that its columns hold.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_batchBytes<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    batch: jlong,
) -> jlong {
    guard(env, |_| Ok(jlong::try_from(BATCHES.get(batch)?.batch.bytes()).unwrap_or(jlong::MAX)))
}

/// `int batchKeyGroup(long batch)`: the representative key group, -1 without one.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_batchKeyGroup<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    batch: jlong,
) -> jint {
    guard(env, |_| Ok(BATCHES.get(batch)?.batch.key_group().map_or(-1, jint::from)))
}

/// `long batchRetain(long batch)`: a second handle to the same rows.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_batchRetain<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    batch: jlong,
) -> jlong {
    guard(env, |_| Ok(OpenBatch::open(BATCHES.get(batch)?.batch.clone())))
}

/// `void batchRelease(long batch)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_batchRelease<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    batch: jlong,
) {
    guard(env, |_| {
        BATCHES.close(batch)?;
        Ok(())
    });
}

/// `void batchEncode(long batch, long[] parts)`: fills in address and length of the two parts of the encoded batch, valid until the
/// handle is released.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_batchEncode<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    batch: jlong,
    parts: JLongArray<'a>,
) {
    guard(env, |env| {
        let open = BATCHES.get(batch)?;
        if open.encoded.get().is_none() {
            let encoded = match open.batch.fragment() {
                None => frame::encode_parts(&open.batch)?,
                Some(_) => [fragment::encode(&open.batch)?, Vec::new()],
            };
            // Two threads may both get here; the first form stays, the other is dropped unused.
            let _ = open.encoded.set(encoded);
        }
        let encoded = open.encoded.get().ok_or(NativeError::Poisoned)?;
        let found = encoded.each_ref().map(|part| [address(part.as_ptr()), part.len() as jlong]);
        Ok(parts.set_region(env, 0, found.as_flattened())?)
    });
}

/// `int batchColumns(long batch)`: columns of the tree, children included.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_batchColumns<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    batch: jlong,
) -> jint {
    guard(env, |_| with_export(batch, |export| int("columns", export.addresses().len() / 4)))
}

/// `void batchExport(long batch, long[] addresses)`: valid until the handle is released.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_batchExport<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    batch: jlong,
    addresses: JLongArray<'a>,
) {
    guard(env, |env| with_export(batch, |export| Ok(addresses.set_region(env, 0, export.addresses())?)));
}

/// `ByteBuffer stageEncodeRows(long stage, long batch, int first, int rows, long[] offsets)`: the bytes of some rows, or null if rows of
/// this output have no such form here; fills in the address of their offsets. Both are valid until rows of this stage are encoded again, or
/// it is closed.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageEncodeRows<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    batch: jlong,
    first: jint,
    rows: jint,
    offsets: JLongArray<'a>,
) -> JByteBuffer<'a> {
    guard(env, |env| {
        let open = BATCHES.get(batch)?;
        let some = slice(&open.batch, first, rows)?;
        let found = with_stage(stage, |stage| {
            let rows = stage.encode_rows(&some)?;
            Ok(rows.map(|rows| (rows.bytes.as_ptr(), rows.bytes.len(), address(rows.offsets.as_ptr()))))
        })?;
        let Some((bytes, length, first_offset)) = found else { return Ok(JByteBuffer::default()) };
        offsets.set_region(env, 0, &[first_offset])?;
        // no buffer is longer; who reads longer rows goes by the address
        let length = length.min(i32::MAX as usize);
        // SAFETY: the pointer is that of a vector of at least `length` bytes, which the stage keeps as it is until it encodes rows again or is
        // closed. Java reads the buffer, and only before either: `BinaryExit` moves the rows that it still needs to the heap first.
        Ok(unsafe { env.new_direct_byte_buffer(bytes.cast_mut(), length) }?)
    })
}

/// Rows `first..first + rows`, without a copy.
fn slice(batch: &Batch, first: jint, rows: jint) -> Result<Batch, NativeError> {
    let outside = |name, value: jint| NativeError::Argument { name, value: value.into() };
    let start = usize::try_from(first).map_err(|_| outside("first", first))?;
    let length = usize::try_from(rows).map_err(|_| outside("rows", rows))?;
    batch.slice(start, length).map_err(|_| outside("rows", rows))
}

fn address<T>(first: *const T) -> jlong {
    first.expose_provenance() as jlong
}

fn with_export<T>(batch: i64, body: impl FnOnce(&Export) -> Result<T, NativeError>) -> Result<T, NativeError> {
    let open = BATCHES.get(batch)?;
    if open.export.get().is_none() {
        // Two threads may both get here; the first export stays, the other is dropped unused.
        let _ = open.export.set(Export::try_new(&open.batch)?);
    }
    match open.export.get() {
        Some(export) => body(export),
        None => Err(NativeError::Poisoned),
    }
}

fn int(name: &'static str, value: usize) -> Result<jint, NativeError> {
    jint::try_from(value).map_err(|_| NativeError::Argument { name, value: i64::MAX })
}
