#!/usr/bin/env bash
# Runs a main class of flink/tests in a JVM set up like Flink's own: java.sh MAIN_CLASS [ARGUMENT...]
# STREAMFUSION_LIBRARY names the native library; without it the one inside the jar is used.
set -eu
tests=$(cd "$(dirname "$0")/../flink/tests" && pwd)
opens=()
for package in java.lang java.lang.reflect java.net java.nio java.text java.time java.util java.util.concurrent; do
  opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
exec java "${opens[@]}" -Xmx4g ${STREAMFUSION_LIBRARY:+"-Dstreamfusion.native.library=$STREAMFUSION_LIBRARY"} \
  ${JAVA_OPTS:-} -cp "$tests/target/classes:$(cat "$tests/target/classpath.txt")" "$@"
