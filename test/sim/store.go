package sim

import (
	"context"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log"
	"github.com/ledgerbus/ledgerbus/test/faultfs"
)

// openStore opens the directory of a process that starts.
func (w *world) openStore() (err error) {
	w.memory = &account{w: w}
	w.store, err = w.storeOn(w.disk)
	return err
}

// storeOn opens the store on a disk.
func (w *world) storeOn(disk *faultfs.FS) (log.Store, error) {
	boot := ""
	if w.o.bootKnown {
		boot = fmt.Sprintf("boot-%d", w.boot)
	}
	return log.Open(context.Background(), root, log.Options{FS: disk, Memory: w.memory, Partitions: w.o.partitions, SegmentBytes: w.o.segmentBytes, RoomBytes: w.o.roomBytes,
		ChapterBytes: w.o.chapterBytes, ChapterAge: w.o.chapterAge, SealAfter: w.o.sealAfter, BootID: boot, Manual: true, Logger: w.logger(),
		NamespaceID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Now: w.Wall})
}
