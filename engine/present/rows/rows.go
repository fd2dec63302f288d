// Package rows has the answers about the present of a namespace, in the form that the HTTP API and
// the command line give them. docs/guide/ledger-api.md describes each field.
//
// A field that a running broker alone knows, such as a rate, is missing in an answer from a
// directory, and its name is in NotRecorded.
package rows

import "time"

// Max is the maximum number of rows in an answer.
const Max = 200

// Counts counts the messages of an entity by state, in the words of the questions about the past.
type Counts struct {
	Messages int `json:"messages"` // in all states
	// in the main queue and receivable now, locked or deferred, as the service counts active messages
	Active       int   `json:"active"`
	Locked       int   `json:"locked"`
	Deferred     int   `json:"deferred"`
	Scheduled    int   `json:"scheduled"`
	Dead         int   `json:"dead"`         // in the dead-letter queue
	Transfer     int   `json:"transfer"`     // on their way to another entity
	TransferDead int   `json:"transferDead"` // in the transfer dead-letter queue
	Size         int64 `json:"size"`         // bytes; a topic's include its subscriptions'
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
	Counts
	// when the oldest message that can be received, and the oldest of the dead-letter queue, was
	// enqueued; nil: there is none
	Oldest     *time.Time `json:"oldest,omitempty"`
	OldestDead *time.Time `json:"oldestDead,omitempty"`
	Rates      *Rates     `json:"rates,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
	UpdatedAt  time.Time  `json:"updatedAt"`
	AccessedAt *time.Time `json:"accessedAt,omitempty"`
	// partitions that do not serve: what they have is not counted
	Missing []int `json:"missing,omitempty"`
}

// Entities is a page of the entities of a namespace.
type Entities struct {
	At          time.Time `json:"at"`
	Total       int       `json:"total"` // entities with the prefix
	Entities    []Entity  `json:"entities"`
	Next        string    `json:"next,omitempty"` // after of the next page; "": there is none
	NotRecorded []string  `json:"notRecorded,omitempty"`
}
