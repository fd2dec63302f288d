// Keys of messages where every queue and topic is partitioned. What the scenarios say of the order of messages holds in one
// partition, so a message without a key of its own gets one of the scenario's. That messages without a key go to all partitions
// is shown elsewhere (SM-200, SM-213).

/** A client whose senders give messages a key. */
export function keyed(client, key) {
  const create = client.createSender.bind(client);
  client.createSender = (...args) => keyedSender(create(...args), key);
  return client;
}

function keyedSender(sender, key) {
  const plain = {};
  for (const name of ["sendMessages", "scheduleMessages", "createMessageBatch"]) plain[name] = sender[name].bind(sender);
  const given = (messages) => (Array.isArray(messages) ? messages.map((m) => withKey(m, key)) : withKey(messages, key));
  sender.sendMessages = (messages, ...rest) => plain.sendMessages(given(messages), ...rest);
  sender.scheduleMessages = (messages, ...rest) => plain.scheduleMessages(given(messages), ...rest);
  sender.createMessageBatch = async (...args) => {
    const batch = await plain.createMessageBatch(...args);
    const add = batch.tryAddMessage.bind(batch);
    batch.tryAddMessage = (message, ...rest) => add(withKey(message, key), ...rest);
    return batch;
  };
  return sender;
}

/** A message as it is sent. A batch is left as it is: its messages already have keys. */
function withKey(message, key) {
  if (!("body" in message)) return message;
  if (message.bodyType !== undefined) return { ...message, messageAnnotations: { "x-opt-partition-key": key, ...message.messageAnnotations } };
  return message.sessionId === undefined && message.partitionKey === undefined ? Object.assign(Object.create(Object.getPrototypeOf(message)), message, { partitionKey: key }) : message;
}

/** Reports whether messages can be in one batch: a partitioned entity takes no batch with several sessions (SM-209, semantics.md 10.2). */
export const together = (one, other) => one.sessionId === other.sessionId;
