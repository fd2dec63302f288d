package wire

import "time"

// MaxReceivers is the maximum number of receivers in an answer.
const MaxReceivers = 200

// Receivers is the broker's current knowledge of a sub-queue and its receivers.
type Receivers struct {
	// the path as shown; that of a sub-queue has its suffix
	Entity string `json:"entity"`
	// causes that keep every receiver from messages, whatever its credit is
	Why        []string            `json:"why"`
	Messages   *MessageCounts      `json:"messages,omitempty"`
	Partitions []ReceiverPartition `json:"partitions"`
	Receivers  []Receiver          `json:"receivers"` // at most MaxReceivers, by connection
	More       int                 `json:"more,omitempty"`
	// since the start of the broker, newest last
	Refused []RefusedReceiver `json:"refused"`
	// connections that did not answer in time: their receivers may be missing
	Silent []uint64 `json:"silent,omitempty"`
}

// MessageCounts counts the messages of a sub-queue by state. The counts of a main queue include
// those of its other sub-queues.
type MessageCounts struct {
	// messages that can be received, and expired ones that are not removed yet
	Active               int `json:"active"`
	Locked               int `json:"locked"`
	Deferred             int `json:"deferred"`
	Scheduled            int `json:"scheduled"`
	Transferring         int `json:"transferring"`
	DeadLettered         int `json:"deadLettered"`
	TransferDeadLettered int `json:"transferDeadLettered"`
}

// ReceiverPartition is the state of a partition that hosts messages of the entity.
type ReceiverPartition struct {
	ID       int    `json:"id"`
	State    string `json:"state"`             // as in Partition
	Trouble  string `json:"trouble,omitempty"` // why it does not deliver
	Requests int    `json:"requests"`          // waiting in its mailbox
	Late     int    `json:"late,omitempty"`    // costly requests that wait for later turns
}

// Receiver is a receiver link. A number that is not known is nil.
type Receiver struct {
	Connection uint64  `json:"connection"`
	Remote     string  `json:"remote"`
	Client     string  `json:"client,omitempty"` // the SDK and its version
	Container  string  `json:"container,omitempty"`
	By         string  `json:"by,omitempty"` // the access rule or subject
	Link       string  `json:"link,omitempty"`
	Session    *string `json:"session,omitempty"` // the one that it holds
	Credit     *int32  `json:"credit,omitempty"`  // as the client has granted it
	// part of the credit: received by the partitions and not used
	Passed    *int32 `json:"passed,omitempty"`
	InLoop    *int32 `json:"inLoop,omitempty"` // credit that the partitions report
	Unsettled *int   `json:"unsettled,omitempty"`
	Unsent    *int   `json:"unsent,omitempty"` // deliveries that wait on the connection
	// one phrase: the cause that its next delivery waits for
	Verdict string `json:"verdict"`
}

// RefusedReceiver is a receiver link that the broker refused, or detached because of an error.
type RefusedReceiver struct {
	At        time.Time `json:"at"`
	Remote    string    `json:"remote"`
	Client    string    `json:"client,omitempty"`
	Condition string    `json:"condition"`
	Text      string    `json:"text"`
}
