package ledgerbus;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/** Shows the scenarios of test/sdk/scenarios.json with the Java SDK. */
public final class Scenarios {
    /** Those whose steps say that they take longer. */
    private static final Map<String, Duration> LIMITS = Map.of(
            "connection-idle", Duration.ofSeconds(100),
            "connection-kill-under-load", Duration.ofSeconds(100),
            "topic-kill-fan-out", Duration.ofSeconds(100),
            "forward-survives-kill", Duration.ofSeconds(100),
            "transaction-time-limit", Duration.ofSeconds(150));

    private Scenarios() {}

    public static void main(String[] args) throws Exception {
        Map<String, Runner.Scenario<Bus>> all = new HashMap<>();
        all.putAll(Sending.ALL);
        all.putAll(Receiving.ALL);
        all.putAll(Locks.ALL);
        all.putAll(Settling.ALL);
        all.putAll(DeadLetters.ALL);
        all.putAll(Expiring.ALL);
        all.putAll(Scheduling.ALL);
        all.putAll(Deferring.ALL);
        all.putAll(Peeking.ALL);
        all.putAll(Sessions.ALL);
        all.putAll(Duplicates.ALL);
        all.putAll(Limits.ALL);
        all.putAll(Credit.ALL);
        all.putAll(Connections.ALL);
        all.putAll(Transports.ALL);
        all.putAll(Topics.ALL);
        all.putAll(Rules.ALL);
        all.putAll(Forwarding.ALL);
        all.putAll(Transactions.ALL);
        all.putAll(CrossEntity.ALL);
        all.putAll(Entities.ALL);
        all.putAll(Administering.ALL);
        new Runner<>("java", all, LIMITS, Bus::new).run();
        System.exit(0); // threads of the SDK may be left
    }
}
