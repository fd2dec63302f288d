"""The bytes of a chapter out of its sealed file, and what a log begins with: sections 3.2 and 3.3 of docs/log-format.md, and written from those alone.

Needs a module for zstd: zstandard, which Debian calls python3-zstandard. Every checksum and digest is compared.
"""

import hashlib
import struct

from records import Unknown, crc

try:
    import zstandard
except ImportError:
    zstandard = None

HEADER, FOOTER = 64, 640
RECORDS, BODIES, RECORD_INDEX, BODY_INDEX, IDS, CONTENTS = range(6)
MAX_BLOCK, MAX_CONTENTS = 1 << 16, 1 << 24


class Wrong(Exception):
    """What is wrong with a file, and the offset in it."""

    def __init__(self, what, offset=0):
        super().__init__(what)
        self.offset = offset


def check(holds, what, offset=0):
    if not holds:
        raise Wrong(what, offset)


class Named:
    """What the manifest says of a sealed file."""

    SIZE = 80

    def __init__(self, row):
        (self.chapter, self.revision, self.first, self.end, self.epoch, self.chain, self.last, self.size, self.digest) = struct.unpack("<IIQQQIIQ32s", row)

    def name(self):
        return f"{self.chapter:010d}-{self.revision:04d}.lbs"


def chapter(data, partition, tag, named, may_be_bodies=False):
    """The bytes of the chapter, and as many bytes more, which are 1 where its bytes are kept and 0 where a body is not, and the epoch before it."""
    if zstandard is None:
        raise Unknown("a sealed file, and Python has no module zstandard")
    check(len(data) == named.size >= HEADER + FOOTER, "not of the size that the manifest says")
    head, foot = data[:HEADER], data[-FOOTER:]
    check(head[:4] == b"LBSL" and crc(head[:60]) == struct.unpack("<I", head[60:])[0], "no header, or its checksum is wrong")
    version, of, namespace, number, first, end, chain, revision = struct.unpack_from("<HH4sIQQII", head, 4)
    if version not in (1, 2):
        raise Unknown(f"sealed file version {version}")
    check(version == 1 or may_be_bodies, "it has bodies alone, and the log goes through it")
    check(not any(head[40:60]), "the header's zeroes are none")
    want = (named.chapter, named.first, named.end, named.chain, named.revision)
    check((of, namespace) == (partition, tag) and (number, first, end, chain, revision) == want, "of another place than the manifest says")
    at = named.size - FOOTER
    check(hashlib.sha256(foot).digest() == named.digest, "not the file that the manifest names", at)
    check(foot[:4] == b"LBSF" and crc(foot[:-4]) == struct.unpack("<I", foot[-4:])[0], "no footer, or its checksum is wrong", at)
    fields = struct.unpack_from("<QQIIQQQQQQIIQQQQQQQQ", foot, 8)
    check(fields[:4] == (first, end, chain, named.last) and fields[5] == named.epoch and fields[10:12] == (number, revision), "header and footer do not agree", at)
    check(struct.unpack_from("<H", foot, 4)[0] == version, "header and footer are of two versions", at)
    erased, contents_size = fields[17], fields[19]
    parts, where = [], HEADER
    for i in range(6):
        offset, length, digest = struct.unpack_from("<QQ32s", foot, 224 + 48 * i)
        check(offset == where, "the parts do not follow one another", at)
        where += length
        part = data[offset:where]
        check(hashlib.sha256(part).digest() == digest, "the digest of a part is wrong", offset)
        parts.append((offset, part))
    check(where == at, "the parts do not fill the file", at)
    raw, kept = bytearray(end - first), bytearray(end - first)
    blocks = place(parts, RECORDS, RECORD_INDEX, 56, first, end, raw, kept)
    place(parts, BODIES, BODY_INDEX, 32, first, end, raw, kept)
    if version == 2:
        check_bodies(*parts[IDS], first, raw, kept, fields[16], at)
        check(blocks == 0 and not parts[RECORDS][1] and fields[6] == end and not any(fields[7:10] + fields[12:16] + fields[17:19]), "it has bodies alone, and says more", at)
        check(len(unpacked(parts[CONTENTS][1], contents_size, parts[CONTENTS][0])) == contents_size <= MAX_CONTENTS, "contents", parts[CONTENTS][0])
        return bytes(raw), bytes(kept), fields[4]
    check(kept.count(0) == erased, "another number of bytes is kept than the footer says", at)
    check_ids(*parts[IDS], blocks)
    check_pages(parts[IDS][1], *parts[CONTENTS])
    check(contents_size <= MAX_CONTENTS and len(unpacked(parts[CONTENTS][1], contents_size, parts[CONTENTS][0])) == contents_size, "contents", parts[CONTENTS][0])
    return bytes(raw), bytes(kept), fields[4]


BASE_HEAD, BASE_TRAILER, MAX_RECORD = 40, 104, 1 << 26


def base(data, partition, tag, lsn, size, digest):
    """Compares a base, section 3.3, and that it is made of records. Returns the chain at its LSN."""
    if zstandard is None:
        raise Unknown("a base, and Python has no module zstandard")
    check(len(data) == size >= BASE_HEAD + BASE_TRAILER, "not of the size that the manifest says")
    head, trailer = data[:BASE_HEAD], data[-BASE_TRAILER:]
    at = size - BASE_TRAILER
    check(hashlib.sha256(head + trailer).digest() == digest, "not the file that the manifest names")
    check(head[:4] == b"LBBS" and crc(head[:32]) == struct.unpack_from("<I", head, 32)[0], "no header, or its checksum is wrong")
    check(trailer[:4] == b"LBBT" and crc(trailer[:100]) == struct.unpack_from("<I", trailer, 100)[0], "no trailer, or its checksum is wrong", at)
    version, of, namespace, chain, where = struct.unpack_from("<HH4sIQ", head, 4)
    if version != 1:
        raise Unknown(f"base version {version}")
    check((of, namespace, where) == (partition, tag, lsn), "of another place than the manifest says")
    stored, length = struct.unpack_from("<QQ", trailer, 8)
    payload = data[BASE_HEAD:at]
    check(stored == len(payload) and hashlib.sha256(payload).digest() == trailer[32:64], "the digest of the records is wrong", BASE_HEAD)
    try:
        records = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(payload).read(length + 1)
    except zstandard.ZstdError as e:
        raise Wrong(f"zstd: {e}", BASE_HEAD) from None
    check(len(records) == length, "of another length when decompressed", BASE_HEAD)
    here = 0
    while here < length:
        n = shift = 0
        more = True
        while more:
            check(here < length and shift < 35, "the length of a record", BASE_HEAD)
            n, more, here, shift = n | (records[here] & 0x7F) << shift, records[here] & 0x80, here + 1, shift + 7
        check(0 < n <= MAX_RECORD and n <= length - here, "a record that does not fit", BASE_HEAD)
        here += n
    return chain


def unpacked(data, size, offset):
    """A zstd frame, which is of that many bytes when it is decompressed."""
    try:
        out = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompress(data, max_output_size=size or 1)
    except zstandard.ZstdError as e:
        raise Wrong(f"zstd: {e}", offset) from None
    check(len(out) == size, "of another length when decompressed", offset)
    return out


def place(parts, part, index, row, first, end, raw, kept):
    """Puts the bytes of all blocks of a part where their addresses say. Returns how many blocks there are."""
    offset, blocks = parts[part]
    index_offset, rows = parts[index]
    check(len(rows) % row == 0, "the index has half a row", index_offset)
    at, after = offset, first
    for i in range(0, len(rows), row):
        address, where, stored, size, checksum, zero = struct.unpack_from("<QQIIII", rows, i)
        check(where == at and stored and 0 < size <= MAX_BLOCK and not zero and after <= address < end, "a row of the index does not fit", index_offset + i)
        data = blocks[at - offset:at - offset + stored]
        check(len(data) == stored and crc(data) == checksum, "the checksum of a block is wrong", at)
        after = spread(unpacked(data, size, at), address, first, end, raw, kept, at)
        at += stored
    check(at == offset + len(blocks), "the blocks do not fill their part", index_offset)
    return len(rows) // row


def spread(data, address, first, end, raw, kept, offset):
    """Puts the stretches of a block where they belong. Returns where the last one ends."""
    at = 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            check(at < len(data) and shift < 63, "the table of a block", offset)
            n, at, shift, more = n | (data[at] & 0x7F) << shift, at + 1, shift + 7, data[at] & 0x80
            if not more:
                return n

    stretches = [(number(), number()) for _ in range(number())]
    check(stretches and stretches[0][0] == 0, "a block without a stretch, or with a gap in front", offset)
    for i, (gap, length) in enumerate(stretches):
        address += gap
        here = address - first
        check((gap > 0 or i == 0) and 0 < length <= len(data) - at and address + length <= end and not any(kept[here:here + length]), "a stretch does not fit", offset)
        raw[here:here + length] = data[at:at + length]
        kept[here:here + length] = b"\1" * length
        address, at = address + length, at + length
    check(at == len(data), "a block is longer than its stretches", offset)
    return address


def check_bodies(offset, rows, first, raw, kept, size, footer):
    """The rows of a file of bodies: each is of bytes that are there, with this checksum, and all that is there is of one of them."""
    check(len(rows) % 32 == 0, "half a row of a body", offset)
    after, total = first, 0
    for i in range(0, len(rows), 32):
        position, length, checksum, _, _, zeroes, _ = struct.unpack_from("<QIIIB3sQ", rows, i)
        at = position - first
        check(position >= after and length and at + length <= len(raw) and not any(zeroes) and all(kept[at:at + length]), "the row of a body does not fit", offset + i)
        check(crc(raw[at:at + length]) == checksum, "the checksum of a body is wrong", offset + i)
        after, total = position + length, total + length
    check(kept.count(1) == total == size, "another number of bytes is kept than the footer says, or than rows do", footer)


def check_ids(offset, ids, blocks):
    """Rows in order, none twice, that name blocks there are."""
    rows = [ids[i:i + 12] for i in range(0, len(ids), 12)]
    check(len(ids) % 12 == 0 and all(a < b for a, b in zip(rows, rows[1:])), "ids", offset)
    check(all(struct.unpack(">I", row[8:])[0] < blocks for row in rows), "ids name a block that is not there", offset)


def check_pages(ids, offset, contents):
    """The checksums of pages of the ids, behind the contents. A file from before there were pages ends with the contents."""
    page = 341 * 12
    pages = [ids[i:i + page] for i in range(0, len(ids), page)]
    head = struct.pack("<II", 0x184D2A5B, 4 + 12 * len(pages)) + b"LBIP"
    at = len(contents) - len(head) - 12 * len(pages)
    if pages and at >= 0 and contents[at:at + len(head)] == head:
        check(contents[at + len(head):] == b"".join(p[:8] + struct.pack("<I", crc(p)) for p in pages), "the pages are not those of the ids", offset + at)
        return True
    return False
