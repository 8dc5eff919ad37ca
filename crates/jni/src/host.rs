//! Calls from a stage back into the JVM: one per batch and expression, on the thread that called the stage.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use jni::objects::{JObject, JValue};
use jni::refs::Global;
use jni::{JavaVM, jni_sig, jni_str};
use streamfusion_expr::error::ExprError;
use streamfusion_expr::host::HostFunction;
use streamfusion_row::Batch;

use crate::objects::{BATCHES, OpenBatch};

/// The `HostCalls` object of one stage.
pub(crate) type HostCalls = Arc<Global<JObject<'static>>>;

/// Local references that a call may make.
const LOCAL_REFERENCES: usize = 8;

/// One JVM expression of a stage.
pub(crate) struct JvmFunction {
    /// Its number in the stage.
    pub number: i32,
    /// Columns of the node's input that it reads.
    pub inputs: Vec<usize>,
    /// The object to call.
    pub calls: HostCalls,
}

impl fmt::Debug for JvmFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JvmFunction({})", self.number)
    }
}

impl HostFunction for JvmFunction {
    fn call(&self, input: &RecordBatch) -> Result<ArrayRef, ExprError> {
        let internal = |message: String| ExprError::Internal { expression: format!("{self:?}"), message };
        let input = input.project(&self.inputs)?;
        let batch =
            Batch::try_new(input.columns().to_vec(), input.num_rows(), None).map_err(|e| internal(e.to_string()))?;
        let handle = OpenBatch::open(batch);
        let result = JavaVM::singleton().and_then(|vm| {
            // The thread is attached: the JVM called the stage on it. Attaching would catch what the function throws.
            vm.with_local_frame(LOCAL_REFERENCES, |env| {
                env.call_method(
                    self.calls.as_ref(),
                    jni_str!("call"),
                    jni_sig!("(IJ)J"),
                    &[JValue::Int(self.number), JValue::Long(handle)],
                )?
                .j()
            })
        });
        // The input was lent for the call; whatever happened, it ends here.
        let released = BATCHES.close(handle);
        let result = result.map_err(|error| match error {
            jni::errors::Error::JavaException => ExprError::JavaPending,
            other => internal(other.to_string()),
        })?;
        released.map_err(|e| internal(e.to_string()))?;
        let output = BATCHES.close(result).map_err(|e| internal(e.to_string()))?;
        match output.batch.columns() {
            [column] if column.len() == input.num_rows() => Ok(Arc::clone(column)),
            columns => Err(internal(format!(
                "the JVM returned {} columns of {} rows for {} rows",
                columns.len(),
                output.batch.num_rows(),
                input.num_rows()
            ))),
        }
    }
}
