//! Native methods on stages whose state is kept in the RocksDB that Flink has opened.

use jni::EnvUnowned;
use jni::objects::{JClass, JString};
use jni::sys::{jboolean, jlong};
use streamfusion_state::rocksdb::{Database, JavaHandles, Library};

use crate::guard::guard;
use crate::objects::with_stage;

fn handle(handle: jlong) -> usize {
    // an address, whatever its sign
    usize::try_from(handle.cast_unsigned()).unwrap_or_default()
}

/// `String databaseProblem(long database)`: why native state cannot be kept in this instance of RocksDB, or null.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_databaseProblem<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    database: jlong,
) -> JString<'a> {
    guard(env, |env| {
        let database = std::ptr::with_exposed_provenance(handle(database));
        // SAFETY: Java passes the native handle of an open RocksDB: the address of a `rocksdb::DB`, which has virtual functions.
        match unsafe { Library::of_object(database) } {
            Ok(_) => Ok(JString::null()),
            Err(error) => Ok(env.new_string(error.to_string())?),
        }
    })
}

/// `boolean stageCanAttach(long stage)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageCanAttach<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) -> jboolean {
    guard(env, |_| with_stage(stage, |stage| Ok(stage.can_attach())))
}

/// `boolean stageAttach(long stage, long database, long columnFamily, long writeOptions, long readOptions)`: keeps the state of a stage
/// there, if it keeps some that may be; false if not.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageAttach<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
    database: jlong,
    column_family: jlong,
    write_options: jlong,
    read_options: jlong,
) -> jboolean {
    guard(env, |_| {
        let handles = JavaHandles {
            database: handle(database),
            column_family: handle(column_family),
            write_options: handle(write_options),
            read_options: handle(read_options),
        };
        // SAFETY: Java passes the native handles of open objects of one backend. It holds a lease of the backend's resource guard, which it gives
        // back after the stage was closed, and after the snapshots of the stage were released: until then the backend closes none of them.
        let database = unsafe { Database::borrow(handles) }?;
        with_stage(stage, |stage| Ok(stage.attach(database)?))
    })
}

/// `void stageWriteBack(long stage)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageWriteBack<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) {
    guard(env, |_| with_stage(stage, |stage| Ok(stage.write_back()?)));
}

/// `void stageEvict(long stage)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_apache_flink_streamfusion_runtime_Native_stageEvict<'a>(
    env: EnvUnowned<'a>,
    _: JClass<'a>,
    stage: jlong,
) {
    guard(env, |_| with_stage(stage, |stage| Ok(stage.evict()?)));
}
