package log

import (
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// segment is a file of the hot log and the addresses it holds.
type segment struct {
	chapter uint32
	index   uint64    // of its first frame in the chapter; its name
	base    event.LSN // address of its first byte
	end     event.LSN // address behind its last written byte; grows in the last segment only
}

// relative is the segment's path below the partition's directory.
func (s *segment) relative() string {
	return filepath.Join("wal", format.ChapterName(s.chapter), format.SegmentName(s.index))
}
