//! The 7-column bid row that the benches measure, shaped like Nexmark's.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::Batch;

/// Rows of a batch.
pub const ROWS: usize = 8_192;

pub fn ty(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn string() -> LogicalType {
    ty(TypeKind::VarChar(i32::MAX.unsigned_abs()))
}

/// auction, bidder, price BIGINT; channel, url VARCHAR; ts TIMESTAMP(3); extra VARCHAR.
#[allow(dead_code, reason = "not every bench needs it")]
pub fn row_type() -> LogicalType {
    let bigint = || ty(TypeKind::BigInt);
    let ts = ty(TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime });
    let fields = [
        ("auction", bigint()),
        ("bidder", bigint()),
        ("price", bigint()),
        ("channel", string()),
        ("url", string()),
        ("ts", ts),
        ("extra", string()),
    ];
    ty(TypeKind::Row(fields.into_iter().map(|(name, ty)| Field { name: name.into(), ty }).collect()))
}

/// `ROWS` bids: 10,000 auctions in random order, channels of 5 to 12 bytes, urls of about 50, extras of 20 to 60.
pub fn bids() -> Batch {
    let mut state = 1u64;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut longs = |bound: u64| -> ArrayRef {
        Arc::new((0..ROWS).map(|_| i64::try_from(next(bound)).unwrap_or_default()).collect::<Int64Array>())
    };
    let (auction, bidder, price) = (longs(10_000), longs(100_000), longs(10_000_000));
    let channels = ["Apple", "Google", "Facebook", "Baidu", "channel-4711"];
    let mut texts = |make: &dyn Fn(u64) -> String| -> ArrayRef {
        Arc::new((0..ROWS).map(|_| Some(make(next(1_000_000)))).collect::<StringArray>())
    };
    let channel = texts(&|n| channels[usize::try_from(n % 5).unwrap_or_default()].into());
    let url = texts(&|n| format!("https://www.nexmark.com/{n:06}/item.htm?query=1"));
    let extra = texts(&|n| "x".repeat(usize::try_from(20 + n % 41).unwrap_or_default()));
    let ts: ArrayRef = Arc::new((0..).take(ROWS).map(Some).collect::<TimestampMillisecondArray>());
    Batch::try_new(vec![auction, bidder, price, channel, url, ts, extra], ROWS, None).unwrap_or_else(|_| unreachable!())
}
