# StreamFusion: one command each. Every target does its own set-up.
#
#   make demo                  a real SQL job, stock and native, results compared   (SQL=path for a script of your own)
#   make test                  format, lints, Rust and Java tests, the demo
#   make parity-rocksdb        the tests of parity of operators with state, with their state in RocksDB: with no cache, a small one, a large one
#   make rocksdb-valgrind      the tests of the binding to RocksDB under valgrind, which must be installed
#   make bench                 Criterion benches of operators
#   make bench-job             whole jobs, stock and native in turn                 (JOBS=ad for some of them)
#   make bench-window          jobs over windows of event time, stock and native in turn
#   make bench-rocksdb         jobs with their state in RocksDB, stock and native in turn
#   make bench-checkpoint      a job of 5 M keys with a checkpoint each second, stock and native
#   make nexmark               the Nexmark queries, stock and native, each in its own JVM (Q=q5,q7 MODE=heap,on SOURCE=generator EVENTS=.. P=..)
#   make package               the jar to drop into Flink's lib/

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/streamfusion
# A second clone reuses what the first one built.
export CARGO_TARGET_DIR ?= $(CACHE)/target

# The distribution of Flink that tests of real processes start.
FLINK_HOME := $(CACHE)/flink-2.2.1
# Its library of RocksDB, for tests without a JVM.
export STREAMFUSION_ROCKSDB_LIBRARY ?= $(CACHE)/rocksdb/librocksdbjni-linux64.so
LIBRARY := $(CARGO_TARGET_DIR)/release/libstreamfusion_jni.so
# -B: no colours and no progress bars. -o is never used, so that a new machine works like an old one.
MVN := mvn -B -q -f flink/pom.xml -Dstreamfusion.native.library=$(LIBRARY)
SQL ?= demo/flights.sql

.PHONY: help tools library jars data distribution rocksdb demo test check rust-test java-test bench bench-job bench-window bench-rocksdb bench-checkpoint nexmark package cli clean rocksdb-valgrind parity-rocksdb

help:
	@sed -n '3,13s/^# *//p' Makefile

tools:
	@for tool in cargo java mvn python3; do command -v $$tool >/dev/null || { \
	  echo "make: $$tool is missing. StreamFusion needs Rust 1.95, JDK 17, Maven 3.8, make and Python 3 on the PATH." >&2; exit 1; }; done
	@java -version 2>&1 | grep -q '"17' || echo "make: warning: JDK 17 is what StreamFusion is tested with; found $$(java -version 2>&1 | head -n 1)" >&2

# Always the whole workspace: another selection of crates means other features of the dependencies, hence another build.
library: tools
	cargo build --locked --release --workspace

jars: library
	$(MVN) -DskipTests package

data: tools
	python3 demo/fetch_flights.py "$(CACHE)/data"

demo: jars data
	STREAMFUSION_LIBRARY="$(LIBRARY)" demo/java.sh org.apache.flink.streamfusion.tests.Demo "$(SQL)" "$(CACHE)/data"

check: tools
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

rocksdb: distribution
	python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract("librocksdbjni-linux64.so", sys.argv[2])' \
	  "$(FLINK_HOME)/lib/flink-dist-2.2.1.jar" "$(CACHE)/rocksdb"

# A minute, most of it compiling. Memory that is never given back but still known, as that of RocksDB's own singletons, is no error.
rocksdb-valgrind: tools rocksdb
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=9" \
	  cargo test --locked --workspace --test rocksdb -- --test-threads=1

rust-test: tools rocksdb
	cargo test --locked --workspace

distribution: tools
	python3 flink/tests/fetch_flink.py

java-test: library distribution data
	$(MVN) -Dstreamfusion.flink.home="$(FLINK_HOME)" -Dstreamfusion.data="$(CACHE)/data" package

# Operators that keep state, each of whose tests compares with Flink over the same backend. `make test` runs them once, with most state on the heap.
STATEFUL := GroupAggregate MiniBatchGroupAggregate TwoPhaseAggregate Deduplicate ChangelogNormalize TopN Join OverAggregate WindowAggregate \
  GroupWindow SessionWindow WindowTableFunction WindowJoin WindowTopN WindowDeduplicate IntervalJoin TemporalJoin TemporalSort Collection NestedRow
# The sizes are those of the cache of native operators; with one byte all but the keys of the last batch leave it.
KEPT := rocksdb-incremental:1 rocksdb:64kb rocksdb
comma := ,
space := $() $()

parity-rocksdb: library
	for kept in $(KEPT); do echo "$$kept"; \
	  $(MVN) -Dstreamfusion.test.state=$$kept -pl tests -am -Dsurefire.failIfNoSpecifiedTests=false \
	    -Dtest="$(subst $(space),$(comma),$(STATEFUL:%=org.apache.flink.streamfusion.tests.%ParityTest))" test; done

test: check rust-test java-test demo

bench: tools
	cargo bench --locked --workspace --bench '*' -- --noplot

bench-job: jars
	# The heap is resident from the start, so that what grows afterwards is native.
	JAVA_OPTS="-Xms4g -XX:+AlwaysPreTouch -Dstreamfusion.bench.jobs=$(JOBS)" STREAMFUSION_LIBRARY="$(LIBRARY)" demo/java.sh org.apache.flink.streamfusion.tests.BenchJob

bench-window: jars
	JAVA_OPTS="-Xms4g -XX:+AlwaysPreTouch -Dstreamfusion.bench.jobs=$(JOBS)" STREAMFUSION_LIBRARY="$(LIBRARY)" demo/java.sh org.apache.flink.streamfusion.tests.BenchWindow

bench-rocksdb: jars
	JAVA_OPTS="-Dstreamfusion.bench.jobs=$(JOBS)" STREAMFUSION_LIBRARY="$(LIBRARY)" demo/java.sh org.apache.flink.streamfusion.tests.BenchRocksDb

bench-checkpoint: jars
	# Starts a JVM for each side, with a heap of 6 GiB; this one only waits.
	JAVA_OPTS="-Xmx64m" STREAMFUSION_LIBRARY="$(LIBRARY)" demo/java.sh org.apache.flink.streamfusion.tests.BenchCheckpoint

nexmark: jars
	# Starts a JVM for each query and engine; this one only waits.
	JAVA_OPTS="-Xmx64m" STREAMFUSION_MODULE=nexmark STREAMFUSION_LIBRARY="$(LIBRARY)" demo/java.sh org.apache.flink.streamfusion.nexmark.NexmarkBench \
	  "Q=$(Q)" "MODE=$(MODE)" "SOURCE=$(SOURCE)" "EVENTS=$(EVENTS)" "RATE=$(RATE)" "P=$(P)" "RUNS=$(RUNS)" "HEAP=$(HEAP)" "OPTIONS=$(OPTIONS)" "OUT=docs/benchmarks"

package: jars
	@ls -l flink/dist/target/flink-streamfusion-*.jar

cli: tools
	cargo build --locked --release --workspace

clean:
	cargo clean
	$(MVN) clean
