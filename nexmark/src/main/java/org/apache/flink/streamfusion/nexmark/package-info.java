/**
 * The Nexmark benchmark: events of an online auction, 23 queries over them, and a runner that compares engines.
 *
 * <p>{@link org.apache.flink.streamfusion.nexmark.EventGenerator} makes an event out of its number alone; {@link
 * org.apache.flink.streamfusion.nexmark.NexmarkTableFactory} offers the events to SQL. The queries are the files in {@code queries/}.
 * There is no query 6, which Flink SQL cannot run.
 */
package org.apache.flink.streamfusion.nexmark;
