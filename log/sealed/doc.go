// Package sealed defines the bytes of sealed files: closed chapters of a log, compressed and
// indexed (docs/log-format.md, 3.2). It encodes and decodes them, and opens and writes no file. It
// believes nothing in a file before it has compared the checksum, and no length makes a reader
// allocate more than the format allows.
//
// A [Writer] takes the frames of a chapter twice, first for their records and then for their
// bodies. A [File] is read by address: [Holding] finds the block with an address, and a decoded
// [Data] has the bytes.
package sealed
