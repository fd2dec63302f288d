package wire

import "time"

// MaxReceivers is how many receivers an answer has at most.
const MaxReceivers = 200

// Receivers is what the broker knows now of a sub-queue and of those that receive from it.
type Receivers struct {
	// the path as it is shown, that of a sub-queue with its suffix
	Entity string `json:"entity"`
	// what keeps every receiver from messages, whatever its credit is
	Why        []string            `json:"why"`
	Messages   *MessageCounts      `json:"messages,omitempty"`
	Partitions []ReceiverPartition `json:"partitions"`
	Receivers  []Receiver          `json:"receivers"` // at most MaxReceivers, by connection
	More       int                 `json:"more,omitempty"`
	// since the start of the broker, newest last
	Refused []RefusedReceiver `json:"refused"`
	// connections that did not answer in time: receivers of theirs may be missing
	Silent []uint64 `json:"silent,omitempty"`
}

// MessageCounts counts messages of the sub-queue by state; of a main queue also those of the other
// sub-queues.
type MessageCounts struct {
	// what can be received, and what has expired and was not removed so far
	Active               int `json:"active"`
	Locked               int `json:"locked"`
	Deferred             int `json:"deferred"`
	Scheduled            int `json:"scheduled"`
	Transferring         int `json:"transferring"`
	DeadLettered         int `json:"deadLettered"`
	TransferDeadLettered int `json:"transferDeadLettered"`
}

// ReceiverPartition is how a partition that hosts messages of the entity is.
type ReceiverPartition struct {
	ID       int    `json:"id"`
	State    string `json:"state"`             // as in Partition
	Trouble  string `json:"trouble,omitempty"` // what keeps it from delivering
	Requests int    `json:"requests"`          // that wait in its mailbox
	Late     int    `json:"late,omitempty"`    // costly requests that wait for later turns
}

// Receiver is a receiver link. A number that is nil is not known.
type Receiver struct {
	Connection uint64  `json:"connection"`
	Remote     string  `json:"remote"`
	Client     string  `json:"client,omitempty"` // the SDK and its version
	Container  string  `json:"container,omitempty"`
	By         string  `json:"by,omitempty"` // the access rule or subject
	Link       string  `json:"link,omitempty"`
	Session    *string `json:"session,omitempty"` // that it holds
	Credit     *int32  `json:"credit,omitempty"`  // that the client gives now
	// of it, what the partitions have got and not used
	Passed    *int32 `json:"passed,omitempty"`
	InLoop    *int32 `json:"inLoop,omitempty"` // what the partitions say that they have
	Unsettled *int   `json:"unsettled,omitempty"`
	Unsent    *int   `json:"unsent,omitempty"` // deliveries that wait on the connection
	Verdict   string `json:"verdict"`          // one phrase: what its next delivery waits for
}

// RefusedReceiver is a receiver link that the broker has refused, or detached for an error.
type RefusedReceiver struct {
	At        time.Time `json:"at"`
	Remote    string    `json:"remote"`
	Client    string    `json:"client,omitempty"`
	Condition string    `json:"condition"`
	Text      string    `json:"text"`
}
