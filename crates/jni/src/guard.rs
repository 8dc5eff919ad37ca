//! The one wrapper around every export: what fails in Rust becomes a Java exception, what panics too.
//!
//! A failure that stock Flink shares keeps Flink's exception class; an exception that is already pending in the JVM passes
//! through untouched; everything else is a `NativeException`. Nothing unwinds across JNI.

use std::any::Any;

use jni::errors::{Error as JniError, ErrorPolicy};
use jni::objects::{JThrowable, JValue};
use jni::strings::{JNIStr, JNIString};
use jni::{Env, EnvUnowned, jni_sig, jni_str};
use streamfusion_engine::EngineError;
use streamfusion_expr::error::ExprError;
use streamfusion_row::entry::EntryError;
use streamfusion_row::export::ExportError;
use streamfusion_row::fragment::FragmentError;
use streamfusion_row::frame::FrameError;
use streamfusion_state::rocksdb::DatabaseError;

use crate::handles::HandleError;

const PARSE_EXCEPTION: &str = "java/time/format/DateTimeParseException";

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NativeError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Handle(#[from] HandleError),
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Fragment(#[from] FragmentError),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the JVM refused a call: {0}")]
    Jni(#[from] JniError),
    /// A panic outside a stage left the object in an unknown state.
    #[error("the object failed before and cannot be used any more")]
    Poisoned,
    #[error("argument {name} is out of range: {value}")]
    Argument {
        /// Name of the Java parameter.
        name: &'static str,
        /// What was passed.
        value: i64,
    },
}

const NATIVE_EXCEPTION: &JNIStr = jni_str!("org/apache/flink/streamfusion/runtime/NativeException");

/// Runs the body of an export.
pub(crate) fn guard<'local, T, F>(mut env: EnvUnowned<'local>, body: F) -> T
where
    T: Default + 'local,
    F: FnOnce(&mut Env<'local>) -> Result<T, NativeError>,
{
    env.with_env(body).resolve::<Throw>()
}

/// Throws and returns the default value, which Java never sees.
struct Throw;

impl<T: Default> ErrorPolicy<T, NativeError> for Throw {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _: &mut Self::Captures<'unowned_env_local, 'native_method>,
        error: NativeError,
    ) -> jni::errors::Result<T> {
        throw(env, &error);
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        _: &mut Self::Captures<'unowned_env_local, 'native_method>,
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let what = panic_text(payload.as_ref());
        throw_class(env, NATIVE_EXCEPTION, &format!("native code panicked: {what}"));
        Ok(T::default())
    }
}

/// The text of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

fn throw(env: &mut Env<'_>, error: &NativeError) {
    if env.exception_check() {
        return; // the JVM's own exception says more
    }
    if let NativeError::Engine(engine) = error
        && let Some(ExprError::Java { class, message }) = engine.expression_error()
    {
        throw_class(env, &JNIString::new(class.replace('.', "/")), message);
        return;
    }
    throw_class(env, NATIVE_EXCEPTION, &error.to_string());
}

/// Throws an exception of `class`; where that class cannot be found or built, a RuntimeException with both texts.
fn throw_class(env: &mut Env<'_>, class: &JNIStr, message: &str) {
    // After a successful throw the call itself reports the pending exception as an error.
    if class.to_str() == PARSE_EXCEPTION {
        let _ = throw_parse_exception(env, message);
    } else {
        let _ = env.throw_new(class, JNIString::new(message));
    }
    let thrown_otherwise = !env.exception_check() || is_linkage_error(env);
    if thrown_otherwise {
        env.exception_clear();
        let text = JNIString::new(format!("{class}: {message}"));
        let _ = env.throw_new(jni_str!("java/lang/RuntimeException"), &text);
    }
}

/// Throws what `java.time` throws on a text that it cannot parse. That class has no constructor for a message alone.
fn throw_parse_exception(env: &mut Env<'_>, message: &str) -> Result<(), JniError> {
    let message = env.new_string(message)?;
    let parsed = env.new_string("")?;
    let thrown = env.new_object(
        jni_str!("java/time/format/DateTimeParseException"),
        jni_sig!("(Ljava/lang/String;Ljava/lang/CharSequence;I)V"),
        &[JValue::Object(&message), JValue::Object(&parsed), JValue::Int(0)],
    )?;
    let thrown = env.cast_local::<JThrowable>(thrown)?;
    env.throw(thrown)
}

/// Whether the pending exception is the one of a failed class or constructor lookup.
fn is_linkage_error(env: &mut Env<'_>) -> bool {
    let Some(pending) = env.exception_occurred() else { return false };
    env.exception_clear();
    let linkage = env.is_instance_of(&pending, jni_str!("java/lang/LinkageError")).unwrap_or(false);
    let _ = env.throw(&pending);
    linkage
}
