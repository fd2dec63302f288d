package log

import (
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// segment is a file of the hot log and the addresses it holds.
type segment struct {
	chapter uint32
	index   uint64    // of its first frame in the chapter; its name
	base    event.LSN // address of its first byte
	end     event.LSN // address behind its last written byte; grows in the last segment only
}

func segmentName(index uint64) string { return fmt.Sprintf("%020d", index) }
func chapterName(id uint32) string    { return fmt.Sprintf("%010d", id) }
func partitionName(id PartitionID) string {
	return filepath.Join("partitions", fmt.Sprintf("%02d", id))
}

// relative is the segment's path below the partition's directory.
func (s *segment) relative() string {
	return filepath.Join("wal", chapterName(s.chapter), segmentName(s.index))
}
