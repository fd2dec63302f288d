// Package floor is the yardstick of the benchmarks: a server that speaks just enough AMQP 1.0 for
// senders and receivers to work, and does nothing else. It decodes transfers with the broker's own
// codec and accepts them at once, storing nothing; receivers get as many ready-made messages as
// they give credit for, and settlements are confirmed with the outcome that was asked for. What a
// client reaches here is what the protocol, the codec, the kernel and the client leave over; the
// difference to the broker is the price of the broker.
//
//	s, err := floor.Listen("127.0.0.1:0", floor.Options{})
//	defer s.Close()
//	// point any AMQP 1.0 client at s.URL()
//
// It has the shape of package protocol/servicebus, so that the comparison is fair: a goroutine that
// reads into large buffers and cuts at whole frames, one goroutine that owns all state, writes that
// carry everything decided since the last one, one disposition for contiguous deliveries, credit of
// 1,000 topped up at half. Nothing is allocated per message and there is no system call per
// message.
//
// With [Options.Dir] it is the yardstick of deliveries: it appends sends and settlements to a file,
// syncs them in groups before it answers, and gives the messages, which it holds in memory, to
// receivers with credit. It has no locks, no order on disk that has to be read back, and no
// redelivery: the difference to the broker is the price of those.
//
// [Disk] is the other yardstick: appends and fdatasyncs in a row, the limit of a single durable
// write.
//
// The package knows nothing of tokens or time, and of queues only what [Options.Dir] needs. Every
// address exists and every token is good.
package floor
