"""Reads the records of a frame, and says what is printed of each event: section 8 of docs/log-format.md, and docs/guide/log-dump.md."""

import datetime
import re
import struct

FIRST_BODY = 96  # distance of the first body of a frame from its LSN
FOREVER = (1 << 63) - 1  # a duration without an end, ns
UNIX = 719162 * 86400  # 1970, in seconds since year 1


class Unknown(Exception):
    """Something newer than this reader."""


def crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


TABLE = crc_table()


def crc(data):
    """CRC-32C, as iSCSI and ext4 have it."""
    n = 0xFFFFFFFF
    for b in data:
        n = TABLE[(n ^ b) & 0xFF] ^ n >> 8
    return n ^ 0xFFFFFFFF


def uvarint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


class Bytes:
    """Reads fields, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if n > len(self.data) - self.at:
            raise ValueError(f"{n} bytes wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n:self.at]

    def byte(self):
        return self.take(1)[0]

    def number(self):
        n = shift = 0
        while True:
            b = self.byte()
            n |= (b & 127) << shift
            if b < 128:
                break
            shift += 7
        if n >> 64:
            raise ValueError("a number of more than 64 bits")
        return n

    def bool(self):
        b = self.byte()
        if b > 1:
            raise ValueError(f"{b} is no boolean")
        return b == 1

    def bytes(self):
        return self.take(self.number())

    def count(self, most=1 << 20):
        n = self.number()
        if n > most:
            raise ValueError(f"a list of {n}")
        return range(n)

    def finish(self):
        if self.at != len(self.data):
            raise ValueError(f"{len(self.data) - self.at} bytes behind the end")


def names(first, *words):
    return dict(enumerate(words, first))


ENUMS = {
    "kind": names(1, "Queue", "Topic", "Subscription"),
    "status": names(0, "Active", "Disabled", "SendDisabled", "ReceiveDisabled"),
    "right": names(1, "Manage", "Send", "Listen"),
    "idtype": names(0, "string", "ulong", "uuid", "binary"),
    "cause": names(1, "application", "expired", "max-delivery", "header-size", "session-id-null", "filter-error",
                   "hop-limit"),
    "release": names(1, "closed", "link-lost", "expired", "entity-changed"),
    "basis": names(1, "log", "wall", "catalogue"),
    "stop": names(1, "none", "clean", "killed", "crash", "failed"),
    "role": names(1, "sender", "receiver", "receiver-deleting", "browser"),
    "closed": names(1, "peer", "broker", "connection-lost", "stop"),
    "wanted": names(1, "complete", "abandon", "release", "defer", "dead-letter", "renew"),
    "refusal": names(1, "other", "lock-lost", "session-lost", "disabled", "not-allowed", "invalid", "too-large", "entity-full", "busy",
                     "no-match", "entity-gone"),
    "subqueue": names(0, "main", "dead-letter", "transfer-dead-letter"),
    "trigger": names(1, "forward", "dead-letter", "via"),
    "fence": names(1, "error", "operator"),
    "cut": names(1, "room", "share"),
    "abort": names(1, "rolled-back", "timed-out", "lost", "failed"),
    "relation": names(1, "forwarded", "resubmitted", "replayed"),
    "filter": names(1, "SqlFilter", "TrueFilter", "FalseFilter", "CorrelationFilter"),
    "field": names(1, "CorrelationId", "MessageId", "To", "ReplyTo", "Label", "SessionId", "ReplyToSessionId", "ContentType"),
    "type": names(0, "null", "bool", "int", "long", "double", "decimal", "string", "uuid", "time", "span"),
}

# Name and newest version of every event and its fields, in their order: name:type, and since which version where that is not the first.
# A Text is printed when it is empty too.
KINDS = {
    1: "OriginDefined 1 ID:number Origin:origin",
    2: "EntityCreated 3 EntityKind:kind Path:text HashVersion:byte Hosts:list properties Topic:number:2 KeyHash:byte:3",
    3: "EntityUpdated 2 properties Before:before:2",
    4: "EntityDeleted 2 Reason:text EntityKind:kind:2 Path:text:2 Before:properties:2",
    16: "MessageEnqueued 3 Sequence:number MessageID:text HasSession:session PartitionKey:text TimeToLive:duration EnqueuedAt:time"
        " ExpiresAt:time Batch:number Body:blob InSession:bool:2 IDType:idtype:2 DuplicateUntil:time:2 Details:details:3",
    17: "MessageLocked 1 Sequence:number Token:token LockedUntil:time DeliveryCount:number",
    18: "LockRenewed 1 Sequence:number Token:token LockedUntil:time",
    19: "LockExpired 1 Sequence:number Token:token DeliveryCount:number",
    20: "MessageReleased 1 Sequence:number Token:token",
    21: "MessageAbandoned 1 Sequence:number Token:token DeliveryCount:number Changes:changes",
    22: "MessageCompleted 1 Sequence:number Token:token",
    23: "MessageReceivedAndDeleted 1 Sequence:number",
    24: "MessageDeferred 1 Sequence:number Token:token DeliveryCount:number Changes:changes",
    25: "MessageDeadLettered 2 Sequence:number Token:token Cause:cause Reason:text Description:text Changes:changes"
        " SubQueue:subqueue:2",
    26: "MessageExpired 1 Sequence:number ExpiresAt:time",
    27: "MessageScheduled 2 Sequence:number MessageID:text HasSession:session PartitionKey:text TimeToLive:duration ScheduledFor:time"
        " Batch:number Body:blob InSession:bool IDType:idtype DuplicateUntil:time Details:details:2",
    28: "ScheduledActivated 1 Sequence:number NewSequence:number TimeToLive:duration EnqueuedAt:time ExpiresAt:time",
    29: "ScheduleCancelled 1 Sequence:number",
    30: "DuplicateDropped 2 MessageID:text IDType:idtype Original:number Arrival:arrival:2",
    31: "SessionAccepted 1 SessionID:Text Token:token LockedUntil:time",
    32: "SessionLockRenewed 1 SessionID:Text LockedUntil:time",
    33: "SessionReleased 1 SessionID:Text Cause:release Returned:returned",
    34: "SessionStateSet 2 SessionID:Text Cleared:bool State:blob Topic:number:2",
    35: "MessagesBatchDeleted 1 Before:time Sequences:ascending",
    36: "SliceDropped 1",
    37: "EntityTouched 1 AccessedAt:time",
    38: "RuleAdded 1 Rule:rule",
    39: "RuleUpdated 1 Rule:rule Before:beforerule",
    40: "RuleRemoved 1 Rule:rule",
    41: "MessagePublished 2 Sequence:number MessageID:text HasSession:session PartitionKey:text TimeToLive:duration EnqueuedAt:time"
        " Batch:number Body:blob IDType:idtype DuplicateUntil:time Copies:copies Details:details:2",
    42: "ScheduledPublished 1 Sequence:number NewSequence:number EnqueuedAt:time Copies:copies",
    43: "TransactionCommitted 1 ID:token Operations:number DeclaredAt:time",
    44: "TransactionAborted 1 ID:token Cause:abort",
    45: "TransferStarted 1 Destination:number Trigger:trigger First:number Sequences:ascending",
    46: "MessageHandedOver 1 Sequence:number MessageID:text HasSession:session PartitionKey:text TimeToLive:duration EnqueuedAt:time"
        " Batch:number Body:blob IDType:idtype Destination:number Number:number Details:details",
    47: "TransfersFinished 1 Numbers:ascending",
    48: "TransferFailed 2 Number:number SubQueue:subqueue Why:refusal Reason:text Description:text Changes:changes Sequence:number:2",
    49: "SourceForgotten 1 Source:slice",
    55: "HistoryPolicySet 1 Pattern:text Removed:bool Policy:policy Share:number BeforeSends:bool Since:time",
    58: "BackupMarked 1 ID:token Logs:number",
    59: "ClockSet 1 Number:number Basis:basis From:time To:time Wall:time",
    60: "RunStarted 1 Version:text Settings:text Stop:stop Cut:number",
    61: "LinkOpened 1 Role:role SubQueue:subqueue InSession:session Missed:number",
    62: "LinkClosed 1 Cause:closed Condition:text Description:text",
    63: "SettlementRefused 1 Sequence:number SubQueue:subqueue Token:token Wanted:wanted Why:refusal Missed:number",
    64: "SendsRefused 1 Why:refusal Count:number Since:time",
    65: "ReasonGiven 1 Reason:text TrackingID:text",
    66: "NumbersReserved 1 First:number Count:number",
    67: "PartitionFenced 1 LogPartition:number Cause:fence Error:text",
    68: "PartitionRestarted 1 LogPartition:number Refused:bool",
    69: "BodyErased 1 Sequence:number Position:number Size:number",
    70: "HistoryCut 1 LogPartition:number Cause:cut First:number Bytes:number",
    71: "ErasureFinished 1 Sequence:number Position:number",
}

ORIGIN = "Connection:number RemoteAddress:text ContainerID:text Product:text Principal:text Link:text Entity:text"
PROPERTIES = ("LockDuration:duration MaxSizeMegabytes:number MaxMessageSizeKilobytes:number RequiresDuplicateDetection:bool"
              " DuplicateDetectionWindow:duration RequiresSession:bool DefaultMessageTimeToLive:duration"
              " DeadLetteringOnMessageExpiration:bool MaxDeliveryCount:number EnableBatchedOperations:bool Status:status"
              " AutoDeleteOnIdle:duration EnablePartitioning:bool ForwardTo:text ForwardDeadLetteredMessagesTo:text UserMetadata:text"
              " SupportOrdering:bool:2 EnableExpress:bool:2 DeadLetteringOnFilterError:bool:2 FilteringBeforePublishing:bool:2"
              " SubscriptionPartitioning:bool:2 AccessRules:access:2")
ACCESS_RULE = "Name:text Rights:rights Primary:secret Secondary:secret CreatedAt:time ModifiedAt:time"


class Value:
    """A field: what stands in the record, and how it is printed. What is zero is left out."""

    def __init__(self, raw, printed, always=False):
        self.raw, self.printed, self.zero = raw, printed, not raw and not always

    def __eq__(self, other):
        return self.raw == other.raw


def shown(value):
    """What is printed of a value: of a structure the members that are not zero."""
    if isinstance(value, dict):
        return {name: shown(v) for name, v in value.items() if not (v.zero if isinstance(v, Value) else isinstance(v, dict) and not shown(v))}
    if isinstance(value, list):
        return [shown(v) for v in value]
    return shown(value.printed) if isinstance(value, Value) else value


def changed(before, after):
    """What is printed of a structure before it was changed: what was different, even where that is zero."""
    out = {}
    for name, old in before.items():
        if isinstance(old, dict):
            out[name] = changed(old, after[name])
        elif old != after[name]:
            out[name] = shown(old)
    return out


def text(data):
    """Bytes as text: those that are no UTF-8 as \\x and two digits."""
    return data.decode("utf-8", "backslashreplace")


def moment(ms, zone="Z"):
    """ms since 1970."""
    return f"{date(ms // 1000 + UNIX)}.{ms % 1000:03}{zone}"


def date(seconds):
    """Seconds since year 1 as date and time; 146097 days later everything is the same but the year, which is 400 more."""
    era, rest = divmod(seconds, 146097 * 86400)
    day = datetime.datetime(1, 1, 1) + datetime.timedelta(seconds=rest)
    return f"{day.year + 400 * era:04}{day:-%m-%dT%H:%M:%S}"


def duration(ns):
    """A duration as Go prints it: 1h30m0s, 1.5s, 20ms."""
    if ns == FOREVER:
        return "forever"
    for unit, name in (1, "ns"), (1_000, "\u00b5s"), (1_000_000, "ms"):
        if ns < unit * 1000:
            return decimal(ns, unit) + name if ns else "0s"
    minutes, seconds = divmod(ns, 60_000_000_000)
    out = decimal(seconds, 1_000_000_000) + "s"
    if minutes:
        out = f"{minutes % 60}m{out}"
    if minutes >= 60:
        out = f"{minutes // 60}h{out}"
    return out


def retention(stored):
    """A retention as settings have it: 1 and 2 are words, anything else 2 more than the ms. Days come first: 1d12h."""
    if stored < 3:
        return ("", "none", "unlimited")[stored]
    days, rest = divmod(stored - 2, 86_400_000)
    out = (f"{days}d" if days else "") + (duration(rest * 1_000_000) if rest else "")
    return re.sub(r"(?<=h)0m$", "", re.sub(r"(?<=m)0s$", "", out))


def decimal(n, unit):
    """n / unit, exactly: unit is a power of ten."""
    digits = len(str(unit)) - 1
    return f"{n // unit}.{n % unit:0{digits}d}".rstrip("0").rstrip(".") if digits else str(n)


def uuid(data):
    h = data.hex()
    return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))


def signed(n):
    return n - (1 << 64) if n >> 63 else n


# ---- values of rules and of property changes ----

def double(bits):
    x = struct.unpack("<d", struct.pack("<Q", bits))[0]
    if x != x or x in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[str(x)]
    digits = next(n for n in range(17) if float(f"{x:.{n}e}") == x)
    exponent = int(f"{x:.{digits}e}".split("e")[1])
    return f"{x:.{max(digits - exponent, 0)}f}" if -4 <= exponent < 6 else f"{x:.{digits}e}"


def instant(ticks, zone):
    """Ticks of 100 ns since year 1, shown in a zone."""
    seconds, rest = divmod(ticks, 10_000_000)
    offset = 0
    if zone not in ("", "none"):
        sign, hours, minutes = re.fullmatch(r"([+-])(\d\d):(\d\d)", zone).groups()
        offset = (int(hours) * 60 + int(minutes)) * 60 * (-1 if sign == "-" else 1)
    return date(seconds + offset) + (f".{rest:07}".rstrip("0") if rest else "") + {"": "Z", "none": ""}.get(zone, zone)


def span(ticks):
    """Ticks of 100 ns: days.hours:minutes:seconds."""
    seconds, rest = divmod(abs(ticks), 10_000_000)
    minutes, hours = seconds // 60, seconds // 3600
    return f"{'-' if ticks < 0 else ''}{hours // 24}.{hours % 24:02}:{minutes % 60:02}:{seconds % 60:02}" + (f".{rest:07}" if rest else "")


def value(kind, number, data):
    """A value as text."""
    if kind == "null":
        return "null"
    if kind == "bool":
        return "true" if number else "false"
    if kind in ("int", "long"):
        return str(signed(number))
    if kind == "double":
        return double(number)
    if kind == "time":
        return instant(number, text(data))
    if kind == "span":
        return span(signed(number))
    return uuid(data) if kind == "uuid" and len(data) == 16 else text(data)


def read_changes(data):
    """Property changes, in one of their two encodings (the end of section 8): what they are, or the bytes of those of format 1."""
    r = Record(data)
    if data[0] != 1:
        if data[0] not in (0xC1, 0xD1, 0xC0, 0xD0, 0x45):
            raise ValueError("property changes in no encoding that there is")
        skip_amqp(r)
        r.finish()
        return text(data)
    r.byte()
    removed = [text(r.bytes()) for _ in r.count()]
    out = {"Removed": Value(removed, removed), "Set": r.values(True), "System": r.values()}
    r.finish()
    return shown(out)


def skip_amqp(r):
    """Steps over a value, encoded as AMQP 1.0 part 1.6 says: the first half of its first byte says how long it is."""
    code = r.byte()
    if code == 0:  # described
        skip_amqp(r)
        skip_amqp(r)
    elif 0x40 <= code < 0xA0:
        r.take((0, 1, 2, 4, 8, 16)[(code >> 4) - 4])
    elif 0xA0 <= code:
        wide = code >> 4 & 1
        size = int.from_bytes(r.take(4 if wide else 1), "big")
        inner = Bytes(r.take(size))
        if code < 0xC0:
            return
        count = int.from_bytes(inner.take(4 if wide else 1), "big")
        if code >= 0xE0:  # an array: a constructor for all
            return
        for _ in range(count):
            skip_amqp(inner)
        inner.finish()
    else:
        raise ValueError(f"{code:02x} begins no AMQP value")


# ---- events ----

class Record(Bytes):
    """The records of a frame, among whose bodies the blobs are."""

    def __init__(self, data, frame=None, with_bodies=False):
        super().__init__(data)
        self.frame, self.with_bodies = frame, with_bodies

    def fields(self, spec, version):
        """Reads what a line of KINDS says."""
        out = {}
        for field in spec.split():
            name, kind, since = (field.split(":") + ["", ""])[:3]
            if since and int(since) > version:
                if (name, kind) == ("EntityKind", "kind"):  # version 1 of EntityDeleted: only queues were deleted then
                    out[name] = Value(1, ENUMS[kind][1])
                continue
            if name == "properties":
                out |= self.properties(version)
            elif kind == "session":
                has, session = self.bool(), text(self.bytes())
                out |= {"SessionID": Value(session, session, has), name: Value(has, has)}
            elif kind == "details":
                out |= self.details()
            elif kind in ("blob", "changes"):
                out.update(self.blob(name, kind))
            elif kind == "before":
                out[name] = changed(self.properties(version), out)
            elif kind == "beforerule":
                out[name] = changed(self.rule(), out["Rule"])
            else:
                out[name] = self.field(kind, version)
        return out

    def field(self, kind, version):
        if kind in ("number", "byte", "bool"):
            n = getattr(self, kind)()
            return Value(n, n)
        if kind in ("text", "Text"):
            s = text(self.bytes())
            return Value(s, s, kind == "Text")
        if kind in ENUMS:
            n = self.byte()
            return Value(n, ENUMS[kind].get(n, "Unknown" if kind in ("kind", "status") else "unknown"))
        if kind == "time":
            n = self.number()
            return Value(n, moment(n) if n else "-")
        if kind == "duration":
            n = self.number()
            return Value(n, duration(n))
        if kind == "token":
            token = self.take(16)
            return Value(token.strip(b"\0"), uuid(token))
        if kind == "origin":
            return self.fields(ORIGIN, 1)
        return getattr(self, kind)(version)

    def policy(self, _):
        return self.fields("Events:retention Bodies:retention Undo:retention", 1)

    def retention(self, _):
        n = self.number()
        return Value(n, retention(n))

    def list(self, _):
        data = list(self.bytes())
        return Value(data, data)

    def properties(self, version):
        out = self.fields(PROPERTIES, version)
        if version < 2:
            out["SupportOrdering"] = Value(out["EnablePartitioning"].zero, True)
        return out

    def access(self, version):
        rules = [self.fields(ACCESS_RULE, version) for _ in self.count()]
        return Value(rules, rules)

    def rights(self, _):
        rights = [ENUMS["right"][self.byte()] for _ in self.count()]
        return Value(rights, rights)

    def secret(self, _):
        return Value(self.bytes(), "***")

    def blob(self, name, kind):
        """A blob stands among the bodies of its frame."""
        size = self.number()
        if not size:
            return {}
        distance, checksum = self.number(), struct.unpack("<I", self.take(4))[0]
        data = self.frame.bodies[distance - FIRST_BODY:][:size] if distance >= FIRST_BODY else b""
        if self.frame.kept and len(data) == size and 0 in self.frame.kept[distance - FIRST_BODY:][:size]:
            out = {name + "Size": size, name + "Position": self.frame.lsn + distance}
            return out | ({name + "Erased": True} if self.with_bodies else {})
        if len(data) != size or crc(data) != checksum:
            raise ValueError(f"the checksum of {name}, at distance {distance}, is wrong")
        printed = read_changes(data) if kind == "changes" else text(data)
        out = {name + "Size": size, name + "Position": self.frame.lsn + distance}
        if self.with_bodies:
            out[name] = Value(size, printed)
        return out

    def ascending(self, _):
        out, n = [], 0
        for _ in self.count():
            n += self.number()
            out.append(n)
        return Value(out, out)

    def returned(self, _):
        out, n = [], 0
        for _ in self.count():
            n += self.number()
            out.append({"Sequence": n, "DeliveryCount": self.number()})
        return Value(out, out)

    def details(self):
        """The details of a message, and what follows them when their flags say so."""
        out = {"BodySize": self.field("number", 1)}
        flags = self.byte()
        for flag, name in (1, "Subject"), (2, "CorrelationID"), (4, "ContentType"), (8, "TraceParent"):
            if flags & flag:
                out[name] = self.field("text", 1)
        if flags & 16:
            out["Source"] = self.fields("Relation:relation Slice:slice Sequence:number", 1)
        also = {"Details": out}
        if flags & 32:
            also["Arrival"] = self.arrival(1)
        if flags & 64:
            also["Reserved"] = Value(True, True)
        if flags & 128:
            also["Keyed"] = Value(True, True)
        return also

    def arrival(self, version):
        return self.fields("Source:slice Number:number Floor:number Hops:number First:number DeadLetterSource:text Changes:changes", version)

    def slice(self, _):
        slice_ = f"{self.number()}/{self.byte()}"
        return Value(slice_.strip("0/"), slice_)

    def copies(self, version):
        out = [self.copy(version) for _ in self.count()]
        return Value(out, out)

    def copy(self, version):
        out = self.fields("Subscription:number Sequence:number", version)
        flags = self.byte()
        if flags & 1:
            out["OwnTTL"] = True
        if flags & 2:
            out["ExpiresAt"] = self.field("time", version)
        if flags & 4:
            out |= {"InSession": True, "SessionID": text(self.bytes())}
        if flags & 8:
            out["Rule"] = self.field("text", version)
        if flags & 16:
            out.update(self.blob("Changes", "changes"))
        if flags & 32:
            out.update(self.fields("Cause:cause Reason:text Description:text", version))
        return out

    def rule(self, _=1):
        name, kind, sql = self.field("text", 1), self.field("filter", 1), self.field("text", 1)
        rule_filter = {"Kind": kind, "Text": sql, "Parameters": self.values()}
        conditions = [{"Field": self.field("field", 1), "Text": text(self.bytes())} for _ in self.count()]
        rule_filter |= {"Conditions": Value(conditions, conditions), "Properties": self.values()}
        action = {"Text": self.field("text", 1), "Parameters": self.values()}
        return {"Name": name, "Filter": rule_filter, "Action": action, "CreatedAt": self.field("time", 1)}

    def values(self, encoded=False):
        """Values of a rule, or of property changes, some of which may be encoded as AMQP."""
        out = []
        for _ in self.count():
            name, kind, number, data = text(self.bytes()), self.byte(), self.number(), self.bytes()
            if encoded and kind == 254:
                inner = Bytes(data)
                skip_amqp(inner)
                inner.finish()
                printed = {"Type": "encoded", "Value": text(data)}
            else:
                printed = {"Type": ENUMS["type"][kind], "Value": value(ENUMS["type"][kind], number, data)}
            out.append(Value((name, kind, number, data), {"Name": name} | printed))
        return Value(out, out)


def events(frame, partition, origins, bodies):
    """Yields what is printed for each event of a frame."""
    r = Record(frame.records, frame, bodies)
    times = []
    for _ in range(frame.count):
        times.append(r.number())
        for _ in r.count():
            kind, version, entity, number, origin = r.byte(), r.byte(), r.number(), r.byte(), r.number()
            if kind not in KINDS:
                raise Unknown(f"frame at LSN {frame.lsn}: event {kind}")
            name, newest, *spec = KINDS[kind].split(" ", 2)
            if not 1 <= version <= int(newest):
                raise Unknown(f"frame at LSN {frame.lsn}: {name} version {version}")
            fields = r.fields("".join(spec), version)
            out = {"Partition": partition, "LSN": frame.lsn, "Time": moment(times[-1]), "Entity": f"{entity}/{number}", "Event": name}
            out |= shown(fields)
            if kind == 1:
                o = out.get("Origin", {})
                origins[out.get("ID", 0)] = [o.get(k) for k in ("Principal", "RemoteAddress", "ContainerID", "Product", "Link")]
            if origin:
                known = [word for word in origins.get(origin, ()) if word]
                out["By"] = f"origin {origin}" + (": " + " ".join(known) if known else "")
            yield out
    r.finish()
    if times and times[0] != frame.time or times and min(times[-1] - times[0], 0xFFFFFFFF) != frame.newest:
        raise ValueError("the header has other times than the records")
