package log

import (
	"io"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// segment is a stretch of a log's addresses, and where the bytes are kept. LSNs and positions are
// addresses in the row of bytes as it was first written, for ever: how a segment keeps them now is
// its kind's business.
type segment struct {
	chapter uint32
	base    event.LSN // address of its first byte
	// address behind its last written byte; grows in the last segment only, which is hot
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

// kind is how the bytes of a segment are kept.
type kind interface {
	// path is where the bytes are, below the partition's directory.
	path() string
	// open gives access to them. It opens files with files, which takes a path below the
	// partition's directory.
	open(files opener) (content, error)
}

// opener opens a file for reading, by its path below the partition's directory.
type opener func(path string) (disk.File, error)

// openerOf returns the opener of a partition's directory.
func openerOf(fsys disk.FS, dir string) opener {
	return func(path string) (disk.File, error) { return fsys.Open(filepath.Join(dir, path)) }
}

// content is the bytes of an open segment. ReadAt takes a distance from the segment's first
// address, and may be called concurrently. It may return fewer bytes than it was asked for, with
// any error, but goes on at least to the end of what it begins in: a frame's header, its bodies, or
// its records. Where bytes of a body are no longer kept it stops, with an error that wraps
// [event.ErrErased].
type content interface {
	io.ReaderAt
	// Size is how far the bytes may go, from the first address. There may be room behind the last
	// written one.
	Size() (int64, error)
	io.Closer
}

// bodies is content that may find a byte of a body faster when it is told that it is one.
type bodies interface {
	ReadBody(dst []byte, off int64) (int, error) // as ReadAt
}

// hotKind is the kind that is written: a file in which a byte stands where its address is, less the
// segment's first. The file is the content.
type hotKind struct {
	chapter uint32
	index   uint64 // of its first frame in the chapter
}

func (h hotKind) path() string {
	return filepath.Join("wal", format.ChapterName(h.chapter), format.SegmentName(h.index))
}

func (h hotKind) open(files opener) (content, error) { return files(h.path()) }

// newSegment is an empty one of the hot kind.
func newSegment(chapter uint32, index uint64, base event.LSN) *segment {
	return &segment{chapter: chapter, base: base, end: base, kind: hotKind{chapter, index}}
}
