package servicebus

// Connections is the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Panics is the number of connections that ended in a bug of this package (reliability.md F21).
func (s *Server) Panics() uint64 { return s.panics.Load() }
