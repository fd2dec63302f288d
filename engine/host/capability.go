package host

import "github.com/ledgerbus/ledgerbus/engine"

// beforeFirst makes it durable that the directory may hold what belongs to a capability, before any of it is written. While that cannot be
// said what needs it is refused. It waits for the disk, once in the life of a directory.
func (l *Loop) beforeFirst(capability string, refuse func(*engine.Error)) {
	if l.used[capability] {
		return
	}
	if l.use != nil {
		if err := l.use(capability); err != nil {
			l.recorder.logger.Error("the data directory cannot be marked for what is asked for the first time; it is refused", "capability", capability, "error", err)
			refuse(engine.Refuse(engine.Busy, "The broker cannot do this now: its data directory cannot be marked for it."))
			return
		}
	}
	l.used[capability] = true
	refuse(nil)
}
