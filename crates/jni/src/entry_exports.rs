//! Native methods on entries: the buffers into which Java writes rows.

use std::sync::Mutex;

use jni::EnvUnowned;
use jni::objects::{JClass, JLongArray, JString};
use jni::sys::{jboolean, jint, jlong};
use streamfusion_row::entry::RowKinds;

use crate::guard::{NativeError, guard};
use crate::objects::{ENTRIES, OpenBatch, input, with_entry};

/// `long entryOpen(String spec, int input, int capacityRows)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_entryOpen<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    spec: JString<'a>,
    number: jint,
    capacity_rows: jint,
) -> jlong {
    guard(env, |env| {
        let spec = spec.try_to_string(env)?;
        let entry =
            streamfusion_engine::open_entry(&spec, input(number)?, size("capacityRows", i64::from(capacity_rows))?)?;
        Ok(ENTRIES.open(Mutex::new(entry)))
    })
}

/// `int entryColumns(long entry)`: columns of the tree.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_entryColumns<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    entry: jlong,
) -> jint {
    guard(env, |_| with_entry(entry, |entry| Ok(jint::try_from(entry.num_columns()).unwrap_or(jint::MAX))))
}

/// `void entryAddresses(long entry, long[] addresses)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_entryAddresses<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    entry: jlong,
    addresses: JLongArray<'a>,
) {
    guard(env, |env| with_entry(entry, |entry| Ok(addresses.set_region(env, 0, &entry.addresses())?)));
}

/// `long entryReserve(long entry, int column, long bytes)`: the new address of the column's data.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_entryReserve<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    entry: jlong,
    column: jint,
    bytes: jlong,
) -> jlong {
    guard(env, |_| {
        let column = size("column", i64::from(column))?;
        let bytes = size("bytes", bytes)?;
        with_entry(entry, |entry| Ok(entry.reserve(column, bytes)?))
    })
}

/// `long entryFinish(long entry, int rows, boolean hasKinds, long[] addresses)`: the rows as a batch; the addresses are
/// those of the next batch.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_entryFinish<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    entry: jlong,
    rows: jint,
    has_kinds: jboolean,
    addresses: JLongArray<'a>,
) -> jlong {
    guard(env, |env| {
        let rows = size("rows", i64::from(rows))?;
        let (batch, next) = with_entry(entry, |entry| {
            let kinds = if has_kinds { RowKinds::Written } else { RowKinds::AllInsert };
            let batch = entry.finish(rows, kinds)?;
            Ok((batch, entry.addresses()))
        })?;
        addresses.set_region(env, 0, &next)?;
        Ok(OpenBatch::open(batch))
    })
}

/// `long entryReserveBinaryRows(long entry, long bytes)`: the new address of the buffer of binary rows.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_entryReserveBinaryRows<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    entry: jlong,
    bytes: jlong,
) -> jlong {
    guard(env, |_| {
        let bytes = size("bytes", bytes)?;
        with_entry(entry, |entry| Ok(entry.reserve_binary_rows(bytes)?))
    })
}

/// `long entryFinishBinaryRows(long entry, int rows)`: the binary rows as a batch.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_entryFinishBinaryRows<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    entry: jlong,
    rows: jint,
) -> jlong {
    guard(env, |_| {
        let rows = size("rows", i64::from(rows))?;
        Ok(OpenBatch::open(with_entry(entry, |entry| Ok(entry.finish_binary_rows(rows)?))?))
    })
}

/// `void entryClose(long entry)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_entryClose<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    entry: jlong,
) {
    guard(env, |_| {
        ENTRIES.close(entry)?;
        Ok(())
    });
}

fn size(name: &'static str, value: i64) -> Result<usize, NativeError> {
    usize::try_from(value).map_err(|_| NativeError::Argument { name, value })
}
