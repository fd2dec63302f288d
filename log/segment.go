package log

import (
	"io"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// segment is a range of a log's addresses, and where its bytes are kept. LSNs and positions are
// addresses in the sequence of bytes as it was first written, for ever. How a segment keeps its
// bytes depends on its kind.
type segment struct {
	chapter uint32
	base    event.LSN // address of its first byte
	// address after its last written byte; grows in the last segment only, which is hot
	end    event.LSN
	erased uint64 // frames that a walk has found to lack bodies
	kind   kind
}

// info describes a segment of a partition, which ends at an address.
func (s *segment) info(id PartitionID, end event.LSN) SegmentInfo {
	info := SegmentInfo{File: filepath.Join(format.PartitionDir(id), s.kind.path()), Chapter: s.chapter, First: s.base, End: end, Erased: s.erased}
	if k, ok := s.kind.(*sealedKind); ok {
		info.Sealed = k.named.Size
	}
	return info
}

// kind says how the bytes of a segment are kept.
type kind interface {
	// path returns the path of the bytes, below the partition's directory.
	path() string
	// open opens them. It opens files with files, which takes a path below the partition's
	// directory.
	open(files opener) (content, error)
}

// opener opens a file for reading, by its path below the partition's directory.
type opener func(path string) (disk.File, error)

// openerOf returns the opener of a partition's directory.
func openerOf(fsys disk.FS, dir string) opener {
	return func(path string) (disk.File, error) { return fsys.Open(filepath.Join(dir, path)) }
}

// content is the bytes of an open segment. ReadAt takes an offset from the segment's first address,
// and may be called concurrently. It may return fewer bytes than requested, with any error, but
// reads at least to the end of the part it begins in: a frame's header, its bodies, or its records.
// It stops at bytes of a body that are no longer kept, with an error that wraps [event.ErrErased].
type content interface {
	io.ReaderAt
	// Size returns how far the bytes may reach, from the first address. There may be preallocated
	// room after the last written byte.
	Size() (int64, error)
	io.Closer
}

// bodies is content that may find a byte of a body faster when it knows that it is one.
type bodies interface {
	ReadBody(dst []byte, off int64) (int, error) // as ReadAt
}

// hotKind is the kind that is being written: a file in which the offset of a byte is its address
// minus the segment's first address. The file is the content.
type hotKind struct {
	chapter uint32
	index   uint64 // of its first frame in the chapter
}

func (h hotKind) path() string {
	return filepath.Join("wal", format.ChapterName(h.chapter), format.SegmentName(h.index))
}

func (h hotKind) open(files opener) (content, error) { return files(h.path()) }

// newSegment returns an empty segment of the hot kind.
func newSegment(chapter uint32, index uint64, base event.LSN) *segment {
	return &segment{chapter: chapter, base: base, end: base, kind: hotKind{chapter, index}}
}
