package floor

import (
	"cmp"
	"errors"
	"net"
	"sync"

	"github.com/ledgerbus/ledgerbus/protocol/amqp"
)

// Options are the settings of a [Server]. Zero fields mean their defaults.
type Options struct {
	MessageSize int    // bytes of the body of messages for receivers; default 1,024
	Credit      uint32 // deliveries granted to a sender; default 1,000
	Window      uint32 // incoming window of a session in transfers; default 5,000
	// maximum number of settlements confirmed in one disposition; default 16, see settlements.flush
	SettleRange int
	// Dir, if not empty, makes the server keep messages: it appends sends and settlements to a file
	// of this directory, syncs them in groups and then answers them. Receivers get the sent
	// messages, which wait in memory.
	Dir string
}

func (o Options) withDefaults() Options {
	o.MessageSize = cmp.Or(o.MessageSize, 1024)
	o.Credit = cmp.Or(o.Credit, 1000)
	o.Window = cmp.Or(o.Window, 5000)
	o.SettleRange = cmp.Or(o.SettleRange, 16)
	return o
}

// A Server is a floor server.
type Server struct {
	options  Options
	listener net.Listener
	message  []byte  // encoded message for receivers
	keeper   *keeper // nil: messages are not kept

	mu     sync.Mutex
	conns  map[*conn]struct{} // guarded by mu
	closed bool               // guarded by mu
	done   sync.WaitGroup     // the accept loop and all connections
}

// Listen starts a server on a TCP address; port 0 selects a free one.
func Listen(address string, o Options) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{options: o.withDefaults(), listener: l, conns: make(map[*conn]struct{})}
	s.message = encodeMessage(s.options.MessageSize)
	if o.Dir != "" {
		if s.keeper, err = newKeeper(o.Dir); err != nil {
			l.Close()
			return nil, err
		}
	}
	s.done.Add(1)
	go s.accept()
	return s, nil
}

// Addr returns the host:port on which the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the address as a URL for AMQP clients.
func (s *Server) URL() string { return "amqp://" + s.Addr() }

// Close stops listening, closes all connections and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.net.Close()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.done.Wait()
	if s.keeper != nil {
		err = errors.Join(err, s.keeper.close())
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) accept() {
	defer s.done.Done()
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := newConn(s, nc)
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			nc.Close()
			return
		}
		s.conns[c] = struct{}{}
		s.done.Add(1)
		s.mu.Unlock()
		go func() {
			defer s.done.Done()
			c.run()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		}()
	}
}

// encodeMessage returns a message in the broker's form: header, properties with a message-id, one
// data section.
func encodeMessage(bodySize int) []byte {
	m := amqp.AppendHeader(nil, &amqp.Header{Durable: amqp.Some(true), DeliveryCount: amqp.Some[uint32](0)})
	m = amqp.AppendProperties(m, &amqp.Properties{MessageID: "00000000000000000000000000000000"})
	return amqp.AppendData(m, make([]byte, bodySize))
}
