#!/usr/bin/env python3
"""Reads a data directory and prints one JSON object per event, as `ledgerbus log dump -o json` does.

usage: read.py [--bodies] DIR…

It was written from docs/log-format.md alone and needs nothing but Python, and a module for zstd where there are sealed files; sections are
those of that page. This file goes from the directory to frames, sealed.py from sealed files to the bytes of chapters, records.py from the records
in them to what is printed. Every checksum on the way is compared. Of a damaged
partition nothing is printed: stderr names the file and the offset in it.

exit code: 0 all is well, 1 damage, 2 wrong use, 7 a format, event or capability that this reader does not know, or a sealed file without the module zstandard
"""

import json
import os
import re
import struct
import sys

import sealed
from records import Unknown, crc, events, uvarint

KNOWN_FORMATS = (1, 2)
KNOWN_CAPABILITIES = ("backups", "base", "bodies", "cuts", "erased", "erasures", "fences", "moves", "partitioned", "policies", "sealed", "slice", "transactions", "unsealed")
EVENTS, EPOCH_START, SKIP = 1, 2, 3


class Damage(Exception):
    """What is wrong, and where: file, and offset in it."""

    def __init__(self, what, file, offset=0, lsn=None):
        at = f"{file}: offset {offset}" + ("" if lsn is None else f", LSN {lsn}")
        super().__init__(f"{at}: {what}")


# ---- small files (section 4) ----

def content(file):
    """The bytes of a file of the directory, which is no symbolic link."""
    if os.path.islink(file):
        raise Damage("a symbolic link", file)
    try:
        with open(file, "rb") as f:
            return f.read()
    except OSError as e:
        raise Damage(e.strerror, file) from None


def entries(directory):
    """The names in a directory of the directory, which is no symbolic link."""
    if os.path.islink(directory):
        raise Damage("a symbolic link", directory)
    try:
        return sorted(os.listdir(directory))
    except OSError as e:
        raise Damage(e.strerror, directory) from None


class Namespace:
    """namespace.json."""

    def __init__(self, directory):
        file = os.path.join(directory, "namespace.json")
        try:
            data = content(file)
            it = json.loads(data)
            words = [str(it[name]) for name in ("format", "namespace", "partitions", "created")]
            if it["sum"] != f"{crc(' '.join(words).encode()):08x}":
                raise Damage("the sum is wrong", file)
            if data != json.dumps(it, separators=(",", ":")).encode() + b"\n":
                raise Damage("not as it was written", file)
            if it["format"] not in KNOWN_FORMATS:
                raise Unknown(f"{file}: format {it['format']}")
            members = ["format", "namespace", "partitions", "created", "sum", "capabilities", "capabilitiesSum"]
            if list(it) != members[:5 if it["format"] == 1 else 7]:
                raise Damage("other members than its format has", file)
            if it["format"] > 1:
                capabilities = it["capabilities"]
                if it["capabilitiesSum"] != f"{crc(' '.join([it['namespace'], *capabilities]).encode()):08x}":
                    raise Damage("the sum of the capabilities is wrong", file)
                for word in capabilities:
                    if word not in KNOWN_CAPABILITIES:
                        raise Unknown(f"{file}: capability {word}")
            self.partitions = int(it["partitions"])
            self.tag = bytes.fromhex(it["namespace"].replace("-", ""))[:4]
        except (ValueError, KeyError, TypeError) as e:
            raise Damage(f"not what it should be: {e!r}", file) from None


def small(file, magic, partition, tag, versions=(1,)):
    """The fields of a manifest, progress, fault or clean; with several versions, the one it has comes first."""
    data = content(file)
    if len(data) < 20 or data[:4] != magic or crc(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise Damage("magic or checksum is wrong", file)
    version, of, namespace, length = struct.unpack_from("<HH4sI", data, 4)
    if version not in versions:
        raise Unknown(f"{file}: version {version}")
    if of != partition or namespace != tag or length != len(data):
        raise Damage("of another partition, namespace or length", file)
    return data[16:-4] if len(versions) == 1 else (version, data[16:-4])


def note(file, magic, partition, tag):
    """progress or fault: LSN, epoch and chain there; None: there is none."""
    if not os.path.lexists(file):
        return None
    fields = small(file, magic, partition, tag)
    if len(fields) != 24:
        raise Damage("another length", file)
    return struct.unpack("<QQI", fields[:20])


def read_clean(directory, namespace):
    """clean: (end, chain) of every partition; None: it was no clean stop."""
    file = os.path.join(directory, "clean")
    if not os.path.lexists(file):
        return None
    fields = small(file, b"LBCM", 65535, namespace.tag)
    if len(fields) != 24 * namespace.partitions:
        raise Damage("another number of partitions", file)
    rows = struct.iter_unpack("<HHIQQ", fields)
    return {partition: (end, chain) for partition, _, chain, end, _ in rows}


def read_sealed_list(fields, manifest):
    """From where on a log has no gaps, its base or None, its sealed files, and what follows them, the chapters: a manifest of version 2."""
    removed, *base, count = struct.unpack_from("<QQQ32sI", fields, 8)
    end = 72 + sealed.Named.SIZE * count
    if end > len(fields):
        raise Damage("it has fewer sealed files than it says", manifest)
    files = [sealed.Named(fields[at:at + sealed.Named.SIZE]) for at in range(72, end, sealed.Named.SIZE)]
    return removed, base if base[0] else None, files, fields[end:]


# ---- frames (section 3) ----

class Frame:
    """An entry of a segment file; what is wrong with it is in bad, and intact says whether its header is what was written."""

    SIZE = 96  # of prefix and header

    def __init__(self, data, at, kept=None):
        self.bad, self.intact, self.length = None, False, 0
        self.kept = None  # which bytes of the bodies it still has; None: all
        head = data[at + 8:at + 96]
        if len(head) < 88 or head[:4] != b"LBFR" or crc(head[:84]) != struct.unpack("<I", head[84:])[0]:
            self.bad = "no frame header, or its checksum is wrong"
            return
        self.intact = True
        (version, self.kind, self.level, _, self.length, bodies, records, self.count, self.partition, _, self.chapter, self.epoch,
         self.lsn, self.time, self.durable, self.before, self.tag, bodies_sum, records_sum, self.newest, self.chain) = struct.unpack(
             "<BBBBIIIIHHIQQQQI4sIIII", head[4:])
        if version != 1:
            raise Unknown(f"frame at LSN {self.lsn}: version {version}")
        used, self.behind_bodies = 88 + bodies + records, 96 + bodies
        end = at + 8 + self.length
        if self.length % 8 or not used <= self.length < used + 8 or self.length > 1 << 30 or end > len(data):
            self.bad = "its length does not fit"
        elif data[at:at + 8] != prefix(self.length):
            self.bad = "the prefix is wrong"
        elif any(data[at + 8 + used:end]):
            self.bad = "the padding is not zero"
        else:
            self.bodies = data[at + 96:at + 96 + bodies]
            self.records = data[at + 96 + bodies:at + 8 + used]
            if kept and 0 in kept[at + 96:at + 96 + bodies]:
                self.kept = kept[at + 96:at + 96 + bodies]
            if self.kept is None and crc(self.bodies) != bodies_sum:
                self.bad = "the checksum of the bodies is wrong"
            elif crc(self.records) != records_sum:
                self.bad = "the checksum of the records is wrong"

    def end(self):
        return self.lsn + 8 + self.length


def prefix(length):
    """The eight bytes before a frame: a uvarint, and zeroes. The uvarint is the length of the zeroes and the frame together."""
    for u in range(1, 8):
        n = length + 8 - u
        if 1 << 7 * (u - 1) <= n < 1 << 7 * u:
            return uvarint(n).ljust(8, b"\0")
    raise ValueError(length)


class Partition:
    """The log of one partition, read in the order of section 5.3."""

    def __init__(self, directory, number, namespace, clean):
        self.directory = os.path.join(directory, "partitions", f"{number:02d}")
        self.number, self.tag, self.clean = number, namespace.tag, clean and clean[number]
        self.lsn, self.chain, self.epoch, self.boot = 8, 0, 0, b""
        self.wanted = []  # (LSN, chain there, which note says so)

    def frames(self):
        """Yields (frame, file, offset) up to the end of the log, or raises Damage."""
        manifest = os.path.join(self.directory, "manifest")
        version, fields = small(manifest, b"LBMF", self.number, self.tag, (1, 2, 3))
        removed, base, files, rest = (read_sealed_list(fields, manifest) if version > 1 else (0, None, [], fields[8:]))
        run, rest = (rest[:80], rest[80:]) if version == 3 else (None, rest)
        chapters = list(struct.iter_unpack("<IIQQII", rest))
        self.read_notes()
        if base:
            self.read_base(*base)
        for named in files:
            if named.end > removed:
                yield from self.read_sealed(named, manifest, named.first <= removed)
            else:  # it is kept for bodies alone, and may have gaps around it
                self.sealed_bytes(named, True)
                self.lsn, self.chain, self.epoch = named.end, named.last, named.epoch
        if run:  # chapters in front of the first one were removed as they were
            self.lsn, self.chain = chapters[0][2], chapters[0][1]
            self.epoch, length = struct.unpack_from("<QI", run)
            self.boot = run[16:16 + length]
        self.pass_boundary()
        wal = os.path.join(self.directory, "wal")
        listed = {f"{chapter[0]:010d}" for chapter in chapters} | {f"{named.chapter:010d}" for named in files}  # of these remains may be there
        for name in entries(wal):
            if name not in listed and not (run and name < f"{chapters[0][0]:010d}") and any(os.path.getsize(os.path.join(wal, name, f)) for f in entries(os.path.join(wal, name))):
                raise Damage("the manifest does not list it", os.path.join(wal, name))
        for i, (number, chain, first, *_) in enumerate(chapters):
            directory = os.path.join(wal, f"{number:010d}")
            if first != self.lsn or chain != self.chain:
                raise Damage(f"chapter {number} does not begin where the log before it ends, at {self.lsn}", manifest)
            yield from self.read_chapter(directory, number, i == len(chapters) - 1)
        for lsn, _, name in self.wanted:
            raise Damage(f"the log ends here; {name} says that it reached {lsn}, or has another chain there", self.file, self.offset, self.lsn)

    def read_base(self, lsn, size, digest):
        """Compares what the log begins with. Nothing of it is printed: its events are none of those that happened."""
        file = os.path.join(self.directory, "base", f"{lsn:020d}.lbb")
        try:
            chain = sealed.base(content(file), self.number, self.tag, lsn, size, digest)
        except sealed.Wrong as e:
            raise Damage(e, file, e.offset) from None
        if lsn > 8:
            self.wanted.append((lsn, chain, "base"))

    def sealed_bytes(self, named, may_be_bodies=False):
        """The bytes of a sealed file, which of them are kept, and the epoch before it. One that is there for bodies alone may have nothing else."""
        self.file, self.offset = os.path.join(self.directory, "sealed", named.name()), 0
        try:
            return sealed.chapter(content(self.file), self.number, self.tag, named, may_be_bodies)
        except sealed.Wrong as e:
            raise Damage(e, self.file, e.offset) from None

    def read_sealed(self, named, manifest, first):
        """The frames of a sealed file. The first one begins where it says."""
        data, kept, before = self.sealed_bytes(named)
        if first:
            self.lsn, self.chain, self.epoch = named.first, named.chain, before
            self.pass_boundary()
        if (named.first, named.chain) != (self.lsn, self.chain):
            raise Damage(f"sealed file {named.name()} does not begin where the log before it ends, at {self.lsn}", manifest)
        while self.offset < len(data):
            frame = self.good_frame(data, named.chapter, self.offset == 0, kept)
            if not frame:
                raise Damage(self.why, self.file, self.offset, self.lsn)
            yield self.past(frame)
        if (self.lsn, self.chain, self.epoch) != (named.end, named.last, named.epoch):
            raise Damage("its frames do not end as the manifest says", self.file, self.offset, self.lsn)

    def past(self, frame):
        """Goes on behind a frame. Returns it with its place."""
        found = frame, self.file, self.offset
        self.lsn, self.chain, self.epoch = frame.end(), frame.chain, frame.epoch
        self.offset += 8 + frame.length
        self.pass_boundary()
        return found

    def read_notes(self):
        self.fault = None
        for name, magic in ("progress", b"LBPR"), ("fault", b"LBFT"):
            try:
                it = note(os.path.join(self.directory, name), magic, self.number, self.tag)
            except Damage:
                if self.clean is None:
                    raise
                continue
            if it:
                self.wanted.append((it[0], it[2], name))
            if name == "fault":
                self.fault = it
        if self.clean:
            self.wanted.append((*self.clean, "clean"))

    def pass_boundary(self):
        """A frame begins or the log ends here, with this chain before it: notes that say so are satisfied."""
        self.wanted = [want for want in self.wanted if want[:2] != (self.lsn, self.chain)]

    def read_chapter(self, directory, number, last_chapter):
        files = [name for name in entries(directory) if re.fullmatch(r"\d{20}", name)]
        self.file, self.offset = directory, 0
        if not files:
            raise Damage("a chapter without a file", directory)
        index = 1
        for name in files:
            self.file, self.offset = os.path.join(directory, name), 0
            if int(name) != index:
                raise Damage(f"the frame {index} of its chapter should be its first one", self.file, 0, self.lsn)
            data = content(self.file)
            while self.offset < len(data):
                frame = self.good_frame(data, number, index == 1)
                if not frame:
                    self.judge_end(data, number, last_chapter and name == files[-1])
                    return
                index += 1
                yield self.past(frame)

    def good_frame(self, data, chapter, first, kept=None):
        """The frame that stands here; None if it is bad: why is in self.why."""
        frame = Frame(data, self.offset, kept)
        self.why = frame.bad
        if frame.intact and not self.of_this_place(frame, chapter, self.lsn):
            raise Damage("a frame of another place, partition, chapter or namespace", self.file, self.offset, self.lsn)
        if frame.intact and frame.before != self.chain:
            raise Damage("the chain is broken", self.file, self.offset, self.lsn)
        if frame.bad:
            return None
        begins = frame.kind == EPOCH_START  # of a run: the first frame of its chapter
        if frame.durable > self.lsn or frame.epoch != self.epoch + begins or begins and not first:
            raise Damage("durable-up-to or the epoch is not what it should be", self.file, self.offset, self.lsn)
        if begins:
            self.boot = frame.records
        return frame

    def of_this_place(self, frame, chapter, lsn):
        return (frame.lsn, frame.partition, frame.chapter, frame.tag) == (lsn, self.number, chapter, self.tag)

    def judge_end(self, data, chapter, last):
        """No good frame stands here: that is the end of the log, a tail that was promised to nobody, or damage."""
        rest = data[self.offset:]
        used = len(rest.rstrip(b"\xff")) + 7 & ~7  # behind that there is room
        damage = Damage(self.why, self.file, self.offset, self.lsn)
        if not last or self.clean:
            raise damage
        if used == 0:
            return
        at = self.offset
        while at + Frame.SIZE <= len(data):  # does anything behind this say that it was durable?
            frame = Frame(data, at)
            here = frame.intact and self.of_this_place(frame, chapter, self.lsn + at - self.offset) and frame.epoch >= self.epoch
            if here and frame.durable > self.lsn:
                raise damage
            at += frame.behind_bodies & ~7 if here else 8
        if self.fault is None and self.boot == this_boot():
            frame = Frame(data, self.offset)
            if used >= Frame.SIZE and (not frame.intact or used > frame.length):
                raise damage


def this_boot():
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as f:
            return f.read().strip()
    except OSError:
        return None


def read(directory, bodies, damages):
    """Prints the events of every partition that is not damaged."""
    namespace = Namespace(directory)
    clean = read_clean(directory, namespace)
    for number in range(namespace.partitions):
        lines, origins = [], {}
        try:
            for frame, file, offset in Partition(directory, number, namespace, clean).frames():
                try:
                    if frame.kind == EVENTS:
                        lines.extend(as_json(event) for event in events(frame, number, origins, bodies))
                except (ValueError, KeyError, IndexError, OverflowError, AttributeError, RecursionError) as e:
                    raise Damage(f"records that make no sense: {e}", file, offset, frame.lsn) from None
            for line in lines:
                print(line)
        except Damage as e:
            damages.append(e)


def as_json(event):
    return json.dumps(event, separators=(",", ":")).replace("\x7f", "\\u007f")


def main(arguments):
    bodies = "--bodies" in arguments
    directories = [a for a in arguments if a != "--bodies"]
    if not directories:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    damages = []
    for directory in directories:
        try:
            read(directory, bodies, damages)
        except Damage as e:
            damages.append(e)
        except Unknown as e:
            print(e, file=sys.stderr)
            return 7
    for damage in damages:
        print(damage, file=sys.stderr)
    return 1 if damages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
