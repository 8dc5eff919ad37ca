#!/usr/bin/env bash
# Runs a main class in a JVM set up like Flink's own: java.sh MAIN_CLASS [ARGUMENT...]
# STREAMFUSION_LIBRARY names the native library; without it the one inside the jar is used.
# STREAMFUSION_MODULE is the folder of the module that has the class, flink/tests unless said otherwise.
set -eu
module=$(cd "$(dirname "$0")/../${STREAMFUSION_MODULE:-flink/tests}" && pwd)
opens=()
for package in java.lang java.lang.reflect java.net java.nio java.text java.time java.util java.util.concurrent; do
  opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
exec java "${opens[@]}" -Xmx4g ${STREAMFUSION_LIBRARY:+"-Dstreamfusion.native.library=$STREAMFUSION_LIBRARY"} \
  ${JAVA_OPTS:-} -cp "$module/target/classes:$(cat "$module/target/classpath.txt")" "$@"
