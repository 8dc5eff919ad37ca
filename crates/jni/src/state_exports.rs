//! Native methods on the state of stages and on snapshots of it.
//!
//! A snapshot is taken on the thread of its stage and encoded on any other one, also after the stage was closed.

use jni::objects::{JByteArray, JClass, JIntArray, JLongArray, JObjectArray, JString};
use jni::sys::{jint, jlong};
use jni::{Env, EnvUnowned};
use streamfusion_row::KeyGroup;
use streamfusion_state::canonical::{HEADER_STATE, chunk_state};

use crate::guard::{NativeError, guard};
use crate::objects::{OpenSnapshot, SNAPSHOTS, with_stage};

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
    guard(env, |_| with_stage(stage, |stage| Ok(stage.snapshot()?.map_or(0, OpenSnapshot::open))))
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
            SNAPSHOTS.get(snapshot)?.snapshot.key_groups()?.into_iter().map(|group| jint::from(group.0)).collect();
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
        let bound = SNAPSHOTS.get(snapshot)?.snapshot.chunk_bound()?;
        jint::try_from(bound).map_err(|_| NativeError::Argument { name: "chunks", value: i64::MAX })
    })
}

/// `int snapshotEncode(long snapshot, int group)`: encodes a key group, which is kept for `snapshotPart` in the place of the one
/// before, and returns the number of its chunks.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_snapshotEncode<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    snapshot: jlong,
    group: jint,
) -> jint {
    guard(env, |_| {
        let chunks = SNAPSHOTS.get(snapshot)?.encode(key_group(group)?)?;
        jint::try_from(chunks).map_err(|_| NativeError::Argument { name: "chunks", value: i64::MAX })
    })
}

/// `byte[] snapshotPart(long snapshot, int group, int state)`: of the key group that was encoded last, what belongs into a keyed
/// state: the header (0) or chunk n (n + 1).
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_snapshotPart<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    snapshot: jlong,
    group: jint,
    state: jint,
) -> JByteArray<'a> {
    guard(env, |env| {
        let encoded = SNAPSHOTS.get(snapshot)?.encoded(key_group(group)?)?;
        let refused = || NativeError::Argument { name: "state", value: i64::from(state) };
        let number = usize::try_from(state).map_err(|_| refused())?;
        let part = match number.checked_sub(1) {
            None => Some(encoded.1.header.as_slice()),
            Some(chunk) => encoded.1.chunks().nth(chunk),
        };
        Ok(env.byte_array_from_slice(part.ok_or_else(refused)?)?)
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
