package log

// Memory is what is asked before something is kept in memory (docs/decisions/0041). Its methods may
// be called by several goroutines.
type Memory interface {
	// Take takes bytes, and reports whether they may be taken. If not, nothing is.
	Take(bytes int) bool
	// Owe takes bytes that are needed in any case, even if there are not enough.
	Owe(bytes int)
	// Give gives bytes back.
	Give(bytes int)
	// Exceeds reports whether more was taken than would be allowed now, leaving out the fixed
	// bytes, which cannot be given back.
	Exceeds(fixed int) bool
}

// Unbounded is memory of which there is always enough.
type Unbounded struct{}

// Take implements [Memory]: there is always some.
func (Unbounded) Take(int) bool { return true }

// Owe implements [Memory].
func (Unbounded) Owe(int) {}

// Give implements [Memory].
func (Unbounded) Give(int) {}

// Exceeds implements [Memory]: nothing is too much.
func (Unbounded) Exceeds(int) bool { return false }
