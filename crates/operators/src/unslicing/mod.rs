//! Aggregates over windows that each key has of its own.

mod clock;
mod open;
mod sessions;
#[cfg(test)]
mod tests;
mod timers;
