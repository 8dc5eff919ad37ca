//! Calls from a stage back into the JVM: one per batch and expression, on the thread that called the stage.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use jni::objects::{JLongArray, JObject, JValue};
use jni::refs::Global;
use jni::{Env, JavaVM, jni_sig, jni_str};
use streamfusion_expr::error::ExprError;
use streamfusion_expr::host::{Found, HostFunction};
use streamfusion_row::Batch;

use crate::objects::{BATCHES, OpenBatch};

/// The `HostCalls` object of one stage.
pub(crate) type HostCalls = Arc<Global<JObject<'static>>>;

/// Local references that a call may make.
const LOCAL_REFERENCES: usize = 8;

/// One JVM expression, or one lookup, of a stage.
pub(crate) struct JvmFunction {
    /// Its number in the stage.
    pub number: i32,
    /// Columns of the node's input that it reads.
    pub inputs: Vec<usize>,
    /// The object to call.
    pub calls: HostCalls,
    /// What [`HostFunction::changes_ascii_case_plainly`] says.
    pub plain_case: bool,
}

impl fmt::Debug for JvmFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JvmFunction({})", self.number)
    }
}

impl JvmFunction {
    /// Lends the columns that it reads to `call`, for that call alone.
    fn lend<T>(
        &self,
        input: &RecordBatch,
        call: impl FnOnce(&mut Env<'_>, i64) -> Result<T, jni::errors::Error>,
    ) -> Result<T, ExprError> {
        let input = input.project(&self.inputs)?;
        let batch = Batch::try_new(input.columns().to_vec(), input.num_rows(), None);
        let handle = OpenBatch::open(batch.map_err(|e| self.internal(e.to_string()))?);
        // The thread is attached: the JVM called the stage on it. Attaching would catch what the function throws.
        let result = JavaVM::singleton().and_then(|vm| vm.with_local_frame(LOCAL_REFERENCES, |env| call(env, handle)));
        // The input was lent for the call; whatever happened, it ends here.
        let released = BATCHES.close(handle);
        let result = result.map_err(|error| match error {
            jni::errors::Error::JavaException => ExprError::JavaPending,
            other => self.internal(other.to_string()),
        })?;
        released.map_err(|e| self.internal(e.to_string()))?;
        Ok(result)
    }

    fn take(&self, handle: i64) -> Result<Batch, ExprError> {
        Ok(BATCHES.close(handle).map_err(|e| self.internal(e.to_string()))?.batch.clone())
    }

    fn internal(&self, message: String) -> ExprError {
        ExprError::Internal { expression: format!("{self:?}"), message }
    }

    /// What `HostCalls.lookup` returns: the number of batches, their handles, and the matches of each row.
    fn found(&self, answer: &[i64]) -> Result<Found, ExprError> {
        let garbled = || self.internal("a lookup returned no list of batches".into());
        let (batches, rest) = answer.split_first().ok_or_else(garbled)?;
        let batches = usize::try_from(*batches).map_err(|_| garbled())?;
        let (handles, matches) = rest.split_at_checked(batches).ok_or_else(garbled)?;
        // all are taken over before one of them can fail
        let batches: Vec<_> = handles.iter().map(|handle| self.take(*handle)).collect();
        let rows = batches.into_iter().map(|batch| record_batch(&batch?)).collect::<Result<_, _>>()?;
        let matches = matches.iter().map(|matches| usize::try_from(*matches).map_err(|_| garbled()));
        Ok(Found { matches: matches.collect::<Result<_, _>>()?, rows })
    }
}

/// The columns that were found, which stand behind those of the input: of these there is nothing in the batch.
fn record_batch(batch: &Batch) -> Result<RecordBatch, ExprError> {
    let found = batch.columns().iter().filter(|column| *column.data_type() != DataType::Null);
    let columns: Vec<ArrayRef> = found.cloned().collect();
    let fields: Vec<Field> = columns.iter().map(|column| Field::new("", column.data_type().clone(), true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

impl HostFunction for JvmFunction {
    fn call(&self, input: &RecordBatch) -> Result<ArrayRef, ExprError> {
        let result = self.lend(input, |env, batch| {
            let arguments = [JValue::Int(self.number), JValue::Long(batch)];
            env.call_method(self.calls.as_ref(), jni_str!("call"), jni_sig!("(IJ)J"), &arguments)?.j()
        })?;
        let output = self.take(result)?;
        match output.columns() {
            [column] if column.len() == input.num_rows() => Ok(Arc::clone(column)),
            columns => Err(self.internal(format!(
                "the JVM returned {} columns of {} rows for {} rows",
                columns.len(),
                output.num_rows(),
                input.num_rows()
            ))),
        }
    }

    fn changes_ascii_case_plainly(&self) -> bool {
        self.plain_case
    }

    fn lookup(&self, input: &RecordBatch, from: usize) -> Result<Found, ExprError> {
        let from = i32::try_from(from).map_err(|_| self.internal(format!("row {from} of a batch")))?;
        let answer = self.lend(input, |env, batch| {
            let arguments = [JValue::Int(self.number), JValue::Long(batch), JValue::Int(from)];
            let answer =
                env.call_method(self.calls.as_ref(), jni_str!("lookup"), jni_sig!("(IJI)[J"), &arguments)?.l()?;
            let answer = env.cast_local::<JLongArray<'_>>(answer)?;
            let mut values = vec![0; answer.len(env)?];
            answer.get_region(env, 0, &mut values)?;
            Ok(values)
        })?;
        self.found(&answer)
    }
}
