package servicebus

// Panics is the number of connections that ended in a bug of this package (reliability.md F21).
func (s *Server) Panics() uint64 { return s.panics.Load() }
