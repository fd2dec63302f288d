// Runs the scenarios of ../scenarios.json, each on the queue or topic of its name, and appends what came of each to a file of results.
// ../run starts it and explains the environment. The scenarios are functions of ./scenarios, one file a group.
import { appendFileSync, readFileSync, readdirSync } from "node:fs";
import { Bus, sleep } from "./bus.js";
import { describe } from "./check.js";

/** Scenarios at a time. Most of their time is waiting, so there may be many; each that computes delays what others measure. */
const concurrency = 24;

/** How long a scenario may take unless its file says another time, in seconds. */
const usual = 60;

const { LEDGERBUS_CONNECTION_STRING, LEDGERBUS_TLS_CONNECTION_STRING, LEDGERBUS_CONTROL } = process.env;
const { LEDGERBUS_SCENARIOS, LEDGERBUS_RESULTS, LEDGERBUS_ONLY, LEDGERBUS_PARTITIONED } = process.env;
if (!LEDGERBUS_CONNECTION_STRING || !LEDGERBUS_CONTROL) {
  console.error("scenarios.js is run by: go run ./test/sdk/run --sdk js (at the top of the repository)");
  process.exit(2);
}
const lab = {
  connectionString: LEDGERBUS_CONNECTION_STRING,
  tlsConnectionString: LEDGERBUS_TLS_CONNECTION_STRING,
  control: LEDGERBUS_CONTROL,
};

/** The functions of all groups by scenario, and the times of those that take longer than usual. */
async function load() {
  const run = {};
  const seconds = {};
  const directory = new URL("scenarios/", import.meta.url);
  for (const file of readdirSync(directory)) {
    const group = await import(new URL(file, directory));
    Object.assign(run, group.default);
    Object.assign(seconds, group.seconds);
  }
  return { run, seconds };
}

/** Runs a scenario and returns its line of the results. */
async function result(scenario, { run, seconds }) {
  const { id } = scenario;
  if (scenario.not?.js || (LEDGERBUS_PARTITIONED && scenario.notPartitioned?.js)) return { id, result: "n/a", error: "", seconds: 0 };
  const began = Date.now();
  const took = () => (Date.now() - began) / 1000;
  try {
    if (!run[id]) throw new Error("not written");
    await show(run[id], scenario, seconds[id] ?? usual);
    return { id, result: "pass", error: "", seconds: took() };
  } catch (error) {
    console.log(`${id}: ${error.stack}`);
    return { id, result: "fail", error: describe(error), seconds: took() };
  }
}

/** Runs a scenario's function with a client, and closes all its clients whatever happens. The first error is the one told. */
async function show(run, scenario, seconds) {
  const partitioned = Boolean(LEDGERBUS_PARTITIONED) && scenario.group !== "admin"; // those say themselves what they make
  const bus = new Bus(lab, scenario.id, { persistent: scenario.exclusive, partitioned });
  const close = () => limited("the clients were not closed within", 10, () => bus.close());
  try {
    await limited("the scenario did not end within", seconds, () => run(bus));
  } catch (error) {
    await close().catch((more) => console.log(`${scenario.id}: and then: ${describe(more)}`));
    throw error;
  }
  await close();
}

/** Fails if a call is not over in time. */
async function limited(what, seconds, call) {
  const late = new AbortController();
  const limit = sleep(seconds * 1000, undefined, { signal: late.signal }).then(() => {
    throw new Error(`${what} ${seconds} s`);
  });
  limit.catch(() => {}); // in case the call is faster
  try {
    return await Promise.race([call(), limit]);
  } finally {
    late.abort();
  }
}

/** Runs scenarios, that many at a time. */
async function runAll(scenarios, functions, atATime) {
  let failed = 0;
  const queue = [...scenarios];
  const worker = async () => {
    for (let scenario = queue.shift(); scenario; scenario = queue.shift()) {
      const line = await result(scenario, functions);
      if (line.result === "fail") failed++;
      console.log(`${line.result.padEnd(4)} ${line.id} ${line.seconds.toFixed(1)} s ${line.error}`);
      if (LEDGERBUS_RESULTS) appendFileSync(LEDGERBUS_RESULTS, `${JSON.stringify(line)}\n`);
    }
  };
  await Promise.all(Array.from({ length: atATime }, worker));
  return failed;
}

const only = LEDGERBUS_ONLY ? LEDGERBUS_ONLY.split(",") : undefined;
const list = JSON.parse(readFileSync(LEDGERBUS_SCENARIOS, "utf8")).scenarios.filter((s) => !only || only.includes(s.id));
const functions = await load();
const length = (scenario) => functions.seconds[scenario.id] ?? usual;
const together = list.filter((s) => !s.exclusive).sort((a, b) => length(b) - length(a)); // the longest decide when all end
const alone = list.filter((s) => s.exclusive);
const failed = (await runAll(together, functions, concurrency)) + (await runAll(alone, functions, 1));
// The file of results says what failed; without one the exit code does. A scenario that ran out of time may still be running.
process.exit(failed > 0 && !LEDGERBUS_RESULTS ? 1 : 0);
