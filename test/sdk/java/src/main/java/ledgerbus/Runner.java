package ledgerbus;

import com.azure.json.JsonProviders;
import com.azure.json.JsonReader;
import com.azure.json.JsonWriter;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;

/**
 * Runs the scenarios of a client written in Java. It is started by test/sdk/run, which makes the queues and says in the environment where
 * everything is. A line of results is written as each scenario ends; nothing is tried again.
 *
 * @param <B> what a scenario works with
 */
final class Runner<B extends Runner.Surroundings> {
    /** What a scenario works with, closed when it ends. */
    interface Surroundings extends AutoCloseable {
        @Override
        void close();
    }

    /** What does the steps of a scenario. */
    interface Scenario<B> {
        void run(B bus) throws Exception;
    }

    /** Makes what a scenario works with, for the queue or topic of its id. */
    interface Maker<B> {
        B make(String id, boolean topic, boolean partitioned, String connectionString, Control control);
    }

    /** Most scenarios only wait, so many go at the same time even where cores are few. */
    private static final int AT_ONCE = 20;

    private static final Duration LIMIT = Duration.ofSeconds(60);

    private static final Duration GRACE = Duration.ofSeconds(5);

    private final String client; // as the list calls it
    private final Map<String, Scenario<B>> scenarios;
    private final Map<String, Duration> limits; // of those whose steps say that they take longer
    private final Maker<B> maker;
    private final String connectionString = environment("LEDGERBUS_CONNECTION_STRING");
    private final Control control = new Control(environment("LEDGERBUS_CONTROL"));
    private final Path results = Path.of(environment("LEDGERBUS_RESULTS"));

    Runner(String client, Map<String, Scenario<B>> scenarios, Map<String, Duration> limits, Maker<B> maker) {
        this.client = client;
        this.scenarios = scenarios;
        this.limits = limits;
        this.maker = maker;
    }

    void run() throws IOException, InterruptedException {
        List<Entry> entries = entries();
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        entries.stream().filter(e -> !e.exclusive).forEach(e -> pool.submit(() -> show(e)));
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.HOURS); // each has its limit
        entries.stream().filter(e -> e.exclusive).forEach(this::show);
    }

    /** What the list says of a scenario, as far as it matters here. */
    private record Entry(String id, boolean topic, boolean exclusive, boolean not, boolean partitioned) {}

    private List<Entry> entries() throws IOException {
        boolean partitioned = !System.getenv().getOrDefault("LEDGERBUS_PARTITIONED", "").isEmpty();
        String only = System.getenv().getOrDefault("LEDGERBUS_ONLY", "");
        Set<String> chosen = Arrays.stream(only.split(",")).filter(id -> !id.isEmpty()).collect(Collectors.toSet());
        try (JsonReader reader = JsonProviders.createReader(Files.readAllBytes(Path.of(environment("LEDGERBUS_SCENARIOS"))))) {
            Map<?, ?> list = (Map<?, ?>) reader.readUntyped();
            return ((List<?>) list.get("scenarios")).stream()
                    .map(s -> (Map<?, ?>) s)
                    .map(s -> new Entry((String) s.get("id"), s.get("topic") != null, Boolean.TRUE.equals(s.get("exclusive")),
                            excepts(s, "not") || partitioned && excepts(s, "notPartitioned"),
                            partitioned && !"admin".equals(s.get("group")))) // those say themselves what they make
                    .filter(e -> chosen.isEmpty() || chosen.contains(e.id))
                    .toList();
        }
    }

    /** Reports whether a scenario says why this client cannot show it. */
    private boolean excepts(Map<?, ?> scenario, String field) {
        return scenario.get(field) instanceof Map<?, ?> reasons && reasons.containsKey(client);
    }

    /** Runs a scenario and writes its result. */
    private void show(Entry entry) {
        long began = System.nanoTime();
        String failure = entry.not ? null : attempt(entry);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("id", entry.id);
        result.put("result", entry.not ? "n/a" : failure == null ? "pass" : "fail");
        result.put("error", failure == null ? "" : failure);
        result.put("seconds", (System.nanoTime() - began) / 1_000_000 / 1000.0);
        write(result);
    }

    private synchronized void write(Map<String, Object> result) {
        try {
            StringWriter text = new StringWriter();
            try (JsonWriter writer = JsonProviders.createWriter(text)) {
                writer.writeUntyped(result);
            }
            Files.write(results, (text + "\n").getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    /** Does the steps of a scenario, in a thread of its own and no longer than the limit. Null means that all went well. */
    private String attempt(Entry entry) {
        String id = entry.id;
        Scenario<B> scenario = scenarios.get(id);
        if (scenario == null) {
            return "the suite has no scenario of this name";
        }
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread thread = new Thread(() -> {
            try (B bus = maker.make(entry.id, entry.topic, entry.partitioned, connectionString, control)) {
                scenario.run(bus);
            } catch (Throwable t) {
                failure.set(t);
            }
        }, id);
        thread.setDaemon(true);
        thread.start();
        Duration limit = limits.getOrDefault(id, LIMIT);
        try {
            thread.join(limit.toMillis());
            if (thread.isAlive()) {
                String where = place(thread.getStackTrace());
                thread.interrupt();
                thread.join(GRACE.toMillis()); // closes its clients
                return "not ended after " + limit.toSeconds() + " s" + where;
            }
        } catch (InterruptedException e) {
            return "interrupted";
        }
        return failure.get() == null ? null : describe(failure.get());
    }

    private static String describe(Throwable failure) {
        StringBuilder text = new StringBuilder(failure instanceof Failure ? failure.getMessage() : failure.toString());
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
            text.append("; caused by ").append(cause);
        }
        String where = place(failure.getStackTrace());
        for (Throwable suppressed : failure.getSuppressed()) { // where the SDK was called, if the error arose in a thread of its own
            where = where.isEmpty() ? place(suppressed.getStackTrace()) : where;
        }
        return text + where;
    }

    /** The line of the scenario: the innermost one of this package outside the classes that all scenarios use. */
    private static String place(StackTraceElement[] stack) {
        Set<String> shared = Set.of("Bus", "Client", "Control", "Expect", "Failure", "Jms", "Kind", "Runner", "Source");
        return Arrays.stream(stack)
                .filter(e -> e.getClassName().startsWith("ledgerbus."))
                .filter(e -> !shared.contains(e.getClassName().replaceAll("^ledgerbus\\.|\\$.*$", "")))
                .findFirst()
                .map(e -> " (" + e.getFileName() + ":" + e.getLineNumber() + ")")
                .orElse("");
    }

    private static String environment(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            System.err.println(name + " is not set; the suite is run by test/sdk/run");
            System.exit(2);
        }
        return value;
    }
}
