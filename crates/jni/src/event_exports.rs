//! Native methods for what stands between batches: ends of bundles, watermarks, the clock.

use jni::EnvUnowned;
use jni::objects::JClass;
use jni::sys::{jboolean, jint, jlong};
use streamfusion_engine::FlushReason;

use crate::guard::{NativeError, guard};
use crate::objects::{with_open_stage, with_stage};

/// What `stageTimer` returns when there is no timer.
const NO_TIMER: jlong = jlong::MIN;

/// `void stageFlushBundles(long stage, int reason)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageFlushBundles<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    reason: jint,
) {
    guard(env, |_| {
        let reason = match reason {
            0 => FlushReason::Watermark,
            1 => FlushReason::Checkpoint,
            2 => FlushReason::EndOfInput,
            other => return Err(NativeError::Argument { name: "reason", value: i64::from(other) }),
        };
        with_stage(stage, |stage| Ok(stage.flush_bundles(reason)?))
    });
}

/// `void stageWatermark(long stage, long watermarkMs)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageWatermark<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    watermark_ms: jlong,
) {
    guard(env, |_| with_stage(stage, |stage| Ok(stage.watermark(watermark_ms)?)));
}

/// `long stagePulledWatermark(long stage)`: once, behind a `stagePull` that returned -1.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stagePulledWatermark<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> jlong {
    guard(env, |_| {
        with_open_stage(stage, |open| {
            let nothing = NativeError::Argument { name: "stage", value: stage };
            open.pulled_watermark.take().ok_or(nothing)
        })
    })
}

/// `boolean stageTime(long stage, long nowMs)`: whether there is something to pull.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageTime<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    now_ms: jlong,
) -> jboolean {
    guard(env, |_| with_stage(stage, |stage| Ok(jboolean::from(stage.processing_time(now_ms)?))))
}

/// `long stageTimer(long stage)`: when `stageTime` is to be called, or the least long.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageTimer<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> jlong {
    guard(env, |_| with_stage(stage, |stage| Ok(stage.timer().unwrap_or(NO_TIMER))))
}
