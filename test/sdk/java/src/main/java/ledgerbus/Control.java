package ledgerbus;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Does to the broker what no client can: kills it, and cuts connections. */
final class Control {
    private final HttpClient http = HttpClient.newHttpClient();
    private final String address;

    Control(String address) {
        this.address = address;
    }

    /** Kills the broker, and starts it again on what it left. */
    void kill() {
        post("/kill", "");
    }

    /** The same, with another status of a queue. */
    void kill(String queue, String status) {
        post("/kill", String.format("{\"%s\": {\"Status\": \"%s\"}}", queue, status));
    }

    /** Stops the broker in order, and starts it again on what it left. */
    void restart() {
        post("/restart", "");
    }

    /** The same, with settings until its next start. */
    void restart(String settings) {
        post("/restart", settings);
    }

    /** Resets all connections of clients. */
    void cut() {
        post("/cut", "");
    }

    /** Has another SDK receive a message from a queue and send it to another one as it was received. */
    void relay(String from, String to) {
        post("/relay", String.format("{\"from\": \"%s\", \"to\": \"%s\"}", from, to));
    }

    private void post(String path, String body) {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address + path)).POST(HttpRequest.BodyPublishers.ofString(body)).build();
        try {
            HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() != 200) {
                throw new Failure("POST %s: %d %s", path, response.statusCode(), response.body());
            }
        } catch (IOException | InterruptedException e) {
            throw new Failure(e, "POST %s", path);
        }
    }
}
