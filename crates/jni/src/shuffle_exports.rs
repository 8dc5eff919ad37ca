//! Native methods on what lies in front of a stage: rows that wait for more, fragments that miss siblings.

use jni::EnvUnowned;
use jni::objects::{JByteArray, JClass, JIntArray, JString};
use jni::sys::{jboolean, jint, jlong};
use streamfusion_engine::ShuffleParameters;

use crate::guard::guard;
use crate::objects::{input, with_stage};
use crate::state_exports::key_group;

/// `void stageShuffle(long stage, String parameters)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageShuffle<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    parameters: JString<'a>,
) {
    guard(env, |env| {
        let parameters = ShuffleParameters::read(&parameters.try_to_string(env)?)?;
        with_stage(stage, |stage| Ok(stage.shuffle(&parameters)?))
    });
}

/// `void stageFlush(long stage)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageFlush<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) {
    guard(env, |_| with_stage(stage, |stage| Ok(stage.flush()?)));
}

/// `int stageWaitingRows(long stage)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageWaitingRows<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> jint {
    guard(env, |_| with_stage(stage, |stage| Ok(jint::try_from(stage.waiting_rows()).unwrap_or(jint::MAX))))
}

/// `boolean stageIsPending(long stage, int input)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageIsPending<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    number: jint,
) -> jboolean {
    guard(env, |_| {
        let number = input(number)?;
        with_stage(stage, |stage| Ok(jboolean::from(stage.is_pending(number))))
    })
}

/// `int[] stagePendingKeyGroups(long stage, int input)`: ascending.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stagePendingKeyGroups<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    number: jint,
) -> JIntArray<'a> {
    guard(env, |env| {
        let number = input(number)?;
        let groups = with_stage(stage, |stage| Ok(stage.pending_key_groups(number)))?;
        let groups: Vec<jint> = groups.into_iter().map(|group| jint::from(group.0)).collect();
        let array = env.new_int_array(groups.len())?;
        array.set_region(env, 0, &groups)?;
        Ok(array)
    })
}

/// `byte[] stageSnapshotPending(long stage, int input, int group)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageSnapshotPending<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    number: jint,
    group: jint,
) -> JByteArray<'a> {
    guard(env, |env| {
        let (number, group) = (input(number)?, key_group(group)?);
        let bytes = with_stage(stage, |stage| Ok(stage.snapshot_pending(number, group)?))?;
        Ok(env.byte_array_from_slice(&bytes)?)
    })
}

/// `void stageRestorePending(long stage, int input, int group, byte[] bytes)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageRestorePending<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    number: jint,
    group: jint,
    bytes: JByteArray<'a>,
) {
    guard(env, |env| {
        let bytes = env.convert_byte_array(&bytes)?;
        let (number, group) = (input(number)?, key_group(group)?);
        with_stage(stage, |stage| Ok(stage.restore_pending(number, group, &bytes)?))
    });
}
