package log

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// Which checkpoints are kept (decision 54): the newest two, from which a start goes on, and older
// ones, for questions about the past and for making a base, as long as all of them are a small part
// of the log.

const (
	newestCheckpoints = 2
	// checkpointShare is the share of the log's bytes that all checkpoints together may take: one
	// in ten.
	checkpointShare = 10
	// maxCheckpoints is how many checkpoints a partition may have: a start reads both ends of each.
	maxCheckpoints = 1000
)

// thinCheckpoints returns the checkpoints of a list, oldest first, that are kept beside a log of that many
// bytes with a base at an LSN. Those before the base go. So do, until the rest are few enough,
// those that leave the shortest way between their neighbours, but never the newest two. The list
// itself is not changed.
func thinCheckpoints(list []format.Checkpoint, base event.LSN, stored int64) []format.Checkpoint {
	list = slices.DeleteFunc(slices.Clone(list), func(c format.Checkpoint) bool { return c.LSN < base })
	size := int64(0)
	for i := range list {
		size += storedSize(&list[i])
	}
	for len(list) > newestCheckpoints && (size > stored/checkpointShare || len(list) > maxCheckpoints) {
		least, way := 0, event.LSN(0)
		for i := range len(list) - newestCheckpoints {
			before := base
			if i > 0 {
				before = list[i-1].LSN
			}
			if w := list[i+1].LSN - before; i == 0 || w < way {
				least, way = i, w
			}
		}
		size -= storedSize(&list[least])
		list = slices.Delete(list, least, least+1)
	}
	return list
}

// storedSize is how long the file of a checkpoint is, bytes.
func storedSize(c *format.Checkpoint) int64 {
	return format.CheckpointHead + c.Payload + format.CheckpointTrailer
}

// storedBytes is what segments take on the disk.
func storedBytes(list []*segment) (size int64) {
	for _, s := range list {
		if k, ok := s.kind.(*sealedKind); ok {
			size += k.named.Size
		} else {
			size += int64(s.end - s.base)
		}
	}
	return size
}
