// Duplicate detection.
import { again, bodies, nothing, one, sleepUntil, take, warmUp } from "../bus.js";
import { same } from "../check.js";

export default {
  async "duplicate-dropped"(bus) {
    await bus.send("A", { messageId: "1" });
    await bus.send("X", { messageId: "1", applicationProperties: { colour: "red" } });
    await bus.send("B", { messageId: "2" });
    same("peek all", bodies(await bus.peekAll()), ["A", "B"]);
    const receiver = bus.receiver();
    await receiver.completeMessage(await one(receiver, "A"));
    await receiver.deadLetterMessage(await one(receiver, "B"));
    await bus.sender.sendMessages([
      { body: "Y", messageId: "1" }, { body: "C", messageId: "3" }, { body: "Z", messageId: "2" }, { body: "W", messageId: "3" },
    ]);
    await bus.send("V", { messageId: "3" });
    await one(receiver, "C");
    await nothing(receiver);
    same("peek all", bodies(await bus.peekAll()), ["C"]);
    same("dead letters", bodies(await bus.peekAll({ subQueueType: "deadLetter" })), ["B"]);
  },

  async "duplicate-scheduled"(bus) {
    const receiver = bus.receiver();
    await warmUp(bus, receiver);
    const time = Date.now() + 4000;
    await bus.schedule(time, { body: "A", messageId: "1" });
    await bus.send("X", { messageId: "1" });
    await bus.send("B", { messageId: "2" });
    await bus.schedule(time, { body: "Y", messageId: "2" });
    await take(receiver, "B", "A");
    await nothing(receiver);
    same("peek all, sorted", bodies(await bus.peekAll()).sort(), ["A", "B"]);
  },

  async "duplicate-window"(bus) {
    await bus.send("A", { messageId: "1" });
    const began = Date.now();
    await sleepUntil(began + 10_000);
    await bus.send("X", { messageId: "1" });
    same("peek all", bodies(await bus.peekAll()), ["A"]);
    await sleepUntil(began + 21_000);
    await bus.send("B", { messageId: "1" });
    same("peek all", bodies(await bus.peekAll()), ["A", "B"]);
  },

  async "duplicate-survives-kill"(bus) {
    await bus.send("A", { messageId: "1" });
    await bus.send("B", { messageId: "2" });
    const receiver = bus.receiver();
    await receiver.completeMessage(await one(receiver, "A"));
    await bus.kill();
    await again(() => bus.send("X", { messageId: "1" }));
    await bus.send("Y", { messageId: "2" });
    await bus.send("C", { messageId: "3" });
    same("peek all", bodies(await again(() => bus.peekAll())), ["B", "C"]);
  },
};
