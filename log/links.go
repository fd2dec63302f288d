package log

import (
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// refuseLinks finds a link among the directories that recovery reads, and among the files that
// concern all partitions. A start and an inspection both call it before anything else, so that both
// refuse for the same reason: a link is not damage. A link in the place of a partition's file
// concerns that partition only, and Open refuses it. Entries that cannot be examined are left to
// recovery.
func refuseLinks(root string) error {
	names := []string{"lock", "namespace.json", "clean"}
	partitions := filepath.Join(root, "partitions")
	if err := disk.Plain(partitions); err != nil {
		return err
	}
	there, err := disk.OS{}.ReadDir(partitions)
	for i := range PartitionID(format.MaxPartitions) {
		dir := format.PartitionDir(i)
		is := func(e disk.Entry) bool { return e.Name == filepath.Base(dir) }
		if err == nil && !slices.ContainsFunc(there, is) { // with an error each is tried
			continue
		}
		wal := filepath.Join(dir, "wal")
		names = append(names, dir, filepath.Join(dir, "checkpoints"), filepath.Join(dir, "sealed"), wal)
	}
	for _, name := range names {
		path := filepath.Join(root, name)
		if err := disk.Plain(path); err != nil {
			return err
		}
		if filepath.Base(name) != "wal" {
			continue
		}
		chapters, _ := disk.OS{}.ReadDir(path)
		for _, e := range chapters {
			if _, ok := format.ChapterID(e.Name); !ok {
				continue // it does not belong to the log
			}
			if err := disk.Plain(filepath.Join(path, e.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}
