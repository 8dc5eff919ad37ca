//! The shared library that the JVM loads: the native methods of `org.apache.flink.streamfusion.runtime.Native`.
//!
//! Each export is one call of [`guard::guard`]. Structured arguments are text; objects are handles (see [`handles`]). Who owns
//! what is written down in `docs/design/boundary.md`.

mod batch_exports;
mod database_exports;
mod entry_exports;
mod event_exports;
mod guard;
mod handles;
mod host;
mod objects;
mod shuffle_exports;
mod stage_exports;
mod state_exports;

use jni::EnvUnowned;
use jni::objects::{JClass, JString};
use jni::sys::jlong;

use guard::guard;

// A panic must be caught at the boundary, which an aborting build cannot do.
#[cfg(panic = "abort")]
compile_error!("the library must be built with panic = \"unwind\"");

/// `String version()`: version of this library; Java compares it with its own.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_version<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
) -> JString<'a> {
    guard(env, |env| Ok(env.new_string(env!("CARGO_PKG_VERSION"))?))
}

/// `String plan(String request)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_plan<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    request: JString<'a>,
) -> JString<'a> {
    guard(env, |env| {
        let request = request.try_to_string(env)?;
        let response = streamfusion_engine::plan(&request)?;
        Ok(env.new_string(response)?)
    })
}

/// `long liveHandles()`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_liveHandles<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
) -> jlong {
    guard(env, |_| Ok(objects::live() + streamfusion_state::rocksdb::live_objects()))
}
