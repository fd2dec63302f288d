"""The scenarios, by id."""

from proton import Array, Data, Message, UNDESCRIBED
from proton.utils import LinkDetached

from .bus import Bus, Management, ViaOption


def messages(*texts: str) -> list[Message]:
    return [Message(body=text, id=text) for text in texts]


def longs(*numbers: int) -> Array:
    return Array(UNDESCRIBED, Data.LONG, *numbers)


def send(bus: Bus) -> None:
    sender, management = bus.sender(), Management(bus)
    transaction = bus.begin()
    transaction.send(sender, *messages("A", "B"))
    management.peeks()
    transaction.commit()
    management.peeks("A", "B")
    transaction = bus.begin()
    transaction.send(sender, *messages("X"))
    transaction.abort()
    bus.consume("A", "B")


def receive(bus: Bus) -> None:
    sender, management = bus.sender(), Management(bus)
    for message in messages("A", "B"):
        sender.send(message)
    receiver = bus.receiver()
    transaction = bus.begin()
    transaction.accept(bus.take(receiver, "A"), bus.take(receiver, "B"))
    management.peeks("A", "B")
    transaction.abort()
    transaction = bus.begin()
    transaction.accept(bus.take(receiver, "A"), bus.take(receiver, "B"))
    transaction.commit()
    management.peeks()


def coordinator_first(bus: Bus) -> None:
    second = bus.queue + "-b"
    bus.create_queue(second)
    transaction = bus.begin()  # before any link: from here on all is one group
    sender = bus.sender()
    transaction.send(sender, *messages("A"))
    transaction.commit()
    receiver = bus.receiver()
    transaction = bus.begin()
    transaction.accept(bus.take(receiver, "A"))
    transaction.send(bus.sender(second), *messages("B"))
    transaction.commit()
    try:
        bus.receiver(second)
        raise AssertionError("a receiver of a second entity is not refused")
    except LinkDetached as e:
        assert e.condition == "amqp:not-allowed", e.condition
        assert "Local transactions cannot span multiple top-level entities such as queue or topic." in str(e), e
    other = Bus(bus.queue)
    try:
        other.consume("B", address=second)
        other.consume()
    finally:
        other.close()


def via(bus: Bus) -> None:
    second = bus.queue + "-b"
    bus.create_queue(second)
    plain = bus.sender()
    plain.send(*messages("A"))
    receiver, sender, management = bus.receiver(), bus.sender(options=ViaOption(second)), Management(bus)
    delivery = bus.take(receiver, "A")
    transaction = bus.begin()
    transaction.accept(delivery)
    transaction.send(sender, *messages("X"))
    transaction.abort()
    management.peeks("A")
    delivery = bus.take(receiver, "A")
    transaction = bus.begin()
    transaction.accept(delivery)
    transaction.send(sender, *messages("B"))
    transaction.commit()
    sender.send(*messages("C"))  # without a transaction
    management.peeks()
    bus.consume("B", "C", address=second)


def schedule(bus: Bus) -> None:
    management = Management(bus)
    kept = management.schedule("A", 3600)
    transaction = bus.begin()
    management.schedule("B", 3600, transaction)
    management.ask("cancel-scheduled-message", {"sequence-numbers": longs(kept)}, transaction)
    management.peeks("A")
    transaction.abort()
    management.peeks("A")
    transaction = bus.begin()
    management.schedule("C", 3600, transaction)
    management.ask("cancel-scheduled-message", {"sequence-numbers": longs(kept)}, transaction)
    management.peeks("A")
    transaction.commit()
    management.peeks("C")


def session_state(bus: Bus) -> None:
    receiver, management = bus.receiver(session="s"), Management(bus)

    def state() -> bytes | None:
        answer = management.ask("get-session-state", {"session-id": "s"})  # which owns the bytes
        state = answer.body["session-state"]
        return state if state is None else bytes(state)

    management.ask("set-session-state", {"session-id": "s", "session-state": b"one"})
    transaction = bus.begin()
    management.ask("set-session-state", {"session-id": "s", "session-state": b"two"}, transaction)
    assert state() == b"one", state()
    transaction.abort()
    assert state() == b"one", state()
    transaction = bus.begin()
    management.ask("set-session-state", {"session-id": "s", "session-state": b"three"}, transaction)
    assert state() == b"one", state()
    transaction.commit()
    assert state() == b"three", state()
    receiver.close()


def hundred(bus: Bus) -> None:
    sender, management = bus.sender(), Management(bus)
    transaction = bus.begin()
    transaction.send(sender, *messages(*(str(i) for i in range(100))))
    refusal = transaction.refused(sender, Message(body="101st"))
    assert "Cannot send more than 100 messages in a single transaction" in refusal, refusal
    transaction.transaction.commit()
    transaction.ends("commit failed")
    assert "amqp:transaction:rollback" in transaction.error, transaction.error
    management.peeks()
    other = bus.begin()
    other.transaction.id = transaction.transaction.id
    refusal = other.refused(sender, Message(body="late"))
    assert "The server Transaction timeout is: 00:02:00." in refusal, refusal


def unknown(bus: Bus) -> None:
    sender, management = bus.sender(), Management(bus)
    transaction = bus.begin()
    transaction.send(sender, *messages("A"))
    transaction.commit()
    transaction.outcome = "declared"
    transaction.transaction.commit()
    bus.wait(lambda: transaction.outcome != "declared", "the second commit")
    assert transaction.outcome == "commit failed" and "amqp:transaction:unknown-id" in transaction.error, (transaction.outcome, transaction.error)
    management.peeks("A")


scenarios = {
    "proton-send": send,
    "proton-receive": receive,
    "proton-group": coordinator_first,
    "proton-via": via,
    "proton-schedule": schedule,
    "proton-session-state": session_state,
    "proton-hundred": hundred,
    "proton-unknown": unknown,
}
