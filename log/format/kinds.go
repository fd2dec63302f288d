package format

import (
	"errors"
	"fmt"

	"github.com/ledgerbus/ledgerbus/log/event"
)

var (
	// ErrNewer: written by a newer version of this program (F23).
	ErrNewer = errors.New("log: newer data format than this program knows")
	// ErrDamaged is wrapped by errors about notes and checkpoints that are not what was written.
	ErrDamaged = errors.New("damaged")
)

// PartitionID is [event.PartitionID].
type PartitionID = event.PartitionID

// Epoch counts how often a partition has been led. It grows by one at every Lead. The first is 1.
type Epoch uint64

// Durability says what a ticket waits for.
type Durability uint8

const (
	// written and in its place; survives the death of the process, not a power loss
	Ordered Durability = iota
	Durable            // synced, with all before it
)

// Kind is what a frame is for.
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
