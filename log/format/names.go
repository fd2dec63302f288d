package format

import (
	"fmt"
	"path/filepath"

	"github.com/ledgerbus/ledgerbus/log/event"
)

// Names below a data directory (log-format.md 1).

// PartitionDir returns a partition's directory.
func PartitionDir(id PartitionID) string {
	return filepath.Join("partitions", fmt.Sprintf("%02d", id))
}

// ChapterName returns a chapter's directory in wal.
func ChapterName(id uint32) string { return fmt.Sprintf("%010d", id) }

// ChapterID returns the chapter whose directory has the name.
func ChapterID(name string) (id uint32, ok bool) {
	_, err := fmt.Sscanf(name, "%010d", &id)
	return id, err == nil && ChapterName(id) == name
}

// SegmentName returns the name of a segment file in the directory of its chapter, by the index of
// its first frame there.
func SegmentName(index uint64) string { return fmt.Sprintf("%020d", index) }

// SegmentIndex returns the index in a segment file's name.
func SegmentIndex(name string) (index uint64, ok bool) {
	_, err := fmt.Sscanf(name, "%020d", &index)
	return index, err == nil && index > 0 && SegmentName(index) == name
}

// CheckpointName returns the name of a checkpoint file in checkpoints.
func CheckpointName(at event.LSN) string { return fmt.Sprintf("%020d.ckpt", at) }

// BaseName returns the name of a base in base.
func BaseName(at event.LSN) string { return fmt.Sprintf("%020d.lbb", at) }

// BaseLSN returns the LSN of the base with the name.
func BaseLSN(name string) (at event.LSN, ok bool) {
	_, err := fmt.Sscanf(name, "%020d.lbb", &at)
	return at, err == nil && BaseName(at) == name
}

// SealedName returns the name of the sealed file of a chapter in sealed.
func SealedName(chapter, revision uint32) string {
	return fmt.Sprintf("%010d-%04d.lbs", chapter, revision)
}

// SealedID returns the chapter and revision of the sealed file with the name.
func SealedID(name string) (chapter, revision uint32, ok bool) {
	_, err := fmt.Sscanf(name, "%010d-%04d.lbs", &chapter, &revision)
	return chapter, revision, err == nil && chapter > 0 && revision > 0 && SealedName(chapter, revision) == name
}
