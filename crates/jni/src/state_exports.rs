//! Native methods on the state of stages and on snapshots of it.
//!
//! A snapshot is taken on the thread of its stage and encoded on any other one, also after the stage was closed.

use jni::objects::{JByteArray, JClass, JIntArray, JLongArray, JObjectArray, JString};
use jni::sys::{jint, jlong};
use jni::{Env, EnvUnowned};
use streamfusion_row::KeyGroup;
use streamfusion_state::canonical::{HEADER_STATE, chunk_state};

use crate::guard::{NativeError, guard};
use crate::objects::{SNAPSHOTS, with_stage};

/// `String stateName(int state)`: the keyed state that holds headers (0) or chunk n (n + 1).
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stateName<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    state: jint,
) -> JString<'a> {
    guard(env, |env| {
        let number =
            u32::try_from(state).map_err(|_| NativeError::Argument { name: "state", value: i64::from(state) })?;
        let name = number.checked_sub(1).map_or_else(|| HEADER_STATE.to_owned(), chunk_state);
        Ok(env.new_string(name)?)
    })
}

/// `long stageSnapshot(long stage)`: a snapshot that the caller owns, or 0 if the stage keeps no state.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageSnapshot<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> jlong {
    guard(env, |_| with_stage(stage, |stage| Ok(stage.snapshot()?.map_or(0, |snapshot| SNAPSHOTS.open(snapshot)))))
}

/// `int[] snapshotKeyGroups(long snapshot)`: the key groups that have state, ascending.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_snapshotKeyGroups<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    snapshot: jlong,
) -> JIntArray<'a> {
    guard(env, |env| {
        let groups: Vec<jint> =
            SNAPSHOTS.get(snapshot)?.key_groups()?.into_iter().map(|group| jint::from(group.0)).collect();
        let array = env.new_int_array(groups.len())?;
        array.set_region(env, 0, &groups)?;
        Ok(array)
    })
}

/// `int snapshotChunks(long snapshot)`: no key group has more chunks.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_snapshotChunks<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    snapshot: jlong,
) -> jint {
    guard(env, |_| {
        let bound = SNAPSHOTS.get(snapshot)?.chunk_bound()?;
        jint::try_from(bound).map_err(|_| NativeError::Argument { name: "chunks", value: i64::MAX })
    })
}

/// `byte[][] snapshotEncode(long snapshot, int group)`: the header and the chunks of a key group.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_snapshotEncode<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    snapshot: jlong,
    group: jint,
) -> JObjectArray<'a, JByteArray<'a>> {
    guard(env, |env| {
        let encoded = SNAPSHOTS.get(snapshot)?.encode(key_group(group)?)?;
        let chunks = encoded.chunks();
        let array = JObjectArray::<JByteArray>::new(env, 1 + chunks.len(), JByteArray::null())?;
        for (index, part) in std::iter::once(encoded.header.as_slice()).chain(chunks).enumerate() {
            // one part at a time: the JVM makes room for a few local references only
            env.with_local_frame(2, |env| -> Result<(), NativeError> {
                let bytes = env.byte_array_from_slice(part)?;
                Ok(array.set_element(env, index, &bytes)?)
            })?;
        }
        Ok(array)
    })
}

/// `void snapshotRelease(long snapshot)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_snapshotRelease<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    snapshot: jlong,
) {
    guard(env, |_| {
        SNAPSHOTS.close(snapshot)?;
        Ok(())
    });
}

/// `void stageRestore(long stage, int group, byte[] header, byte[][] chunks)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageRestore<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    group: jint,
    header: JByteArray<'a>,
    chunks: JObjectArray<'a, JByteArray<'a>>,
) {
    guard(env, |env| {
        let header = env.convert_byte_array(&header)?;
        let chunks = (0..chunks.len(env)?).map(|index| chunk(env, &chunks, index)).collect::<Result<Vec<_>, _>>()?;
        with_stage(stage, |stage| Ok(stage.restore(key_group(group)?, &header, &chunks)?))
    });
}

fn chunk(env: &mut Env<'_>, chunks: &JObjectArray<'_, JByteArray<'_>>, index: usize) -> Result<Vec<u8>, NativeError> {
    env.with_local_frame(2, |env| {
        let bytes = chunks.get_element(env, index)?;
        Ok(env.convert_byte_array(&bytes)?)
    })
}

/// `long[] stageMemory(long stage)`: bytes that its state takes, and the most it took when it was asked for.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageMemory<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> JLongArray<'a> {
    guard(env, |env| {
        let memory = with_stage(stage, |stage| Ok(stage.memory()?))?;
        let bytes = [memory.used_bytes, memory.peak_bytes].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let array = env.new_long_array(bytes.len())?;
        array.set_region(env, 0, &bytes)?;
        Ok(array)
    })
}

pub(crate) fn key_group(group: jint) -> Result<KeyGroup, NativeError> {
    let number = u16::try_from(group).map_err(|_| NativeError::Argument { name: "group", value: i64::from(group) })?;
    Ok(KeyGroup(number))
}
