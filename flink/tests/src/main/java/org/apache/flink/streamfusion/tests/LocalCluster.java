package org.apache.flink.streamfusion.tests;

import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.dag.Pipeline;
import org.apache.flink.client.deployment.ClusterClientJobClientAdapter;
import org.apache.flink.client.deployment.executors.PipelineExecutorUtils;
import org.apache.flink.client.program.MiniClusterClient;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.DeploymentOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.configuration.WebOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.PipelineExecutor;
import org.apache.flink.core.execution.PipelineExecutorFactory;
import org.apache.flink.core.execution.PipelineExecutorServiceLoader;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.metrics.MetricRegistryConfiguration;
import org.apache.flink.runtime.metrics.MetricRegistryImpl;
import org.apache.flink.runtime.metrics.ReporterSetup;
import org.apache.flink.runtime.metrics.filter.ReporterFilter;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.util.ExceptionUtils;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * The one MiniCluster of this JVM and environments whose jobs run on it.
 *
 * <p>Flink's local executor starts a cluster per job, which costs more than a small job itself.
 */
public final class LocalCluster {
    private static final int SLOTS = 8;
    private static final int CHECKPOINTS_TO_REMEMBER = 1000;
    /** How long the end of a job may take. */
    private static final long END_SECONDS = 30;

    private static MemorySize managedMemoryOfSlot = MemorySize.ofMebiBytes(32);
    private static MiniCluster cluster;

    private LocalCluster() {}

    /** A table environment in streaming mode; jobs are submitted to the shared cluster. */
    public static StreamTableEnvironment tableEnvironment(Configuration configuration, int parallelism) {
        return tableEnvironment(environment(configuration, parallelism), configuration);
    }

    /** A table environment on top of {@link #environment}. */
    public static StreamTableEnvironment tableEnvironment(
            StreamExecutionEnvironment environment, Configuration configuration) {
        return StreamTableEnvironment.create(
                environment,
                EnvironmentSettings.newInstance()
                        .inStreamingMode()
                        .withConfiguration(configuration)
                        .build());
    }

    /** An environment whose jobs are submitted to the shared cluster. */
    public static StreamExecutionEnvironment environment(Configuration configuration, int parallelism) {
        Configuration withTarget = new Configuration(configuration);
        withTarget.set(DeploymentOptions.TARGET, SharedClusterFactory.NAME);
        StreamExecutionEnvironment environment =
                new StreamExecutionEnvironment(new SharedClusterLoader(), withTarget, null);
        environment.setParallelism(parallelism);
        return environment;
    }

    /** Sets the managed memory of each slot. Error if the cluster was started before. */
    public static synchronized void useManagedMemory(MemorySize perSlot) {
        if (cluster != null) {
            throw new IllegalStateException("The cluster runs already");
        }
        managedMemoryOfSlot = perSlot;
    }

    /** What Flink counted about the checkpoints of a job. */
    static CheckpointStatsSnapshot checkpoints(JobID job) throws Exception {
        return running().getExecutionGraph(job).get().getCheckpointStatsSnapshot();
    }

    /** Takes a checkpoint of a job as soon as all of its tasks run; returns when it is complete. */
    static void takeCheckpoint(JobID job) throws Exception {
        answer(() -> running().triggerCheckpoint(job));
    }

    /** Asks for a checkpoint or savepoint again until the job is there and all tasks run. */
    static String answer(SnapshotRequest request) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(END_SECONDS);
        while (true) {
            try {
                return request.send().get(END_SECONDS, TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                String cause = ExceptionUtils.stringifyException(e);
                boolean early = cause.contains("Not all required tasks") || cause.contains("initializing job");
                if (!early || System.nanoTime() > deadline) {
                    throw e;
                }
                Thread.sleep(10);
            }
        }
    }

    /** Asks for a checkpoint or savepoint. */
    interface SnapshotRequest {
        CompletableFuture<String> send() throws Exception;
    }

    /** Cancels a job that a test has left running, if there is one, and waits until its tasks are gone. */
    static void end(JobClient client) throws Exception {
        if (client == null || statusWithin(client).isGloballyTerminalState()) {
            return;
        }
        try {
            client.cancel().get(END_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            // it may have ended of itself meanwhile, which is told below
        }
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(END_SECONDS);
        while (!statusWithin(client).isGloballyTerminalState()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("The job " + client.getJobID() + " did not end when it was cancelled");
            }
            Thread.sleep(5);
        }
    }

    private static JobStatus statusWithin(JobClient client) throws Exception {
        return client.getJobStatus().get(END_SECONDS, TimeUnit.SECONDS);
    }

    private static synchronized MiniCluster running() throws Exception {
        if (cluster == null) {
            Configuration configuration = new Configuration();
            configuration.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, managedMemoryOfSlot.multiply(SLOTS));
            configuration.set(WebOptions.CHECKPOINTS_HISTORY_SIZE, CHECKPOINTS_TO_REMEMBER);
            configuration.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(96));
            configuration.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(96));
            MiniCluster started = new CountingCluster(new MiniClusterConfiguration.Builder()
                    .setConfiguration(configuration)
                    .setNumTaskManagers(1)
                    .setNumSlotsPerTaskManager(SLOTS)
                    .withRandomPorts()
                    .build());
            started.start();
            cluster = started;
        }
        return cluster;
    }

    private static CompletableFuture<JobClient> submit(
            Pipeline pipeline, Configuration configuration, ClassLoader userClassLoader) throws Exception {
        MiniCluster running = running();
        StreamGraph graph = PipelineExecutorUtils.getStreamGraph(pipeline, configuration);
        JobID job = running.submitJob(graph).get().getJobID();
        return CompletableFuture.completedFuture(new ClusterClientJobClientAdapter<>(
                () -> new MiniClusterClient(configuration, running), job, userClassLoader));
    }

    /** Reports {@link JobCounters}. */
    private static final class CountingCluster extends MiniCluster {
        CountingCluster(MiniClusterConfiguration configuration) {
            super(configuration);
        }

        @Override
        protected MetricRegistryImpl createMetricRegistry(Configuration configuration, long maximumMessageBytes) {
            return new MetricRegistryImpl(
                    MetricRegistryConfiguration.fromConfiguration(configuration, maximumMessageBytes),
                    List.of(new ReporterSetup(
                            "job-counters", new MetricConfig(), new JobCounters(), ReporterFilter.getNoOpFilter(), Map.of())));
        }
    }

    private static final class SharedClusterLoader implements PipelineExecutorServiceLoader {
        @Override
        public PipelineExecutorFactory getExecutorFactory(Configuration configuration) {
            return new SharedClusterFactory();
        }

        @Override
        public Stream<String> getExecutorNames() {
            return Stream.of(SharedClusterFactory.NAME);
        }
    }

    private static final class SharedClusterFactory implements PipelineExecutorFactory {
        private static final String NAME = "shared-mini-cluster";

        @Override
        public String getName() {
            return NAME;
        }

        @Override
        public boolean isCompatibleWith(Configuration configuration) {
            return true;
        }

        @Override
        public PipelineExecutor getExecutor(Configuration configuration) {
            return LocalCluster::submit;
        }
    }
}
