package model

// Use is when an entity was used, which keeps it from deleting itself (7.7); ms.
type Use struct {
	Asked         int64  // somebody last sent to it, received from it or looked into it
	Noted         int64  // of that, what the log knows
	Put           int64  // its settings were last changed, or a rule of it
	Forwards      bool   // it forwards, which counts as a receiver that never leaves
	Busy          bool   // it has a receiver, or a scheduled message
	Idle          int64  // how long it may be left alone; 0: for ever
	Subscriptions []*Use // subscriptions of a topic: a use of one is a use of the topic
}

const (
	minute    = 60_000
	idleGrace = minute      // nothing goes earlier after a start
	noted     = 10 * minute // how far the log may be behind with an entity that stays for ever
)

// Quiet is how long nobody used the entity.
func (u *Use) Quiet(now int64) int64 {
	if u.Busy || u.Forwards {
		return 0
	}
	quiet := now - max(u.Asked, u.Put)
	for _, sub := range u.Subscriptions {
		quiet = min(quiet, sub.Quiet(now))
	}
	return quiet
}

// Over reports whether the entity deletes itself now.
func (u *Use) Over(now, started int64) bool {
	return u.Idle != 0 && u.Quiet(now) >= u.Idle && now-started >= idleGrace
}

// Note reports whether the log hears of the last use now: coarsely, and after a start that is all
// that is known of it.
func (u *Use) Note(now int64) bool {
	every := int64(noted)
	if u.Idle != 0 {
		if every = max(minute, u.Idle/10); u.Busy {
			u.Asked = now
		}
	}
	return u.Asked-u.Noted >= every
}
