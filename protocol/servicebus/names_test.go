package servicebus

import "github.com/ledgerbus/ledgerbus/protocol/message"

var (
	readProperties = message.Properties
	reread         = message.Reread
)

// Names on the wire, as clients write them.
const (
	keySequence           = "x-opt-sequence-number"
	keyEnqueueSequence    = "x-opt-enqueue-sequence-number"
	keyEnqueuedTime       = "x-opt-enqueued-time"
	keyLockedUntil        = "x-opt-locked-until"
	keyScheduled          = "x-opt-scheduled-enqueue-time"
	keyPartitionKey       = "x-opt-partition-key"
	keyViaPartitionKey    = "x-opt-via-partition-key"
	keyDeadLetterSource   = "x-opt-deadletter-source"
	keyState              = "x-opt-message-state"
	keyLockToken          = "x-opt-lock-token"
	keySessionFilter      = "com.microsoft:session-filter"
	keyNonExclusiveFilter = "com.microsoft:non-exclusive-session-filter"
	keyTimeout            = "com.microsoft:timeout"
	keyLockedUntilUTC     = "com.microsoft:locked-until-utc"
	describedSpan         = "com.microsoft:timespan"
	deadLetterReason      = "DeadLetterReason"
	deadLetterDescription = "DeadLetterErrorDescription"
)
