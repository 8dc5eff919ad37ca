//! Timestamps of more than 3 digits: nanoseconds since the epoch in an i128, Flink's parts outside.
//!
//! Flink splits such a timestamp into the milliseconds since the epoch (rounded down) and the nanoseconds of that
//! millisecond, 0 to 999,999.

const NANOS_PER_MILLI: i64 = 1_000_000;

/// The milliseconds since the epoch, rounded down, and the nanoseconds of that millisecond. Exact for every timestamp of
/// Flink; what lies beyond an i64 of milliseconds wraps.
#[inline]
pub fn split_nanos(nanos: i128) -> (i64, u32) {
    // dividing 64 bits is many times faster, and enough for the years 1678 to 2261
    match i64::try_from(nanos) {
        Ok(nanos) => (nanos.div_euclid(NANOS_PER_MILLI), nanos.rem_euclid(NANOS_PER_MILLI) as u32),
        Err(_) => {
            let per_milli = i128::from(NANOS_PER_MILLI);
            (nanos.div_euclid(per_milli) as i64, nanos.rem_euclid(per_milli) as u32)
        }
    }
}

/// The nanoseconds since the epoch of `millis` and the nanoseconds of that millisecond. Lossless.
#[inline]
pub fn join_nanos(millis: i64, nanos_of_milli: i64) -> i128 {
    i128::from(millis) * i128::from(NANOS_PER_MILLI) + i128::from(nanos_of_milli)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn before_the_epoch_the_milliseconds_are_rounded_down() {
        assert_eq!(split_nanos(-1), (-1, 999_999));
        assert_eq!(split_nanos(-1_000_000), (-1, 0));
        assert_eq!(split_nanos(1), (0, 1));
    }

    proptest! {
        #[test]
        fn parts_are_lossless(millis: i64, nanos in 0u32..1_000_000) {
            prop_assert_eq!(split_nanos(join_nanos(millis, nanos.into())), (millis, nanos));
        }
    }
}
