// Receive-and-delete, and receivers that wait.
import { bodies, complete, one, sleep, take, waiting, warmUp } from "../bus.js";
import { atOnce, fails, same } from "../check.js";

export default {
  async "receive-and-delete"(bus) {
    for (const body of "ABC") await bus.send(body);
    const receiver = bus.remover();
    const all = await take(receiver, "A", "B", "C");
    for (const m of all) same("lock token", m.lockToken, undefined);
    await bus.peekIsEmpty();
    await fails("no-lock", receiver.completeMessage(all[0]));
    await bus.send("D");
    await one(receiver, "D");
  },

  async "receive-waiting"(bus) {
    const receivers = [1, 2, 3, 4].map(() => bus.receiver());
    for (const receiver of receivers) await warmUp(bus, receiver);
    const calls = [];
    for (const receiver of receivers) {
      calls.push(waiting(receiver));
      await sleep(500); // so that its credit is the next to arrive
    }
    for (const body of "0123") await bus.send(body);
    const sent = Date.now();
    await Promise.all(calls.map((call) => call.end));
    same("messages by receiver", calls.map((call) => bodies(call.got)), [["0"], ["1"], ["2"], ["3"]]);
    for (const call of calls) atOnce("the time of a message", call.at, sent);
    await Promise.all(receivers.map((receiver, i) => complete(receiver, calls[i].got)));
    await bus.peekIsEmpty();
  },
};
