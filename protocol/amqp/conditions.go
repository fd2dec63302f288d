package amqp

// The error conditions that are sent (wire-protocol 8.2). Other packages choose the condition of a
// situation; these are the spellings.

// Conditions of AMQP itself.
const (
	CondNotFound           Symbol = "amqp:not-found"
	CondUnauthorizedAccess Symbol = "amqp:unauthorized-access"
	CondDecodeError        Symbol = "amqp:decode-error"
	CondResourceLimit      Symbol = "amqp:resource-limit-exceeded"
	CondNotAllowed         Symbol = "amqp:not-allowed"
	CondInvalidField       Symbol = "amqp:invalid-field"
	CondNotImplemented     Symbol = "amqp:not-implemented"
	CondFrameSizeTooSmall  Symbol = "amqp:frame-size-too-small"
)

// Conditions of connections, sessions and links.
const (
	CondConnectionForced    Symbol = "amqp:connection:forced"
	CondFramingError        Symbol = "amqp:connection:framing-error"
	CondHandleInUse         Symbol = "amqp:session:handle-in-use"
	CondUnattachedHandle    Symbol = "amqp:session:unattached-handle"
	CondWindowViolation     Symbol = "amqp:session:window-violation"
	CondDetachForced        Symbol = "amqp:link:detach-forced"
	CondTransferLimit       Symbol = "amqp:link:transfer-limit-exceeded"
	CondMessageSizeExceeded Symbol = "amqp:link:message-size-exceeded"
	CondLinkStolen          Symbol = "amqp:link:stolen"
)

// Conditions of transactions (AMQP 4.5.9).
const (
	CondTransactionUnknownID Symbol = "amqp:transaction:unknown-id"
	CondTransactionRollback  Symbol = "amqp:transaction:rollback"
)

// Conditions of Service Bus.
const (
	CondTimeout                Symbol = "com.microsoft:timeout"
	CondServerBusy             Symbol = "com.microsoft:server-busy"
	CondArgumentError          Symbol = "com.microsoft:argument-error"
	CondMessageLockLost        Symbol = "com.microsoft:message-lock-lost"
	CondSessionLockLost        Symbol = "com.microsoft:session-lock-lost"
	CondSessionCannotBeLocked  Symbol = "com.microsoft:session-cannot-be-locked"
	CondMessageNotFound        Symbol = "com.microsoft:message-not-found"
	CondEntityAlreadyExists    Symbol = "com.microsoft:entity-already-exists"
	CondEntityDisabled         Symbol = "com.microsoft:entity-disabled"
	CondNoMatchingSubscription Symbol = "com.microsoft:no-matching-subscription"
)
