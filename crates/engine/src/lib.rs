//! A stage: a chain of native operators behind one call per batch.
