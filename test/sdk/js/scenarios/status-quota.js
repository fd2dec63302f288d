// Status of a queue, its size, and limits of messages.
import { again, bodies, complete, nothing, one, peek, receive, sleep, take } from "../bus.js";
import { between, fails, has, same } from "../check.js";

/** A receiver, or one of the dead letters, is refused. */
const receiverIsDisabled = (receiver) => fails("disabled", again(() => receiver.receiveMessages(1, { maxWaitTimeInMs: 500 })));

const peekIsDisabled = (receiver) => fails("disabled", again(() => peek(receiver, 0, 1)));

const sendIsDisabled = (bus, body) => fails("disabled", again(() => bus.send(body)));

const full = ["The maximum entity size has been reached or exceeded for Queue", "Max entity size in bytes"];

export default {
  async "status-send-disabled"(bus) {
    await sendIsDisabled(bus, "A");
    await nothing(bus.receiver());
    await bus.peekIsEmpty();
  },

  async "status-receive-disabled"(bus) {
    await bus.send("A");
    await receiverIsDisabled(bus.receiver());
    await peekIsDisabled(bus.receiver());
    await receiverIsDisabled(bus.deadLetters());
  },

  async "status-change"(bus) {
    const become = (Status) => bus.kill({ [bus.queue]: { Status } });
    const receiver = bus.receiver();
    await bus.send("A");
    await bus.send("B");
    await become("ReceiveDisabled");
    await again(() => bus.send("C"));
    await receiverIsDisabled(bus.receiver());
    await peekIsDisabled(bus.receiver());
    await receiverIsDisabled(bus.deadLetters());
    await become("SendDisabled");
    await sendIsDisabled(bus, "D");
    await receiver.completeMessage(await again(() => one(receiver, "A")));
    same("peek all", bodies(await bus.peekAll()), ["B", "C"]);
    await become("Disabled");
    await sendIsDisabled(bus, "E");
    await receiverIsDisabled(bus.receiver());
    await peekIsDisabled(bus.receiver());
    await become("Active");
    await complete(receiver, await again(() => take(receiver, "B", "C")));
    await again(() => bus.send("F"));
    await one(receiver, "F");
  },

  async "quota-message-size"(bus) {
    // The link ends with the refusal, and for a moment the SDK calls it busy. That it tries again by itself is needed here.
    const sender = bus.connect({ maxRetries: 5, retryDelayInMs: 50 }).createSender(bus.queue);
    for (let i = 0; i < 2; i++) {
      await fails("too-large", sender.sendMessages({ body: Buffer.alloc(300_000) }));
      await sender.sendMessages({ body: "small" });
    }
    const receiver = bus.receiver();
    await take(receiver, "small", "small");
    await nothing(receiver);
  },

  async "quota-queue-full"(bus) {
    const send = () => bus.send(Buffer.alloc(200_000));
    let accepted = 0;
    for (let refused = false; !refused && accepted < 8; ) {
      try {
        await send();
        accepted++;
      } catch (error) {
        await fails("queue-full", Promise.reject(error), ...full);
        refused = true;
      }
    }
    between("messages accepted", accepted, 4, 7);
    const receiver = bus.receiver();
    const dlq = bus.deadLetters();
    await receiver.deadLetterMessage((await receive(receiver, 1))[0]);
    await fails("queue-full", send(), ...full);
    await complete(receiver, await receive(receiver, accepted - 1));
    await complete(dlq, await receive(dlq, 1));
    for (const end = Date.now() + 5000; ; await sleep(50)) {
      try {
        return await send();
      } catch (error) {
        if (error.code !== "QuotaExceeded" || Date.now() > end) throw error;
      }
    }
  },

  async "quota-ids"(bus) {
    const [right, wrong] = ["x".repeat(128), "y".repeat(129)];
    const ids = { messageId: right, sessionId: right, partitionKey: right, replyToSessionId: right };
    await bus.send("A", ids);
    for (const name of Object.keys(ids)) await fails("argument", bus.send("B", { [name]: wrong }));
    const receiver = bus.receiver();
    has("A", await one(receiver, "A"), ids);
    await nothing(receiver);
  },

  async "quota-header"(bus) {
    const properties = (n, length) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`p${i}`, `${i}`.repeat(length)]));
    await bus.send("A", { applicationProperties: properties(3, 16_000) });
    await fails("argument", bus.send("B", { applicationProperties: properties(1, 33_000) }));
    await fails(
      "too-large", bus.send("C", { applicationProperties: properties(5, 16_000) }),
      "The size quota for this stream (65536) has been exceeded",
    );
    const receiver = bus.receiver();
    has("A", await one(receiver, "A"), { applicationProperties: properties(3, 16_000) });
    await nothing(receiver);
  },
};
