//! Native methods on stages.

use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use jni::objects::{JByteArray, JClass, JObject, JString};
use jni::sys::{jbyte, jint, jlong};
use jni::{Env, EnvUnowned, jni_sig, jni_str};
use streamfusion_engine::{Edge, Output, Stage, StateParameters, WatermarkStatus};
use streamfusion_expr::host::HostFunction;

use crate::guard::{NativeError, guard};
use crate::host::JvmFunction;
use crate::objects::{BATCHES, OpenBatch, OpenStage, STAGES, input, with_open_stage, with_stage};

/// What is copied at once out of an array.
const COPIED_BYTES: usize = 16 << 10;

/// `long stageOpen(String spec, HostCalls hosts, int channels, int maxParallelism, String state)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageOpen<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    spec: JString<'a>,
    hosts: JObject<'a>,
    channels: jint,
    max_parallelism: jint,
    state: JString<'a>,
) -> jlong {
    guard(env, |env| {
        let spec = spec.try_to_string(env)?;
        let plain_case = !hosts.is_null()
            && env.call_method(&hosts, jni_str!("changesAsciiCasePlainly"), jni_sig!("()Z"), &[])?.z()?;
        let calls = Arc::new(env.new_global_ref(&hosts)?);
        let edge = Edge {
            channels: positive("channels", channels)?,
            max_parallelism: positive("maxParallelism", max_parallelism)?,
        };
        let state = match state.is_null() {
            true => None,
            false => Some(StateParameters::read(&state.try_to_string(env)?)?),
        };
        let stage = Stage::open(&spec, edge, state.as_ref(), &|number, inputs| {
            Arc::new(JvmFunction {
                number: i32::try_from(number).unwrap_or(i32::MAX),
                inputs: inputs.to_vec(),
                calls: Arc::clone(&calls),
                plain_case,
            }) as Arc<dyn HostFunction>
        })?;
        Ok(OpenStage::open(stage))
    })
}

/// What `stagePull` returns in the place of a batch when a watermark comes next. No handle is negative.
const WATERMARK: jlong = -1;

/// What it returns when watermarks become idle there.
const IDLE: jlong = -2;

/// What it returns when watermarks become active there.
const ACTIVE: jlong = -3;

/// `void stagePush(long stage, int input, long batch)`: the batch is moved, also when the call fails.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stagePush<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    number: jint,
    batch: jlong,
) {
    guard(env, |_| {
        let batch = BATCHES.close(batch)?;
        let number = input(number)?;
        with_stage(stage, |stage| Ok(stage.push(number, batch.batch.clone())?))
    });
}

/// `void stagePushEncoded(long stage, int input, byte[] bytes, int offset, int length)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stagePushEncoded<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    number: jint,
    bytes: JByteArray<'a>,
    offset: jint,
    length: jint,
) {
    guard(env, |env| {
        let number = input(number)?;
        let received = received(env, &bytes, offset, length)?;
        with_stage(stage, |stage| Ok(stage.push_encoded(number, &received)?))
    });
}

/// A part of an array, aligned so that columns can share it.
fn received(env: &Env<'_>, bytes: &JByteArray<'_>, offset: jint, length: jint) -> Result<Buffer, NativeError> {
    let length = usize::try_from(length).map_err(|_| out_of_range("length", length))?;
    let mut received = MutableBuffer::with_capacity(length);
    // by way of the processor's cache, which takes less than to zero all memory before it is written
    let mut copied: [jbyte; COPIED_BYTES] = [0; COPIED_BYTES];
    let mut next = offset;
    while received.len() < length {
        let part = &mut copied[..COPIED_BYTES.min(length - received.len())];
        bytes.get_region(env, next, part)?;
        received.extend_from_slice(part);
        next = next.saturating_add(COPIED_BYTES as jint);
    }
    Ok(received.into())
}

/// `long stagePull(long stage)`: a batch that the caller owns, -1 for a watermark, -2 or -3 for their status, or 0.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stagePull<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> jlong {
    guard(env, |_| {
        with_open_stage(stage, |open| {
            Ok(match open.stage.pull()? {
                None => 0,
                Some(Output::Batch(batch)) => OpenBatch::open(batch),
                Some(Output::Watermark(watermark_ms)) => {
                    open.pulled_watermark = Some(watermark_ms);
                    WATERMARK
                }
                Some(Output::Status(WatermarkStatus::Idle)) => IDLE,
                Some(Output::Status(WatermarkStatus::Active)) => ACTIVE,
            })
        })
    })
}

/// `String stageMetrics(long stage)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageMetrics<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> JString<'a> {
    guard(env, |env| {
        let metrics = with_stage(stage, |stage| Ok(stage.metrics()))?;
        Ok(env.new_string(metrics)?)
    })
}

/// `void stageClose(long stage)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageClose<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) {
    guard(env, |_| {
        STAGES.close(stage)?;
        Ok(())
    });
}

/// `void testPanic(long stage)`: makes the stage's first operator panic at its next batch, so that tests see what becomes
/// of it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_testPanic<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) {
    guard(env, |_| {
        with_stage(stage, |stage| {
            stage.panic_on_purpose();
            Ok(())
        })
    });
}

fn positive(name: &'static str, value: jint) -> Result<u32, NativeError> {
    u32::try_from(value).ok().filter(|v| *v > 0).ok_or_else(|| out_of_range(name, value))
}

fn out_of_range(name: &'static str, value: jint) -> NativeError {
    NativeError::Argument { name, value: i64::from(value) }
}
