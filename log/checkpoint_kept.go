package log

import (
	"slices"

	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/log/format"
)

// This file decides which checkpoints are kept (decision 54): the newest two, from which a start
// continues, and older ones for history queries and for making a base, as long as all of them are a
// small part of the log.

const (
	newestCheckpoints = 2
	// checkpointShare limits the bytes of all checkpoints together to one in ten bytes of the log.
	checkpointShare = 10
	// maxCheckpoints is how many checkpoints a partition may have, because a start reads both ends
	// of each.
	maxCheckpoints = 1000
)

// thinCheckpoints returns the checkpoints of a list, oldest first, that are kept for a log of that
// many bytes with a base at an LSN. It leaves out those before the base. Until the rest are few
// enough, it leaves out the one with the shortest distance between its neighbors, but never one of
// the newest two. It does not change the list.
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

// storedSize returns the length of a checkpoint's file, bytes.
func storedSize(c *format.Checkpoint) int64 {
	return format.CheckpointHead + c.Payload + format.CheckpointTrailer
}

// storedBytes returns how many bytes segments take on the disk.
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
