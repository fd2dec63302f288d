package amqp

// Error conditions (wire-protocol 8.2). Which situation has which condition is decided elsewhere; these are the spellings.

// Conditions of AMQP itself.
const (
	CondInternalError      Symbol = "amqp:internal-error"
	CondNotFound           Symbol = "amqp:not-found"
	CondUnauthorizedAccess Symbol = "amqp:unauthorized-access"
	CondDecodeError        Symbol = "amqp:decode-error"
	CondResourceLimit      Symbol = "amqp:resource-limit-exceeded"
	CondNotAllowed         Symbol = "amqp:not-allowed"
	CondInvalidField       Symbol = "amqp:invalid-field"
	CondNotImplemented     Symbol = "amqp:not-implemented"
	CondResourceLocked     Symbol = "amqp:resource-locked"
	CondPreconditionFailed Symbol = "amqp:precondition-failed"
	CondResourceDeleted    Symbol = "amqp:resource-deleted"
	CondIllegalState       Symbol = "amqp:illegal-state"
	CondFrameSizeTooSmall  Symbol = "amqp:frame-size-too-small"
)

// Conditions of connections, sessions, links and transactions.
const (
	CondConnectionForced     Symbol = "amqp:connection:forced"
	CondFramingError         Symbol = "amqp:connection:framing-error"
	CondConnectionRedirect   Symbol = "amqp:connection:redirect" // never sent: no client follows it
	CondWindowViolation      Symbol = "amqp:session:window-violation"
	CondErrantLink           Symbol = "amqp:session:errant-link"
	CondHandleInUse          Symbol = "amqp:session:handle-in-use"
	CondUnattachedHandle     Symbol = "amqp:session:unattached-handle"
	CondDetachForced         Symbol = "amqp:link:detach-forced"
	CondTransferLimit        Symbol = "amqp:link:transfer-limit-exceeded"
	CondMessageSizeExceeded  Symbol = "amqp:link:message-size-exceeded"
	CondLinkRedirect         Symbol = "amqp:link:redirect" // never sent: no client follows it
	CondLinkStolen           Symbol = "amqp:link:stolen"
	CondTransactionUnknownID Symbol = "amqp:transaction:unknown-id"
	CondTransactionRollback  Symbol = "amqp:transaction:rollback"
	CondTransactionTimeout   Symbol = "amqp:transaction:timeout"
)

// Conditions of Service Bus.
const (
	CondAuthFailed             Symbol = "com.microsoft:auth-failed"
	CondTimeout                Symbol = "com.microsoft:timeout"
	CondServerBusy             Symbol = "com.microsoft:server-busy"
	CondOperationCancelled     Symbol = "com.microsoft:operation-cancelled"
	CondArgumentError          Symbol = "com.microsoft:argument-error"
	CondArgumentOutOfRange     Symbol = "com.microsoft:argument-out-of-range"
	CondMessageLockLost        Symbol = "com.microsoft:message-lock-lost"
	CondSessionLockLost        Symbol = "com.microsoft:session-lock-lost"
	CondSessionCannotBeLocked  Symbol = "com.microsoft:session-cannot-be-locked"
	CondStoreLockLost          Symbol = "com.microsoft:store-lock-lost"
	CondPartitionNotOwned      Symbol = "com.microsoft:partition-not-owned"
	CondMessageNotFound        Symbol = "com.microsoft:message-not-found"
	CondSessionNotFound        Symbol = "com.microsoft:session-not-found"
	CondEntityAlreadyExists    Symbol = "com.microsoft:entity-already-exists"
	CondEntityDisabled         Symbol = "com.microsoft:entity-disabled"
	CondNoMatchingSubscription Symbol = "com.microsoft:no-matching-subscription"
	CondPublisherRevoked       Symbol = "com.microsoft:publisher-revoked"
	CondServicePrecondition    Symbol = "com.microsoft:precondition-failed"
	CondContainerClose         Symbol = "com.microsoft:container-close"
	CondAddressInUse           Symbol = "com.microsoft:address-already-in-use"
	CondRelayNotFound          Symbol = "com.microsoft:relay-not-found"
	CondDeadLetter             Symbol = "com.microsoft:dead-letter" // client to server only: reject with it means dead-letter
)
