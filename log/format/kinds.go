package format

import (
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

var (
	// ErrNewer says that a newer version of this program wrote the data (F23).
	ErrNewer = errors.New("log: newer data format than this program knows")
	// ErrDamaged is wrapped by errors about notes and checkpoints that differ from what was
	// written.
	ErrDamaged = errors.New("damaged")
)

// PartitionID is [event.PartitionID].
type PartitionID = event.PartitionID

// Epoch counts how often a partition has been led. It grows by one with every Lead. The first is 1.
type Epoch uint64

// Durability is what a ticket waits for.
type Durability uint8

const (
	// written and in its place; survives the death of the process, but not a power loss
	Ordered Durability = iota
	Durable            // synced, with everything before it
)

// Kind is the kind of a frame.
type Kind uint8

const (
	Events     Kind = 1 // records
	EpochStart Kind = 2 // a run begins
	Skip       Kind = 3 // nothing happened for a second
)

func (k Kind) String() string {
	switch k {
	case Events:
		return "Events"
	case EpochStart:
		return "EpochStart"
	case Skip:
		return "Skip"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}
