package ledgerbus;

import java.util.HashMap;
import java.util.Map;

/** Shows the scenarios of test/sdk/scenarios.json with Qpid JMS, and with the listener of Spring over it. */
public final class JmsScenarios {
    private JmsScenarios() {}

    public static void main(String[] args) throws Exception {
        Map<String, Runner.Scenario<Jms>> all = new HashMap<>();
        all.putAll(JmsSessions.ALL);
        all.putAll(SpringListeners.ALL);
        new Runner<>("qpid-jms", all, Map.of(), Jms::new).run();
        System.exit(0); // threads of the client may be left
    }
}
