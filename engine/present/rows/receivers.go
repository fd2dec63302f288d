package rows

import "time"

// Receivers is a sub-queue with its receivers, and what each of them waits for. An answer from a
// directory has the links that were open at the end of the log.
type Receivers struct {
	At time.Time `json:"at"`
	// the path as shown; that of a sub-queue has its suffix
	Entity string `json:"entity"`
	// causes that keep every receiver from messages, whatever its credit is
	Why []string `json:"why"`
	// what the log does not tell about the links, and why; only from a directory
	Unknown []string `json:"unknown,omitempty"`
	// of the sub-queue; for a main queue of the whole entity. nil: not all partitions have answered
	Messages *Counts `json:"messages,omitempty"`
	// messages that a receiver can get now, and expired ones that are not removed yet
	Available *int `json:"available,omitempty"`
	// messages that are locked by links that are closed; only from a directory
	LockedByClosed int                 `json:"lockedByClosed,omitempty"`
	Partitions     []ReceiverPartition `json:"partitions"`
	Receivers      []Receiver          `json:"receivers"` // at most [Max], by connection
	More           int                 `json:"more,omitempty"`
	// since the start of the broker, newest last
	Refused []RefusedReceiver `json:"refused"`
	// connections that did not answer in time: their receivers may be missing
	Silent []uint64 `json:"silent,omitempty"`
	// partitions whose logs cannot be read: their links and messages are missing
	Missing     []int    `json:"missing,omitempty"`
	NotRecorded []string `json:"notRecorded,omitempty"`
}

// ReceiverPartition is the state of a partition that hosts messages of the entity.
type ReceiverPartition struct {
	ID       int    `json:"id"`
	State    string `json:"state"`             // as in the list of partitions
	Trouble  string `json:"trouble,omitempty"` // why it does not deliver
	Requests int    `json:"requests"`          // waiting in its mailbox
	Late     int    `json:"late,omitempty"`    // costly requests that wait for later turns
}

// Receiver is a receiver link. A number that is not known is nil.
type Receiver struct {
	Connection uint64     `json:"connection"`
	Remote     string     `json:"remote"`
	Client     string     `json:"client,omitempty"` // the SDK and its version
	Container  string     `json:"container,omitempty"`
	By         string     `json:"by,omitempty"` // the access rule or subject
	Link       string     `json:"link,omitempty"`
	Since      *time.Time `json:"since,omitempty"`   // when it was attached, in broker time
	Session    *string    `json:"session,omitempty"` // the one that it holds
	Credit     *int32     `json:"credit,omitempty"`  // as the client has granted it
	// part of the credit: received by the partitions and not used
	Passed    *int32 `json:"passed,omitempty"`
	InLoop    *int32 `json:"inLoop,omitempty"` // credit that the partitions report
	Unsettled *int   `json:"unsettled,omitempty"`
	Unsent    *int   `json:"unsent,omitempty"` // deliveries that wait on the connection
	Locks     *int   `json:"locks,omitempty"`  // messages that it has locked
	// end of the first of these locks, or of the lock of its session; nil: it has none
	LockedUntil *time.Time `json:"lockedUntil,omitempty"`
	// one phrase: the cause that its next delivery waits for
	Verdict string `json:"verdict,omitempty"`
}

// RefusedReceiver is a receiver link that the broker refused, or detached because of an error.
type RefusedReceiver struct {
	At        time.Time `json:"at"`
	Remote    string    `json:"remote"`
	Client    string    `json:"client,omitempty"`
	Condition string    `json:"condition"`
	Text      string    `json:"text"`
}
