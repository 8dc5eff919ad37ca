/** What runs on task managers: the stage operator, its entry and exit, and the exchange of batches. */
package org.apache.flink.streamfusion.runtime;
