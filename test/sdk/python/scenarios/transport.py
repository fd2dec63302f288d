"""Ways to the broker other than AMQP over plain TCP."""

from azure.servicebus import TransportType

from . import expect
from .bus import Bus, Client, message, seconds, states
from .scenario import scenario


@scenario("connection-tls")
def tls(bus: Bus):
    everything(bus.over(TransportType.Amqp))


@scenario("connection-websocket")
def websocket(bus: Bus):
    everything(bus.over(TransportType.AmqpOverWebsocket))


def everything(client: Client):
    one, grouped, sender = client.subscription("one"), client.subscription("grouped"), client.sender()
    sender.send("A", session_id="s", application_properties={"colour": "red"})
    sender.send_batch([message(body, session_id="s") for body in "BCDE"])
    receiver = one.receiver()
    a, b, c, d = receiver.take("A", "B", "C", "D", count=0)
    receiver.complete(a)
    receiver.abandon(b)
    receiver.defer(c)
    receiver.dead_letter(d, "reason")
    again, e = receiver.take("B", count=1), receiver.take("E", count=0)
    before = e.locked_until_utc
    renewed = receiver.renew(e)
    expect.holds(renewed > before, f"locked until {renewed}, {before} before")
    receiver.complete(again, e)

    expect.equal(states(one.peek_all()), ["C deferred"], "peek all")
    (by_number,) = receiver.take_deferred(c.sequence_number)
    receiver.complete(by_number)
    dead = one.dead_letters()
    dead_d = dead.take("D")
    expect.equal(dead_d.dead_letter_reason, "reason", "reason")
    dead.complete(dead_d)
    one.empty()

    (x,) = sender.schedule(expect.now() + seconds(3600), "X", session_id="s")
    sender.cancel(x)
    at = expect.now() + seconds(2)
    sender.schedule(at, "F", session_id="s")
    f = receiver.take("F")
    expect.at_once(at, "F")
    large = "L" * 200_000
    sender.send(large, session_id="s")
    receiver.complete(f, receiver.take(large))
    one.empty()

    s = grouped.session("s")
    s.set_state(b"state")
    expect.equal(bytes(s.state()), b"state", "state")
    s.complete(*s.take("A", "B", "C", "D", "E", "F", large))
    s.nothing()

    red = client.subscription("red").receiver()
    red.complete(red.take("A"))
    red.nothing()
