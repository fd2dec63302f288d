"""The verbs of scenarios.json, over the SDK: what a scenario does is said with a Bus and what it hands out."""

import functools
import itertools
import json
import os
import re
import threading
import time
import typing
import urllib.request
from datetime import datetime, timedelta

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
    TransportType,
    exceptions as sdk,
)
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from . import expect

PATIENCE = 20  # seconds that a receive, or a stubborn call, may take

# No retries; in exclusive scenarios many with short pauses. An attempt that hangs ends after try_timeout.
ONCE = {"retry_total": 0, "try_timeout": 20}
STUBBORN = {"retry_total": 100, "retry_mode": "fixed", "retry_backoff_factor": 0.1, "try_timeout": 5}

# What the SDK says for want of a connection. OperationTimeoutError: of a link that did not open in time.
CONNECTION = (sdk.ServiceBusConnectionError, sdk.ServiceBusCommunicationError, sdk.OperationTimeoutError)


class Task(threading.Thread):
    """A call that goes on beside the scenario."""

    def __init__(self, call, *args, **kwargs):
        super().__init__(daemon=True)
        self._call = lambda: call(*args, **kwargs)
        self._value, self._error = None, None
        self.ended: datetime | None = None
        self.start()

    def run(self):
        try:
            self._value = self._call()
        except BaseException as e:
            self._error = e
        self.ended = expect.now()

    def result(self, within: float = 2 * PATIENCE):
        self.join(within)
        expect.holds(not self.is_alive(), f"a call has not ended after {within} s more")
        if self._error:
            raise self._error
        return self._value


class Handle:
    """A sender or receiver of the SDK that calls again for want of a connection if its client is stubborn."""

    def __init__(self, client: "Client", sdk_object):
        self.client, self.sdk = client, sdk_object
        client.handles.append(self)

    def call(self, method, *args, **kwargs):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return method(*args, **kwargs)
            except CONNECTION:
                if not self.client.stubborn or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def close(self):
        self.sdk.close()


class Sender(Handle):
    """A sender. Where entities are partitioned, it gives messages without a key of their own one of the scenario's: what the scenarios say of the order of
    messages holds only within one partition. That messages without a key go to all partitions is shown elsewhere (SM-200, SM-213)."""

    def keyed(self, message):
        key = self.client.key
        if key is None:
            return message
        if isinstance(message, AmqpAnnotatedMessage):
            message.annotations = {"x-opt-partition-key": key, **(message.annotations or {})}
        elif isinstance(message, ServiceBusMessage) and message.session_id is None and message.partition_key is None:
            message.partition_key = key
        return message

    def send(self, *bodies: str | bytes, **properties) -> None:
        """Sends messages one after another, each with the properties, which have the names of ServiceBusMessage."""
        for body in bodies:
            self.send_message(ServiceBusMessage(body, **properties))

    def send_message(self, message) -> None:
        messages = [self.keyed(m) for m in message] if isinstance(message, list) else self.keyed(message)
        self.call(self.sdk.send_messages, messages)

    def send_batch(self, messages: list) -> None:
        """Sends messages in one batch. An error if they are too large for one."""
        batch = self.call(self.sdk.create_message_batch)
        for message in messages:
            batch.add_message(self.keyed(message))
        self.call(self.sdk.send_messages, batch)

    def send_batches(self, messages: list, size: int = 100) -> None:
        """Sends messages in batches. A partitioned entity takes no batch with several sessions (SM-209, semantics.md 10.2)."""
        together = (lambda m: m.session_id) if self.client.key is not None else (lambda m: None)
        for _, some in itertools.groupby(messages, together):
            some = list(some)
            for i in range(0, len(some), size):
                self.send_batch(some[i : i + size])

    def schedule(self, at: datetime, *texts: str, **properties) -> list[int]:
        """Schedules messages in one call and returns their numbers."""
        messages = [self.keyed(ServiceBusMessage(text, **properties)) for text in texts]
        return self.call(self.sdk.schedule_messages, messages, at)

    def cancel(self, number: int) -> None:
        self.call(self.sdk.cancel_scheduled_messages, number)


class Receiver(Handle):
    """A receiver with an open link. The SDK opens it with the first call otherwise, in the time that this call has."""

    def __init__(self, client: "Client", sdk_object):
        super().__init__(client, sdk_object)
        self.call(sdk_object.__enter__)

    def receive_some(self, most: int, wait: float) -> list[ServiceBusReceivedMessage]:
        """One receive call."""
        return self.call(self.sdk.receive_messages, max_message_count=most, max_wait_time=wait)

    def receive(self, n: int) -> list[ServiceBusReceivedMessage]:
        """Receives n messages with as many calls as that takes."""
        messages, end = [], time.monotonic() + PATIENCE
        while len(messages) < n:
            left = end - time.monotonic()
            expect.holds(left > 0, f"expected {n} messages within {PATIENCE} s, saw {texts(messages)}")
            messages += self.receive_some(n - len(messages), left)
        return messages

    def take(self, *expected: str, count: int | None = None):
        """Receives messages with these texts, in this order, with that count if one is named; one is returned as such."""
        messages = self.receive(len(expected))
        self.is_taken(messages, expected, count)
        return messages[0] if len(messages) == 1 else messages

    @staticmethod
    def is_taken(messages, expected, count: int | None) -> None:
        expect.equal(texts(messages), list(expected), "received")
        for message in messages:
            if count is not None:
                expect.equal(message.delivery_count, count, f"count of {text(message)}")

    def nothing(self) -> None:
        expect.equal(texts(self.receive_some(1, 0.5)), [], "received")

    def take_deferred(self, *numbers: int) -> list[ServiceBusReceivedMessage]:
        """Receives by number, in one call."""
        return self.call(self.sdk.receive_deferred_messages, list(numbers))

    def peek(self, most: int, number: int = 0) -> list[ServiceBusReceivedMessage]:
        """One page, from a number or from where the last page ended."""
        return self.call(self.sdk.peek_messages, most, sequence_number=number)

    def peek_all(self, size: int = 100) -> list[ServiceBusReceivedMessage]:
        messages, page = [], self.peek(size, number=1)
        while page:
            messages += page
            page = self.peek(size)
        return messages

    def complete(self, *messages) -> None:
        for message in messages:
            self.call(self.sdk.complete_message, message)

    def abandon(self, *messages) -> None:
        for message in messages:
            self.call(self.sdk.abandon_message, message)

    def defer(self, *messages) -> None:
        for message in messages:
            self.call(self.sdk.defer_message, message)

    def dead_letter(self, message, reason=None, description=None) -> None:
        self.call(self.sdk.dead_letter_message, message, reason=reason, error_description=description)

    def renew(self, message) -> datetime:
        return self.call(self.sdk.renew_message_lock, message)


class SessionReceiver(Receiver):
    """A receiver that holds a session."""

    @property
    def id(self) -> str:
        return self.sdk.session.session_id

    @property
    def locked_until(self) -> datetime:
        return self.sdk.session.locked_until_utc

    def renew_session(self) -> datetime:
        return self.call(self.sdk.session.renew_lock)

    def state(self) -> bytes | None:
        return self.call(self.sdk.session.get_state)

    def set_state(self, state: bytes | None) -> None:
        self.call(self.sdk.session.set_state, state)


class Source:
    """What messages are received from: a queue or subscription, as a client sees it."""

    def __init__(self, client: "Client", make: typing.Callable):
        self._client, self._make = client, make  # make has the SDK make a receiver with some options

    def receiver(self, **options) -> Receiver:
        return Receiver(self._client, self._make(**options))

    def deleting(self, **options) -> Receiver:
        """A receiver in receive-and-delete mode."""
        return self.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, **options)

    def dead_letters(self) -> Receiver:
        return self.receiver(sub_queue=ServiceBusSubQueue.DEAD_LETTER)

    def session(self, id: str) -> SessionReceiver:
        """Accepts a session."""
        return SessionReceiver(self._client, self._make(session_id=id))

    def next_session(self, wait: float = 10) -> SessionReceiver:
        """Accepts the next session that is free."""
        return SessionReceiver(self._client, self._make(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=wait))

    def nothing(self) -> None:
        """A new receiver gets nothing. It is closed, because the SDK leaves the credit of a call that got nothing behind."""
        receiver = self.receiver()
        receiver.nothing()
        receiver.close()

    def peek_all(self, dead_letters: bool = False) -> list[ServiceBusReceivedMessage]:
        receiver = self.dead_letters() if dead_letters else self.receiver()
        messages = receiver.peek_all()
        Task(receiver.close)  # nothing waits for it
        return messages

    def peek_texts(self) -> list[str]:
        return texts(self.peek_all())

    def sorted(self, messages, order=lambda m: text(m)):
        """Messages in the order in which they were sent: where entities are partitioned, only those of one session, or only those of none, are received in that order."""
        return messages if self._client.key is None else sorted(messages, key=order)

    def empty(self) -> None:
        """Peek all is empty."""
        expect.equal(self.peek_texts(), [], "peek all")

    def no_dead_letters(self) -> None:
        """Dead letters are empty: not even a locked or deferred one is there."""
        expect.equal(texts(self.peek_all(dead_letters=True)), [], "dead letters")

    def consume(self, *expected: str, count: int | None = None) -> list[ServiceBusReceivedMessage]:
        """Receives messages with these texts, in this order, with a receiver of its own, and completes them."""
        receiver = self.receiver()
        received = receiver.receive(len(expected))
        receiver.is_taken(received, expected, count)
        receiver.complete(*received)
        Task(receiver.close)
        return received


class Client(Source):
    """A client object of the SDK, and the queue or topic of the scenario. What it is asked of a source is asked of the queue."""

    def __init__(self, name: str, connection_string: str, stubborn: bool = False, topic: bool = False, key: str | None = None, **options):
        self.name, self.connection_string, self.stubborn, self._topic = name, connection_string, stubborn, topic
        self.key = key  # of messages that have none; None: entities are not partitioned
        retries = STUBBORN if stubborn else ONCE
        self.sdk = ServiceBusClient.from_connection_string(connection_string, **retries, **options)
        self.handles: list[Handle] = []
        self._sender: Sender | None = None
        super().__init__(self, functools.partial(self.sdk.get_queue_receiver, name))

    def queue(self, name: str) -> Source:
        """Another queue, or something else that is used as if it were one."""
        return Source(self, functools.partial(self.sdk.get_queue_receiver, name))

    def subscription(self, name: str, topic: str | None = None) -> Source:
        return Source(self, functools.partial(self.sdk.get_subscription_receiver, topic or self.name, name))

    def sender(self, queue: str | None = None) -> Sender:
        if queue is None and self._topic:
            return self.topic_sender(self.name)
        return Sender(self, self.sdk.get_queue_sender(queue or self.name))

    def topic_sender(self, topic: str) -> Sender:
        return Sender(self, self.sdk.get_topic_sender(topic))

    def send(self, *bodies: str | bytes, **properties) -> None:
        """Sends with one sender for all calls."""
        self._sender = self._sender or self.sender()
        self._sender.send(*bodies, **properties)

    def send_message(self, message) -> None:
        self._sender = self._sender or self.sender()
        self._sender.send_message(message)

    def warm_up(self, *receivers: Receiver) -> None:
        """Opens the links before the clock runs."""
        self.send("O")
        for receiver in receivers:
            receiver.complete(receiver.take("O"))

    def close(self) -> None:
        """Closes all handles at the same time: each waits up to a second for a thread of its own."""
        for task in [Task(h.close) for h in self.handles]:
            task.join(10)
        self.sdk.close()


class Bus(Client):
    """What a scenario is called with: its client, and the ways to more clients and to the broker itself."""

    def __init__(self, name: str, connection_string: str, control: str, stubborn: bool, topic: bool, partitioned: bool):
        super().__init__(name, connection_string, stubborn, topic, name if partitioned else None)
        self._control = control
        self._others: list[Client] = []
        self._admins: list[ServiceBusAdministrationClient] = []

    def another(self, connection_string: str | None = None, stubborn: bool | None = None) -> Client:
        """A second client, with connections of its own, stubborn if this is unless said otherwise."""
        stubborn = self.stubborn if stubborn is None else stubborn
        other = Client(self.name, connection_string or self.connection_string, stubborn, self._topic, self.key)
        self._others.append(other)
        return other

    def over(self, transport: TransportType) -> Client:
        """A client that speaks TLS, and in it AMQP or a WebSocket. The SDK drops the port of the connection string."""
        connection_string = os.environ["LEDGERBUS_TLS_CONNECTION_STRING"]
        address = re.search("Endpoint=([^;]*)", connection_string).group(1)
        other = Client(
            self.name, connection_string, self.stubborn, self._topic, self.key,
            transport_type=transport, custom_endpoint_address=address, connection_verify=os.environ["LEDGERBUS_CA"],
        )
        self._others.append(other)
        return other

    def with_key(self, name: str, key: str) -> Client:
        """A client that shows another key than the rest of the suite."""
        return self.another(replace_key(self.connection_string, name, key))

    @functools.cached_property
    def admin(self) -> ServiceBusAdministrationClient:
        return self._administration(os.environ["LEDGERBUS_TLS_CONNECTION_STRING"])

    def admin_with_key(self, name: str, key: str) -> ServiceBusAdministrationClient:
        return self._administration(replace_key(os.environ["LEDGERBUS_TLS_CONNECTION_STRING"], name, key))

    def _administration(self, connection_string: str) -> ServiceBusAdministrationClient:
        retries = {"retry_total": 5, "retry_backoff_factor": 0.1} if self.stubborn else {"retry_total": 0}
        client = ServiceBusAdministrationClient.from_connection_string(
            connection_string, connection_verify=os.environ["LEDGERBUS_CA"], **retries
        )
        self._admins.append(client)
        if self.key is not None:
            for name in ("create_queue", "create_topic"):
                setattr(client, name, functools.partial(getattr(client, name), enable_partitioning=True))
        return client

    def no_session_left(self, subscription: str | None = None) -> None:
        """What an empty peek is in a queue or subscription with sessions, where a receiver needs one."""
        handles = [h for client in (self, *self._others) for h in client.handles]
        for task in [Task(h.close) for h in handles if isinstance(h, SessionReceiver)]:
            task.result()
        once = self.another(stubborn=False)  # a stubborn client takes the time-out for a lost connection
        source = once.subscription(subscription) if subscription else once
        expect.error("no-session", source.next_session, wait=1)

    def kill(self, changes: dict | None = None) -> None:
        """Kills the broker and has it started again; changes are properties by queue."""
        self._post("/kill", changes)

    def restart(self, settings: dict | None = None) -> None:
        """Stops the broker in order and has it started again, with settings until its next start."""
        self._post("/restart", settings)

    def relay(self, source: str, target: str) -> None:
        """Has another SDK receive a message from a queue and send it to another one as it was received."""
        self._post("/relay", {"from": source, "to": target})

    def cut(self) -> int:
        """Resets all connections, and says how many there were."""
        return self._post("/cut")["connections"]

    def _post(self, path: str, body=None) -> dict:
        data = json.dumps(body).encode() if body else b""
        with urllib.request.urlopen(urllib.request.Request(self._control + path, data), timeout=60) as response:
            return json.load(response)

    def close(self) -> None:
        for task in [Task(c.close) for c in (*self._others, *self._admins)] + [Task(super().close)]:
            task.join(20)


def replace_key(connection_string: str, name: str, key: str) -> str:
    with_name = re.sub("SharedAccessKeyName=[^;]*", f"SharedAccessKeyName={name}", connection_string)
    return re.sub("SharedAccessKey=[^;]*", f"SharedAccessKey={key}", with_name)


def message(body, **properties) -> ServiceBusMessage:
    return ServiceBusMessage(body, **properties)


def content(message) -> bytes:
    """The bytes of a message of data sections."""
    return b"".join(message.body)


def text(message) -> str:
    return content(message).decode(errors="backslashreplace")  # a failure shows bodies that are no text, too


def texts(messages) -> list[str]:
    return [text(m) for m in messages]


def states(messages) -> list[str]:
    """Text and state of each: "A active"."""
    return [f"{text(m)} {m.state.name.lower()}" for m in messages]


def properties(message) -> dict:
    """Application properties. The SDK has keys and texts in bytes."""
    read = lambda v: v.decode() if isinstance(v, bytes) else v
    return {read(k): read(v) for k, v in (message.application_properties or {}).items()}


def numbers(messages) -> list[int]:
    return [m.sequence_number for m in messages]


def low_part(number: int) -> int:
    """A number without its partition, which is none on a plain entity: what counts from 1 (semantics.md 10.3)."""
    return number & (1 << 48) - 1


def low_parts(messages) -> list[int]:
    return [low_part(m.sequence_number) for m in messages]


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)
