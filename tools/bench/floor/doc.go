// Package floor is the reference of the benchmarks: a server that supports only as much of AMQP 1.0
// as senders and receivers need. It decodes transfers with the broker's codec and accepts them at
// once, without storing them. Receivers get as many ready-made messages as they give credit for,
// and settlements are confirmed with the requested outcome. The results of a client show the limit
// of the protocol, the codec, the kernel and the client. The difference to the broker is the cost
// of the broker.
//
//	s, err := floor.Listen("127.0.0.1:0", floor.Options{})
//	defer s.Close()
//	// point any AMQP 1.0 client at s.URL()
//
// For a fair comparison it has the structure of package protocol/servicebus. One goroutine reads
// into large buffers and cuts them at whole frames, and one goroutine owns all state. Each write
// contains all responses since the previous one. Contiguous deliveries share a disposition. Credit
// of 1,000 is renewed at half. It allocates nothing per message and makes no system call per
// message.
//
// With [Options.Dir] it is the reference of deliveries. It appends sends and settlements to a file,
// syncs them in groups before it answers, and delivers the messages, which it holds in memory, to
// receivers with credit. It has no locks, no redelivery, and no order on disk that must be read
// back. The difference to the broker is the cost of these.
//
// [Disk] is the other reference: consecutive appends and fdatasyncs, the limit of a single durable
// write.
//
// The package ignores tokens and time, and knows queues only as far as [Options.Dir] needs. Every
// address exists and every token is valid.
package floor
