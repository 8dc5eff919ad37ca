//! Native methods for what stands between batches: ends of bundles, watermarks, the clock, how far event time has come.

use jni::EnvUnowned;
use jni::objects::{JClass, JLongArray};
use jni::sys::{jboolean, jint, jlong};
use streamfusion_engine::{FlushReason, WatermarkStatus};

use crate::guard::{NativeError, guard};
use crate::objects::{with_open_stage, with_stage};

/// What `stageTimer` returns when there is no timer.
const NO_TIMER: jlong = jlong::MIN;

/// What `stageProgress` returns when no operator remembers any.
const NO_PROGRESS: jlong = jlong::MAX;

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

/// `void stageStatus(long stage, boolean idle)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageStatus<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    idle: jboolean,
) {
    let status = if idle { WatermarkStatus::Idle } else { WatermarkStatus::Active };
    guard(env, |_| with_stage(stage, |stage| Ok(stage.status(status)?)));
}

/// `void stageAutoWatermarkInterval(long stage, long intervalMs)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageAutoWatermarkInterval<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    interval_ms: jlong,
) {
    guard(env, |_| {
        with_stage(stage, |stage| {
            stage.auto_watermark_interval(interval_ms);
            Ok(())
        })
    });
}

/// `long stageProgress(long stage)`: how far event time has come, or the largest long where no operator remembers that.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageProgress<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> jlong {
    guard(env, |_| with_stage(stage, |stage| Ok(stage.progress().unwrap_or(NO_PROGRESS))))
}

/// `void stageRestoreProgress(long stage, long watermarkMs)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageRestoreProgress<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    watermark_ms: jlong,
) {
    guard(env, |_| with_stage(stage, |stage| Ok(stage.restore_progress(watermark_ms)?)));
}

/// `long[] stageDroppedRows(long stage)`: per reason, in the order of `DroppedRows`; -1 where none are dropped for that reason.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageDroppedRows<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> JLongArray<'a> {
    guard(env, |env| {
        let dropped = with_stage(stage, |stage| Ok(stage.dropped_rows()))?;
        let counts = dropped.counts().map(|count| count.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)));
        let array = env.new_long_array(counts.len())?;
        array.set_region(env, 0, &counts)?;
        Ok(array)
    })
}

/// `boolean stageTime(long stage, long nowMs, long activityMs)`: whether there may be something to pull.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageTime<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    now_ms: jlong,
    activity_ms: jlong,
) -> jboolean {
    guard(env, |_| {
        with_stage(stage, |stage| {
            stage.input_activity_time(activity_ms);
            Ok(jboolean::from(stage.processing_time(now_ms)?))
        })
    })
}

/// `boolean stageIgnoresSecondWatermarks(long stage)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageIgnoresSecondWatermarks<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> jboolean {
    guard(env, |_| with_stage(stage, |stage| Ok(jboolean::from(stage.ignores_second_watermarks()))))
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
