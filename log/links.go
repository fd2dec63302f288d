package log

import (
	"path/filepath"
	"slices"

	"github.com/ledgerbus/ledgerbus/log/disk"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// refuseLinks finds a link among the directories that recovery goes through, and among the files
// that concern all partitions. A start and an inspection ask it alike, before anything else, so
// that both refuse, and for what it is: a link is no damage. A link in the place of a partition's
// file is that partition's alone, and Open refuses it. What cannot be looked at is left to
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
		if err == nil && !slices.ContainsFunc(there, is) { // with an error each is looked for
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
				continue // it does not belong to the log, whatever it is
			}
			if err := disk.Plain(filepath.Join(path, e.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}
