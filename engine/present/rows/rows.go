// Package rows has the answers about the present of a namespace, in the form that the HTTP API and
// the command line give them. docs/guide/ledger-api.md describes each field.
//
// A field that a running broker alone knows, such as a rate, is missing in an answer from a
// directory, and its name is in NotRecorded.
package rows

import "time"

// Max is the maximum number of rows in an answer.
const Max = 200

// Counts counts the messages of an entity by state.
type Counts struct {
	Messages int `json:"messages"` // in all states
	// in the main queue and receivable now, locked or deferred, as the service counts active
	// messages
	Active             int   `json:"active"`
	Locked             int   `json:"locked"`
	Deferred           int   `json:"deferred"`
	Scheduled          int   `json:"scheduled"`
	DeadLetter         int   `json:"deadLetter"`         // in the dead-letter queue
	Transfer           int   `json:"transfer"`           // on their way to another entity
	TransferDeadLetter int   `json:"transferDeadLetter"` // in the transfer dead-letter queue
	SizeBytes          int64 `json:"sizeBytes"`          // a topic's include its subscriptions'
}

// Rates counts what happened to the messages of an entity, per second, over the last seconds.
type Rates struct {
	Received  float64 `json:"received"`  // arrived: sent, published to it, or moved to it
	Delivered float64 `json:"delivered"` // given to a receiver
	Completed float64 `json:"completed"` // removed by their receiver
	Failed    float64 `json:"failed"`    // abandoned, or given back because their lock ended
	Died      float64 `json:"died"`      // moved to the dead-letter queue
}

// Entity is a queue, topic or subscription with what it has now.
type Entity struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // queue, topic, subscription
	// Active, Disabled, SendDisabled or ReceiveDisabled
	Status string `json:"status"`
	Counts
	// when the oldest message that can be received, and the oldest of the dead-letter queue, was
	// enqueued; nil: there is none
	Oldest           *time.Time `json:"oldest,omitempty"`
	OldestDeadLetter *time.Time `json:"oldestDeadLetter,omitempty"`
	Rates            *Rates     `json:"rates,omitempty"`
	CreatedAt        time.Time  `json:"createdAt"`
	UpdatedAt        time.Time  `json:"updatedAt"`
	AccessedAt       *time.Time `json:"accessedAt,omitempty"`
	// partitions that do not serve: what they have is not counted
	Missing []int `json:"missing,omitempty"`
}

// Query selects entities and their order.
type Query struct {
	Prefix string // of the path, in any letter case
	Kind   string // queue, topic or subscription; "": all
	Sort   string // the column that they are sorted by, in any letter case; "": path
	Top    int    // maximum number of rows, up to [Max]; 0: Max
	After  string // Next of the page before; "": from the beginning
}

// Entities is a page of the entities of a namespace.
type Entities struct {
	At          time.Time `json:"at"`
	Total       int       `json:"total"` // entities with the prefix
	Entities    []Entity  `json:"entities"`
	Next        string    `json:"next,omitempty"` // after of the next page; "": there is none
	NotRecorded []string  `json:"notRecorded,omitempty"`
}

// Now is what a namespace has and does.
type Now struct {
	At       time.Time `json:"at"`
	Entities int       `json:"entities"`
	Counts             // of all entities together
	// of the entity in which the oldest receivable message waits
	Oldest *Oldest `json:"oldest,omitempty"`
	// of all entities together; a topic's copies arrive once
	Rates *Rates `json:"rates,omitempty"`
	// partitions that do not serve: what they have is not counted
	Missing     []int    `json:"missing,omitempty"`
	Running     *Running `json:"running,omitempty"`
	NotRecorded []string `json:"notRecorded,omitempty"`
}

// Oldest is the oldest message that can be received.
type Oldest struct {
	Entity string    `json:"entity"`
	At     time.Time `json:"at"` // when it was enqueued
}

// Running is what only a running broker knows of itself.
type Running struct {
	Version     string      `json:"version"`
	StartedAt   time.Time   `json:"startedAt"`
	Conditions  []Condition `json:"conditions"` // that last, as in /health; none: all is well
	Connections int         `json:"connections"`
	Memory      *Memory     `json:"memory,omitempty"` // nil: it is not bounded
}

// Condition is a lasting state that an operator has to know about.
type Condition struct {
	State     string     `json:"state"`
	Partition *int       `json:"partition,omitempty"` // nil: it concerns the disk of all
	Since     *time.Time `json:"since,omitempty"`
	Cause     string     `json:"cause,omitempty"`
}

// Memory is what messages and questions take of the broker's memory, in bytes.
type Memory struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// Sessions is a page of the sessions of an entity.
type Sessions struct {
	At          time.Time `json:"at"`
	Entity      string    `json:"entity"`
	Total       int       `json:"total"`
	Sessions    []Session `json:"sessions"` // by id
	Next        *string   `json:"next,omitempty"`
	Missing     []int     `json:"missing,omitempty"` // partitions that do not serve
	NotRecorded []string  `json:"notRecorded,omitempty"`
}

// Session is a session that has messages, a state or a holder.
type Session struct {
	ID          string     `json:"id"`
	Active      int        `json:"active"` // messages that can be received
	Locked      int        `json:"locked"`
	LockedUntil *time.Time `json:"lockedUntil,omitempty"` // nil: no receiver holds it
	Holder      *Holder    `json:"holder,omitempty"`
	StateSize   int        `json:"stateSize,omitempty"` // bytes
	StateSetAt  *time.Time `json:"stateSetAt,omitempty"`
}

// Holder is the receiver that holds a session.
type Holder struct {
	Connection uint64 `json:"connection"`
	Remote     string `json:"remote"`
	Client     string `json:"client,omitempty"` // the SDK and its version
	By         string `json:"by,omitempty"`     // the access rule or subject
	Link       string `json:"link,omitempty"`
}

// Series counts what happened to the messages of an entity or the namespace, in steps of time.
type Series struct {
	At     time.Time `json:"at"`
	Entity string    `json:"entity,omitempty"` // "": all entities together
	Step   int       `json:"step"`             // seconds
	Points []Point   `json:"points"`           // by time; unknown ones are missing
}

// Point counts what happened to messages in one step of a series.
type Point struct {
	At        time.Time `json:"at"`        // beginning
	Received  uint32    `json:"received"`  // arrived: sent, published to it, or moved to it
	Delivered uint32    `json:"delivered"` // given to a receiver
	Completed uint32    `json:"completed"` // removed by their receiver
	Failed    uint32    `json:"failed"`    // abandoned, or given back because their lock ended
	Died      uint32    `json:"died"`      // moved to a dead-letter queue
	// partitions that did not tell all that happened: it is not counted
	Missing []int `json:"missing,omitempty"`
}
