// Package sealed is the bytes of sealed files: closed chapters of a log, compressed and indexed
// (docs/log-format.md, 3.2). It encodes and decodes them, and opens and writes no file. Nothing in
// a file is believed before its checksum, and no length makes a reader allocate more than the
// format allows.
//
// A [Writer] is given the frames of a chapter twice, first for their records and then for their
// bodies. A [File] is read by address: [File.Blocks] says which block has one, and a decoded [Data]
// has the bytes.
package sealed
