"""What scenarios demand. A demand that is not met raises Unmet, which says what was expected and what was seen."""

import time
from datetime import datetime, timedelta, timezone

from azure.core import exceptions as http
from azure.servicebus import exceptions as sdk

# What the list calls "at once".
AT_ONCE = timedelta(seconds=3)

# The kinds of errors that scenarios.json explains under "errors": the class and a text that the message must have.
KINDS = {
    "lock-lost": (sdk.MessageLockLostError, ""),
    "session-lock-lost": (sdk.SessionLockLostError, ""),
    "session-held": (sdk.SessionCannotBeLockedError, ""),
    "no-session": (sdk.OperationTimeoutError, ""),
    "message-not-found": (sdk.MessageNotFoundError, ""),
    # The SDK makes ServiceBusAuthenticationError of any refusal of a token and drops its text.
    "entity-not-found": ((sdk.MessagingEntityNotFoundError, sdk.ServiceBusAuthenticationError), ""),
    "disabled": (sdk.MessagingEntityDisabledError, ""),
    "queue-full": (sdk.ServiceBusQuotaExceededError, ""),
    "too-large": (sdk.MessageSizeExceededError, ""),
    "not-allowed": (sdk.ServiceBusError, "amqp:not-allowed"),
    "unauthorized": ((sdk.ServiceBusAuthenticationError, sdk.ServiceBusAuthorizationError), ""),
    "argument": (sdk.ServiceBusError, "com.microsoft:argument-error"),
    "no-match": (sdk.ServiceBusError, "com.microsoft:no-matching-subscription"),
}

# Those of the administration client: the class and the status.
ADMIN_KINDS = {
    "admin-exists": (http.ResourceExistsError, 409),
    "admin-missing": (http.ResourceNotFoundError, None),  # the SDK raises it too for a feed in place of the entity
    "admin-bad-request": (http.HttpResponseError, 400),
    "admin-unauthorized": (http.HttpResponseError, 401),
}


class Unmet(AssertionError):
    """A demand that was not met."""


def now() -> datetime:
    return datetime.now(timezone.utc)


def wait_until(at: datetime) -> None:
    time.sleep(max(0.0, (at - now()).total_seconds()))


def outlive(at: datetime) -> None:
    """Waits until 100 ms after a time. Broker and suite share a clock."""
    wait_until(at + timedelta(milliseconds=100))


def holds(condition, what: str) -> None:
    if not condition:
        raise Unmet(what)


def equal(seen, expected, what: str) -> None:
    if seen != expected:
        raise Unmet(f"{what}: expected {short(expected)}, saw {short(seen)}")


def near(seen: datetime | None, expected: datetime, seconds: float, what: str) -> None:
    """A time is as expected, give or take some seconds."""
    if seen is None or abs((seen - expected).total_seconds()) > seconds:
        raise Unmet(f"{what}: expected {expected} ± {seconds} s, saw {seen}")


def between(begin: datetime, end: datetime, what: str, at: datetime | None = None) -> None:
    """Now, or a time that was noted, is between two others."""
    at = at or now()
    if not begin <= at <= end:
        raise Unmet(f"{what}: expected between {begin} and {end}, was at {at}")


def at_once(since: datetime, what: str, at: datetime | None = None) -> None:
    """Now, or a time that was noted, is no earlier than another and at once then."""
    between(since, since + AT_ONCE, what, at)


def within(seconds: float, since: datetime, what: str) -> None:
    between(since, since + timedelta(seconds=seconds), what)


def error(kind: str, call, *args, text: str = "", **kwargs) -> None:
    """The call fails with an error of that kind, whose message has the text."""
    classes, always = KINDS[kind]
    message = failure(classes, call, *args, **kwargs)
    for part in (always, text):
        if part not in message:
            raise Unmet(f"error {kind}: expected the text {part!r}, saw {message!r}")


def admin_error(kind: str, call, *args, text: str = "", **kwargs) -> None:
    """The same, of a call of the administration client."""
    expected, status = ADMIN_KINDS[kind]
    e = caught(expected, call, *args, **kwargs)
    if status and e.status_code != status:
        raise Unmet(f"error {kind}: expected the status {status}, saw {e.status_code}: {e}")
    if text not in str(e):
        raise Unmet(f"error {kind}: expected the text {text!r}, saw {str(e)!r}")


def failure(classes, call, *args, **kwargs) -> str:
    """The call fails with an error of that class, or of one of those; returns its message."""
    return str(caught(classes, call, *args, **kwargs))


def caught(classes, call, *args, **kwargs) -> Exception:
    try:
        result = call(*args, **kwargs)
    except classes as e:
        return e
    except Exception as e:
        raise Unmet(f"expected {names(classes)}, saw {type(e).__name__}: {e}") from e
    raise Unmet(f"expected {names(classes)}, saw no error, and {short(result)}")


def names(classes) -> str:
    return " or ".join(c.__name__ for c in (classes if isinstance(classes, tuple) else (classes,)))


def short(value) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]} … ({len(text)} characters)"
