// Sends two messages to the queue orders, completes one and dead-letters the other.
const { ServiceBusClient } = require("@azure/service-bus");

const emulator = "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;";

async function main() {
  const client = new ServiceBusClient(process.env.LEDGERBUS_CONNECTION_STRING || emulator);
  await client.createSender("orders").sendMessages([{ body: "hello from JavaScript" }, { body: "and again" }]);
  const receiver = client.createReceiver("orders");
  const [first, second] = await receiver.receiveMessages(2);
  console.log(first.body);
  await receiver.completeMessage(first);
  await receiver.deadLetterMessage(second, { deadLetterReason: "tour", deadLetterErrorDescription: "to see it there" });
  const dead = client.createReceiver("orders", { subQueueType: "deadLetter" });
  for (const m of await dead.peekMessages(10)) console.log("dead:", m.body, m.deadLetterReason);
  await client.close();
}
main();
