package org.apache.flink.streamfusion.tests.cluster;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.function.Predicate;

/** Flink's REST API on this machine. */
final class RestClient {
    private static final Duration TIMEOUT = Duration.ofSeconds(10);
    private static final long MILLIS_BETWEEN_TRIES = 100;

    private final HttpClient client = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(TIMEOUT)
            .build();
    private final ObjectMapper json = new ObjectMapper();
    private final int port;

    RestClient(int port) {
        this.port = port;
    }

    JsonNode get(String path) throws IOException, InterruptedException {
        HttpResponse<String> response = client.send(
                HttpRequest.newBuilder(URI.create("http://localhost:" + port + path)).timeout(TIMEOUT).build(),
                HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IOException(path + " answers " + response.statusCode() + ": " + response.body());
        }
        return json.readTree(response.body());
    }

    /** Asks until the answer is as wanted. How long that may take is the test's time limit, which interrupts. */
    JsonNode await(String path, Predicate<JsonNode> wanted) throws InterruptedException {
        while (true) {
            try {
                JsonNode answer = get(path);
                if (wanted.test(answer)) {
                    return answer;
                }
            } catch (IOException e) {
                // not up yet, or no such job yet
            }
            Thread.sleep(MILLIS_BETWEEN_TRIES);
        }
    }
}
