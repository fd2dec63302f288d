"""What a scenario works with: one connection of Proton's, with calls that wait, and the words of scenarios.json as methods."""

import base64
import hashlib
import hmac
import os
import ssl
import time
import urllib.parse
import urllib.request

from proton import Delivery, Message, int32, symbol, timestamp
from proton.handlers import TransactionHandler
from proton.reactor import Filter, SenderOption
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender

PATIENCE = 20  # seconds
SHORT = 0.5  # seconds, within which what is there arrives

TRANSACTIONAL = 0x34  # amqp:transactional-state:list
ACCEPTED = 0x24


def parts(connection_string: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in connection_string.split(";") if part)


class Transaction(TransactionHandler):
    """A transaction, and what the broker said of it."""

    def __init__(self, bus: "Bus"):
        self.bus, self.outcome, self.error, self.accepted = bus, "", "", []
        self.transaction = bus.connection.container.declare_transaction(bus.connection.conn, handler=self)
        bus.wait(lambda: self.outcome, "declare")
        assert self.outcome == "declared", f"declare: {self.outcome}"

    def on_transaction_declared(self, event):
        self.outcome = "declared"

    def on_transaction_declare_failed(self, event):
        self.outcome = "not declared"

    def on_transaction_committed(self, event):
        self.outcome = "committed"

    def on_transaction_commit_failed(self, event):
        self.outcome, self.error = "commit failed", str(event.delivery.remote.condition)

    def on_transaction_aborted(self, event):
        self.outcome = "aborted"

    def commit(self) -> None:
        """Commits, which settles what was accepted."""
        self.transaction.commit()
        self.ends("committed")
        assert all(delivery.settled for delivery in self.accepted), "a commit leaves deliveries unsettled"

    def abort(self) -> None:
        self.transaction.abort()
        self.ends("aborted")

    def ends(self, outcome: str) -> None:
        self.bus.wait(lambda: self.outcome != "declared", outcome)
        assert self.outcome == outcome, f"want {outcome}, got {self.outcome}: {self.error}"

    def send(self, sender: BlockingSender, *messages: Message) -> None:
        """Sends messages in the transaction, each answered with an outcome that is the transaction's."""
        for message in messages:
            self.bus.wait(lambda: sender.link.credit, "credit")
            delivery = self.transaction.send(sender.link, message)
            self.bus.wait(lambda: delivery.settled, "the outcome of a send")
            assert delivery.remote_state == TRANSACTIONAL, f"outcome {delivery.remote_state}"
            outcome = delivery.remote.data
            assert outcome[0] == self.transaction.id and outcome[1].descriptor == ACCEPTED, f"outcome {outcome}"
            delivery.settle()

    def refused(self, sender: BlockingSender, message: Message) -> str:
        """Sends a message in the transaction, and returns why it was refused."""
        self.bus.wait(lambda: sender.link.credit, "credit")
        delivery = self.transaction.send(sender.link, message)
        self.bus.wait(lambda: delivery.settled, "the outcome of a send")
        assert delivery.remote_state == Delivery.REJECTED, f"outcome {delivery.remote_state}"
        refusal = str(delivery.remote.condition)
        delivery.settle()
        return refusal

    def accept(self, *deliveries: Delivery) -> None:
        """Accepts deliveries in the transaction. The broker says the same, and settles nothing yet."""
        for delivery in deliveries:
            self.transaction.accept(delivery)
            self.bus.wait(lambda: delivery.remote_state == TRANSACTIONAL, "the outcome of a settlement")
            assert delivery.remote.data[1].descriptor == ACCEPTED, f"outcome {delivery.remote.data}"
            assert not delivery.settled, "settled before the commit"
            self.accepted.append(delivery)


class ViaOption(SenderOption):
    """Makes a sender's messages go to another entity through the one it is attached to."""

    def __init__(self, destination: str):
        self.destination = destination

    def apply(self, sender) -> None:
        sender.properties = {symbol("com.microsoft:transfer-destination-address"): self.destination}


class Bus:
    """A connection, logged in with the name and the key of an authorization rule."""

    def __init__(self, id: str):
        self.queue, self.senders = id, 0
        settings = parts(os.environ["LEDGERBUS_CONNECTION_STRING"])
        address = urllib.parse.urlsplit(settings["Endpoint"]).netloc
        self.connection = BlockingConnection(
            f"amqp://{address}", user=settings["SharedAccessKeyName"], password=settings["SharedAccessKey"], allowed_mechs="PLAIN",
            timeout=PATIENCE,
        )

    def close(self) -> None:
        self.connection.close()

    def wait(self, until, what: str) -> None:
        self.connection.wait(until, timeout=PATIENCE, msg=what)

    def begin(self) -> Transaction:
        return Transaction(self)

    def sender(self, address: str | None = None, options: SenderOption | None = None) -> BlockingSender:
        self.senders += 1  # Proton names a link by its address alone, and names must differ
        return self.connection.create_sender(address or self.queue, name=f"sender-{self.senders}", options=options)

    def receiver(self, address: str | None = None, session: str | None = None) -> BlockingReceiver:
        options = Filter({symbol("com.microsoft:session-filter"): session}) if session else None
        return self.connection.create_receiver(address or self.queue, credit=0, options=options)

    def take(self, receiver: BlockingReceiver, text: str) -> Delivery:
        """Receives a message of this text, no delivery of which has failed, and leaves it unsettled."""
        receiver.link.flow(1 - receiver.link.credit)
        self.wait(lambda: receiver.fetcher.has_message, f"receive {text}")
        message = receiver.fetcher.pop()
        assert body(message) == text, f"want {text}, got {message.body}"
        assert message.delivery_count == 0, f"{text} has the delivery count {message.delivery_count}"
        return receiver.fetcher.unsettled.pop()

    def nothing(self, receiver: BlockingReceiver) -> None:
        receiver.link.drain(1)
        self.wait(lambda: not receiver.link.draining() or receiver.link.drained() or not receiver.link.credit, "drain")
        assert not receiver.fetcher.has_message, "received where nothing should be"

    def consume(self, *texts: str, address: str | None = None) -> None:
        """Receives messages of these texts for good, and then nothing."""
        receiver = self.receiver(address)
        for text in texts:
            delivery = self.take(receiver, text)
            delivery.update(Delivery.ACCEPTED)
            self.wait(lambda: delivery.settled, "the outcome of a settlement")
            delivery.settle()
        self.nothing(receiver)
        receiver.close()

    def create_queue(self, name: str) -> None:
        """Makes a queue by the management API, which Proton knows nothing of."""
        settings = parts(os.environ["LEDGERBUS_TLS_CONNECTION_STRING"])
        url = f"https://{urllib.parse.urlsplit(settings['Endpoint']).netloc}/{name}"
        entry = (
            '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
            '<QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>'
        )
        request = urllib.request.Request(f"{url}?api-version=2021-05", entry.encode(), method="PUT", headers={
            "Authorization": token(url, settings["SharedAccessKeyName"], settings["SharedAccessKey"]),
            "Content-Type": "application/atom+xml",
        })
        context = ssl.create_default_context(cafile=os.environ["LEDGERBUS_CA"])
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as answer:
            assert answer.status == 201, answer.status


def token(url: str, name: str, key: str) -> str:
    resource, expiry = urllib.parse.quote_plus(url), int(time.time()) + 600
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = urllib.parse.quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={name}"


class Management:
    """Requests to the management node of an entity, which may be part of a transaction."""

    def __init__(self, bus: Bus, entity: str | None = None):
        self.bus, self.node = bus, f"{entity or bus.queue}/$management"
        self.requests, self.answers = bus.sender(self.node), bus.receiver(self.node)
        self.answers.link.flow(10)
        self.sent = 0

    def ask(self, operation: str, body: dict, transaction: Transaction | None = None) -> Message:
        self.sent += 1
        request = Message(
            body=body, id=str(self.sent), reply_to=f"{self.bus.queue}-answers", properties={"operation": f"com.microsoft:{operation}"},
        )
        if transaction:
            transaction.send(self.requests, request)
        else:
            self.requests.send(request)
        self.bus.wait(lambda: self.answers.fetcher.has_message, f"the answer to {operation}")
        answer = self.answers.fetcher.pop()
        status = answer.properties["statusCode"]
        assert status in (200, 202, 204), f"{operation}: {status} {answer.properties.get('statusDescription')}"
        return answer

    def schedule(self, text: str, seconds: float, transaction: Transaction | None = None) -> int:
        message = Message(body=text, id=text)
        message.annotations = {symbol("x-opt-scheduled-enqueue-time"): timestamp(int((time.time() + seconds) * 1000))}
        entry = {"message-id": text, "message": message.encode()}
        return self.ask("schedule-message", {"messages": [entry]}, transaction).body["sequence-numbers"].elements[0]

    def peeked(self) -> list[str]:
        answer = self.ask("peek-message", {"from-sequence-number": 0, "message-count": int32(100)})
        if answer.properties["statusCode"] == 204:
            return []
        messages = []
        for entry in answer.body["messages"]:
            message = Message()
            message.decode(bytes(entry["message"]))
            messages.append(body(message))
        return messages

    def peeks(self, *texts: str) -> None:
        assert self.peeked() == list(texts), f"peek all: want {texts}, got {self.peeked()}"


def body(message: Message) -> str:
    return bytes(message.body).decode() if isinstance(message.body, (bytes, memoryview)) else message.body
