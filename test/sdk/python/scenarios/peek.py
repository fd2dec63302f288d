"""Peek."""

import os

from . import expect
from .bus import Bus, content, message, numbers, seconds, states, texts
from .scenario import scenario


@scenario("peek-states")
def peek_states(bus: Bus):
    bus.empty()
    bus.send("L", "D", "A")
    bus.sender().schedule(expect.now() + seconds(3600), "S")
    receiver = bus.receiver()
    locked, d = receiver.take("L", "D")
    receiver.defer(d)
    for _ in range(2):
        peeked = bus.peek_all()
        expect.equal(states(peeked), ["L active", "D deferred", "A active", "S scheduled"], "peek all")
        expect.equal(numbers(peeked), sorted(set(numbers(peeked))), "numbers")
        expect.equal([m.delivery_count for m in peeked], [0, 1, 0, 0], "counts")
        expect.equal([(m.lock_token, m.locked_until_utc) for m in peeked], [(None, None)] * 4, "locks")
    receiver.complete(locked)
    receiver.take("A", count=0)


@scenario("peek-pages")
def pages(bus: Bus):
    sent = [str(i) for i in range(230)]
    bus.sender().send_batches([message(text) for text in sent])
    receiver, seen = bus.receiver(), []
    while page := receiver.peek(50):
        expect.holds(len(page) <= 50, f"a page of {len(page)}")
        seen += page
    expect.equal(texts(seen), sent, "peeked")
    expect.equal(texts(receiver.peek(2, seen[100].sequence_number)), ["100", "101"], "from the number of 100")
    expect.equal(texts(receiver.peek(2, seen[229].sequence_number + 1)), [], "behind the last")


@scenario("peek-large")
def large(bus: Bus):
    sent = [os.urandom(204_800) for _ in range(12)]
    for i, body in enumerate(sent):
        bus.send(body, subject=str(i))
    receiver, pages, number = bus.receiver(), [], 1
    while page := receiver.peek(100, number):
        pages.append(page)
        number = page[-1].sequence_number + 1
    seen = sum(pages, [])
    expect.equal([m.subject for m in seen], [str(i) for i in range(12)], "subjects")
    expect.holds([content(m) for m in seen] == sent, "the bytes are not those sent")
    expect.holds(len(pages[0]) < 12, "the first page has them all")
