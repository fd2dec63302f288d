package event

// Pool hands out events to be filled in and takes all of them back at once, so that deciding and replaying allocate
// nothing once they have run for a while. Not safe for concurrent use.
type Pool struct {
	origins   shelf[OriginDefined]
	created   shelf[EntityCreated]
	updated   shelf[EntityUpdated]
	deleted   shelf[EntityDeleted]
	enqueued  shelf[MessageEnqueued]
	locked    shelf[MessageLocked]
	renewed   shelf[LockRenewed]
	expired   shelf[LockExpired]
	released  shelf[MessageReleased]
	abandoned shelf[MessageAbandoned]
	completed shelf[MessageCompleted]
	removed   shelf[MessageReceivedAndDeleted]
	deferred  shelf[MessageDeferred]
	dead      shelf[MessageDeadLettered]
	ended     shelf[MessageExpired]
	scheduled shelf[MessageScheduled]
	activated shelf[ScheduledActivated]
	cancelled shelf[ScheduleCancelled]
	dropped   shelf[DuplicateDropped]
	accepted  shelf[SessionAccepted]
	extended  shelf[SessionLockRenewed]
	returned  shelf[SessionReleased]
	states    shelf[SessionStateSet]
	purged    shelf[MessagesBatchDeleted]
	forgotten shelf[SliceDropped]
	touched   shelf[EntityTouched]
	ruled     shelf[RuleAdded]
	rewritten shelf[RuleUpdated]
	unruled   shelf[RuleRemoved]
	published shelf[MessagePublished]
	fannedOut shelf[ScheduledPublished]
	clocks    shelf[ClockSet]
	runs      shelf[RunStarted]
	opened    shelf[LinkOpened]
	closed    shelf[LinkClosed]
	refused   shelf[SettlementRefused]
	unsent    shelf[SendsRefused]
	reasons   shelf[ReasonGiven]
	committed shelf[TransactionCommitted]
	aborted   shelf[TransactionAborted]
	reserved  shelf[NumbersReserved]
	started   shelf[TransferStarted]
	handed    shelf[MessageHandedOver]
	finished  shelf[TransfersFinished]
	failed    shelf[TransferFailed]
	unsourced shelf[SourceForgotten]
	fenced    shelf[PartitionFenced]
	restarted shelf[PartitionRestarted]
	marks     shelf[BackupMarked]
	erasures  shelf[BodyErased]
	erased    shelf[ErasureFinished]
	cuts      shelf[HistoryCut]
	slices    shelf[SliceRestored]
	rows      shelf[RowsRestored]
	sessions  shelf[SessionsRestored]
	histories shelf[HistoryRestored]
	entities  shelf[CatalogueRestored]
	policies  shelf[HistoryPolicySet]
}

// New returns an empty event of the kind, or nil for a kind that does not exist. It is valid until Reset.
func (p *Pool) New(k Kind) Event {
	switch k {
	case KindOriginDefined:
		return p.origins.next()
	case KindEntityCreated:
		return p.created.next()
	case KindEntityUpdated:
		return p.updated.next()
	case KindEntityDeleted:
		return p.deleted.next()
	case KindMessageEnqueued:
		return p.enqueued.next()
	case KindMessageLocked:
		return p.locked.next()
	case KindLockRenewed:
		return p.renewed.next()
	case KindLockExpired:
		return p.expired.next()
	case KindMessageReleased:
		return p.released.next()
	case KindMessageAbandoned:
		return p.abandoned.next()
	case KindMessageCompleted:
		return p.completed.next()
	case KindMessageReceivedAndDeleted:
		return p.removed.next()
	case KindMessageDeferred:
		return p.deferred.next()
	case KindMessageDeadLettered:
		return p.dead.next()
	case KindMessageExpired:
		return p.ended.next()
	case KindMessageScheduled:
		return p.scheduled.next()
	case KindScheduledActivated:
		return p.activated.next()
	case KindScheduleCancelled:
		return p.cancelled.next()
	case KindDuplicateDropped:
		return p.dropped.next()
	case KindSessionAccepted:
		return p.accepted.next()
	case KindSessionLockRenewed:
		return p.extended.next()
	case KindSessionReleased:
		return p.returned.next()
	case KindSessionStateSet:
		return p.states.next()
	case KindMessagesBatchDeleted:
		return p.purged.next()
	case KindSliceDropped:
		return p.forgotten.next()
	case KindEntityTouched:
		return p.touched.next()
	case KindRuleAdded:
		return p.ruled.next()
	case KindRuleUpdated:
		return p.rewritten.next()
	case KindRuleRemoved:
		return p.unruled.next()
	case KindMessagePublished:
		return p.published.next()
	case KindScheduledPublished:
		return p.fannedOut.next()
	}
	if ev := p.newMove(k); ev != nil {
		return ev
	}
	return p.newFact(k)
}

// newMove is New for the kinds of moves.go and transactions.go.
func (p *Pool) newMove(k Kind) Event {
	switch k {
	case KindTransactionCommitted:
		return p.committed.next()
	case KindTransactionAborted:
		return p.aborted.next()
	case KindNumbersReserved:
		return p.reserved.next()
	case KindTransferStarted:
		return p.started.next()
	case KindMessageHandedOver:
		return p.handed.next()
	case KindTransfersFinished:
		return p.finished.next()
	case KindTransferFailed:
		return p.failed.next()
	case KindSourceForgotten:
		return p.unsourced.next()
	}
	return nil
}

// newRestored is New for the kinds of base.go.
func (p *Pool) newRestored(k Kind) Event {
	switch k {
	case KindSliceRestored:
		return p.slices.next()
	case KindRowsRestored:
		return p.rows.next()
	case KindSessionsRestored:
		return p.sessions.next()
	case KindHistoryRestored:
		return p.histories.next()
	case KindCatalogueRestored:
		return p.entities.next()
	}
	return nil
}

// newFact is New for the kinds of facts.go and fences.go, and for those of a clock and of history.
func (p *Pool) newFact(k Kind) Event {
	switch k {
	case KindClockSet:
		return p.clocks.next()
	case KindRunStarted:
		return p.runs.next()
	case KindBackupMarked:
		return p.marks.next()
	case KindHistoryPolicySet:
		return p.policies.next()
	case KindBodyErased:
		return p.erasures.next()
	case KindErasureFinished:
		return p.erased.next()
	case KindHistoryCut:
		return p.cuts.next()
	case KindLinkOpened:
		return p.opened.next()
	case KindLinkClosed:
		return p.closed.next()
	case KindSettlementRefused:
		return p.refused.next()
	case KindSendsRefused:
		return p.unsent.next()
	case KindReasonGiven:
		return p.reasons.next()
	case KindPartitionFenced:
		return p.fenced.next()
	case KindPartitionRestarted:
		return p.restarted.next()
	}
	return p.newRestored(k)
}

// Reset takes back every event handed out.
func (p *Pool) Reset() {
	p.origins.used, p.created.used, p.updated.used, p.deleted.used = 0, 0, 0, 0
	p.enqueued.used, p.locked.used, p.renewed.used, p.expired.used = 0, 0, 0, 0
	p.released.used, p.abandoned.used, p.completed.used, p.removed.used = 0, 0, 0, 0
	p.deferred.used, p.dead.used, p.ended.used, p.scheduled.used = 0, 0, 0, 0
	p.activated.used, p.cancelled.used, p.dropped.used, p.accepted.used = 0, 0, 0, 0
	p.extended.used, p.returned.used, p.states.used, p.purged.used, p.forgotten.used = 0, 0, 0, 0, 0
	p.touched.used, p.ruled.used, p.rewritten.used, p.unruled.used = 0, 0, 0, 0
	p.published.used, p.fannedOut.used, p.clocks.used = 0, 0, 0
	p.runs.used, p.opened.used, p.closed.used, p.refused.used, p.unsent.used, p.reasons.used = 0, 0, 0, 0, 0, 0
	p.fenced.used, p.restarted.used = 0, 0
	p.committed.used, p.aborted.used, p.reserved.used = 0, 0, 0
	p.started.used, p.handed.used, p.finished.used, p.failed.used, p.unsourced.used = 0, 0, 0, 0, 0
	p.marks.used, p.policies.used = 0, 0
	p.slices.used, p.rows.used, p.sessions.used, p.histories.used, p.entities.used = 0, 0, 0, 0, 0
}

type shelf[T any] struct {
	items []*T
	used  int
}

func (s *shelf[T]) next() *T {
	if s.used == len(s.items) {
		s.items = append(s.items, new(T))
	}
	t := s.items[s.used]
	s.used++
	var zero T
	*t = zero
	return t
}
