package log

// Memory is asked before data is kept in memory (docs/decisions/0041). Its methods may be called by
// several goroutines.
type Memory interface {
	// Take takes bytes if they may be taken, and reports whether they were.
	Take(bytes int) bool
	// Owe takes bytes that are needed in any case, even if there are not enough.
	Owe(bytes int)
	// Give returns bytes.
	Give(bytes int)
	// Exceeds reports whether more was taken than would be allowed now. It leaves out the fixed
	// bytes, which cannot be freed.
	Exceeds(fixed int) bool
}

// Unbounded is a [Memory] that always has enough.
type Unbounded struct{}

// Take implements [Memory]: there is always some.
func (Unbounded) Take(int) bool { return true }

// Owe implements [Memory].
func (Unbounded) Owe(int) {}

// Give implements [Memory].
func (Unbounded) Give(int) {}

// Exceeds implements [Memory]: nothing is too much.
func (Unbounded) Exceeds(int) bool { return false }
