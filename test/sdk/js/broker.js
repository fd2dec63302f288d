// Runs the broker that the environment variable LEDGERBUS names, for the tests of this directory.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** A broker process on a directory of its own. */
export class Broker {
  /** Starts a broker with queues: an object of name and properties, as in the emulator's Config.json. */
  static async start(queues) {
    const binary = process.env.LEDGERBUS;
    if (!binary) throw new Error("LEDGERBUS must name the binary: LEDGERBUS=../../../bin/ledgerbus npm test");
    const broker = new Broker();
    broker.binary = binary;
    broker.dir = await mkdtemp(join(tmpdir(), "ledgerbus-js-"));
    broker.address = "127.0.0.1:0";
    const list = Object.entries(queues).map(([Name, Properties]) => ({ Name, Properties }));
    await writeFile(
      join(broker.dir, "entities.json"),
      JSON.stringify({ UserConfig: { Namespaces: [{ Name: "js", Queues: list }] } }),
    );
    await broker.run();
    return broker;
  }

  /** Starts the process, on the address it had before, and waits until it serves. */
  async run() {
    const flags = ["serve", "--data", join(this.dir, "data"), "--entities", join(this.dir, "entities.json")];
    this.process = spawn(this.binary, [...flags, "--listen", this.address, "--log-level", "error"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    for await (const line of createInterface({ input: this.process.stdout })) {
      const [, word, value] = line.match(/^\s+(listening on|connection string)\s+(.*)$/) ?? [];
      if (word === "listening on") this.address = value.split(" ")[0]; // how it listens stands behind
      if (word === "connection string") {
        this.connectionString = value;
        this.process.stdout.resume();
        return;
      }
    }
    throw new Error("the broker ended before it served");
  }

  /** Ends the process with a signal and says how it ended. */
  async end(signal) {
    const ended = once(this.process, "exit");
    this.process.kill(signal);
    return (await ended)[0];
  }

  /** Ends the broker for good. It must end well. */
  async close() {
    const code = await this.end("SIGTERM");
    await rm(this.dir, { recursive: true });
    if (code !== 0) throw new Error(`the broker ended with code ${code}`);
  }
}
