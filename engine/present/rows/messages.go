package rows

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"
)

const (
	// MaxBytes is the maximum size of an answer in JSON.
	MaxBytes = 1 << 20
	// MaxBody is the maximum number of bytes of a body in an answer.
	MaxBody = 64 << 10
)

// MessagesQuery selects messages of an entity or a sub-queue.
type MessagesQuery struct {
	Entity  string  // path, such as orders or orders/$dlq; of a topic: its scheduled messages
	State   string  // active, locked, deferred, scheduled, transferring; "": all
	From    uint64  // the first sequence number; Next of the page before
	Session *string // only messages of this session; nil: all
	Where   string  // a condition; "": none
	Top     int     // maximum number of rows, up to [Max]; 0: Max
	Bodies  bool    // rows have the messages
}

// Message is a message with its state.
type Message struct {
	SequenceNumber uint64     `json:"sequenceNumber"`
	State          string     `json:"state"` // active, locked, deferred, scheduled, transferring
	EnqueuedTime   time.Time  `json:"enqueuedTime"`
	ExpiresAt      *time.Time `json:"expiresAt,omitempty"`
	LockedUntil    *time.Time `json:"lockedUntil,omitempty"`
	ScheduledFor   *time.Time `json:"scheduledFor,omitempty"`
	DeliveryCount  uint32     `json:"deliveryCount"` // failed deliveries
	SessionID      *string    `json:"sessionId,omitempty"`
	Size           uint32     `json:"size"` // bytes, as it was sent
	// sequence number in the entity where the message was sent; 0: this entity
	EnqueuedSequenceNumber uint64 `json:"enqueuedSequenceNumber,omitempty"`
	// entity from whose dead-letter queue the message came
	DeadLetterSource string `json:"deadLetterSource,omitempty"`
	Hops             uint8  `json:"hops,omitempty"` // moves between entities

	Content *Content `json:"message,omitempty"` // only if the question asks for bodies
	// why the message cannot be read; its state is known nevertheless
	Unread string `json:"unread,omitempty"`
}

// Content is a message as it was sent, with the later changes of its properties. Its fields have
// the names that ledgerbus peek prints.
type Content struct {
	MessageID             *string        `json:"messageId,omitempty"`
	ReplyToSessionID      *string        `json:"replyToSessionId,omitempty"`
	PartitionKey          *string        `json:"partitionKey,omitempty"`
	ViaPartitionKey       *string        `json:"viaPartitionKey,omitempty"`
	Subject               *string        `json:"subject,omitempty"`
	ContentType           *string        `json:"contentType,omitempty"`
	CorrelationID         *string        `json:"correlationId,omitempty"`
	To                    *string        `json:"to,omitempty"`
	ReplyTo               *string        `json:"replyTo,omitempty"`
	TimeToLive            string         `json:"timeToLive,omitempty"` // such as PT1H
	DeadLetterReason      string         `json:"deadLetterReason,omitempty"`
	DeadLetterDescription string         `json:"deadLetterErrorDescription,omitempty"`
	Properties            map[string]any `json:"properties,omitempty"`
	Body                  Body           `json:"body"`
	// value, sequence or none; "": bytes. Of a value that is not a text, and of a sequence, body is
	// null
	BodyType string `json:"bodyType,omitempty"`
	BodySize int    `json:"bodySize,omitempty"` // of the whole body if it is cut; 0: it is not
}

// Body has the bytes of a body. In JSON it is a string if it is UTF-8, and {"base64": …} if not.
// Nil is null.
type Body []byte

// MarshalJSON implements [json.Marshaler].
func (b Body) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		return json.Marshal(string(b))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(b)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (b *Body) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '{' {
		var encoded struct {
			Base64 []byte `json:"base64"`
		}
		err := json.Unmarshal(text, &encoded)
		*b = encoded.Base64
		return err
	}
	var s *string
	if err := json.Unmarshal(text, &s); err != nil || s == nil {
		return err
	}
	*b = Body(*s)
	return nil
}

// Messages is a page of the messages of an entity or a sub-queue.
type Messages struct {
	At       time.Time `json:"at"`
	Entity   string    `json:"entity"`
	Messages []Message `json:"messages"`
	Scanned  int       `json:"scanned"` // messages that were looked at
	// from of the next page; 0: there is none. A page may end before it is full, and even be empty,
	// because an answer takes a short time only
	Next uint64 `json:"next,omitempty"`
	// messages for which the condition could not be evaluated, and why for the first one
	Undecided       int    `json:"undecided,omitempty"`
	UndecidedReason string `json:"undecidedReason,omitempty"`
	// partitions that do not serve: what they have is missing
	Missing []int `json:"missing,omitempty"`
}
